"""The one way to a person's terminal: what is printed can neither steer it nor hide a part of the text."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO, cast

from ...mechanisms.kernel.errors import visible

if TYPE_CHECKING:
    from rich.console import Console


class EscapedStream:
    """A stream of text that writes control characters as their codes, as JSON does; all else is the stream's own.

    Args:
        stream: where the text goes.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write a text; how many characters were given is returned, as of any stream."""
        self.stream.write(visible(text))
        return len(text)

    def writelines(self, lines: Iterator[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the stream has
        return getattr(self.stream, name)


@contextmanager
def escaped_streams() -> Iterator[None]:
    """While a command runs, let standard output and standard error be escaped, whoever writes to them."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast("TextIO", EscapedStream(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def console(*, stderr: bool = False, highlight: bool = True) -> Console:
    """A console of rich's on a standard stream: its own colours reach the terminal, and no text's control characters.

    Args:
        stderr: whether it is standard error; else standard output.
        highlight: whether numbers and the like are coloured.
    """
    from rich.console import Console, ConsoleOptions, RenderableType  # most commands print plain lines alone
    from rich.segment import Segment

    class EscapedConsole(Console):
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
            for segment in super().render(renderable, options):
                yield segment if segment.control else Segment(visible(segment.text), segment.style)

    stream = sys.stderr if stderr else sys.stdout
    own = stream.stream if isinstance(stream, EscapedStream) else stream
    return EscapedConsole(file=own, highlight=highlight)
