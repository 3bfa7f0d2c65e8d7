"""The one way to a person's terminal: text that can't steer it, stages, a progress bar, and how much is said."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

import click

from ...mechanisms.kernel.errors import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress


READING = ("select", "count")
_QUIET = "crowdblend.quiet"
_LOGGER = logging.getLogger("crowdblend")


class OutputLost(OSError):
    """A text can't be written to standard output; says why. It has no `errno`: click would end in silence by that."""


class GuardedStream:
    """Standard output or standard error, whose reader may leave, whose disk may fill up, or which may be closed.

    Args:
        stream: None where the process was started without it.
        needed: whether a text that can't be written raises OutputLost; it is dropped where not.
    """

    def __init__(self, stream: TextIO | None, *, needed: bool) -> None:
        # What is opened here gets the number of the one that is closed, which a file of the work would get otherwise.
        self.stream = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8") if stream is None else stream
        self._lost = "it is closed" if stream is None else ""
        self._needed = needed

    def write(self, text: str) -> int:
        """Write a text, and return how many characters were given."""
        if text:  # click writes nothing, to try what a stream is, and takes no notice of how that ends
            self._attempt(lambda: self.stream.write(text))
        return len(text)

    def flush(self) -> None:
        """Hand on what was written."""
        if not self._lost:
            self._attempt(self.stream.flush)

    def _attempt(self, step: Callable[[], object]) -> None:
        if not self._lost:
            try:
                step()
            except OSError as error:
                self._lost = error.strerror or type(error).__name__
                # From now on it leads nowhere: what is still in its buffer would fail again when Python ends.
                with suppress(OSError), Path(os.devnull).open("wb") as nowhere:
                    os.dup2(nowhere.fileno(), self.stream.fileno())
        if self._lost and self._needed:
            raise OutputLost(f"The result can't be written to standard output ({self._lost}).")

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the stream has
        return getattr(self.stream, name)


class EscapedStream:
    """A stream of text that writes control characters as their codes, as JSON does; all else is the stream's own."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write a text, and return how many characters were given, as any stream does."""
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
    """While a command runs, let standard output and standard error be escaped, whoever writes to them.

    What can't be written to standard error, such as progress, is dropped, and the work goes on.
    """
    before = sys.stdout, sys.stderr
    guarded = GuardedStream(sys.stdout, needed=True), GuardedStream(sys.stderr, needed=False)
    sys.stdout, sys.stderr = (cast("TextIO", EscapedStream(cast("TextIO", stream))) for stream in guarded)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def console(*, stderr: bool = False, highlight: bool = True) -> Console:
    """Return rich's console on a standard stream: its colours reach the terminal, but no text's control characters."""
    from rich.console import Console, ConsoleOptions, RenderableType  # most commands print plain lines alone
    from rich.segment import Segment

    class EscapedConsole(Console):
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
            for segment in super().render(renderable, options):
                yield segment if segment.control else Segment(visible(segment.text), segment.style)

    stream = sys.stderr if stderr else sys.stdout
    own = stream.stream if isinstance(stream, EscapedStream) else stream
    return EscapedConsole(file=own, highlight=highlight)


def is_quiet() -> bool:
    """Return whether the running command was asked to leave progress out; outside of the command line it was not."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_QUIET))


def add_verbosity(command: click.Command) -> click.Command:
    """Give a command, and all commands below it, the options -v and -q; once, however often it is asked for."""
    if isinstance(command, click.Group):
        for below in command.commands.values():
            add_verbosity(below)
    elif all(parameter.name != "quiet" for parameter in command.params):
        command.params += [
            click.Option(
                ["-v", "--verbose"],
                is_flag=True,
                expose_value=False,
                is_eager=True,
                callback=_be_verbose,
                help="Also say where the ledger and the private store lie, and where in the code a fault was.",
            ),
            click.Option(
                ["-q", "--quiet"],
                is_flag=True,
                expose_value=False,
                is_eager=True,
                callback=_be_quiet,
                help="No progress; results, warnings and refusals only.",
            ),
        ]
    return command


def _be_quiet(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    del param
    if value:
        ctx.meta[_QUIET] = True


def _be_verbose(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """PRIVACY: what is logged below `crowdblend` is places and versions, never a value of the records."""
    del ctx, param
    if value and not _LOGGER.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("crowdblend: %(message)s"))
        _LOGGER.addHandler(handler)
        _LOGGER.setLevel(logging.DEBUG)
        _LOGGER.propagate = False


def process_begun() -> float:
    """Return when this process began, by `time.perf_counter`: its imports are part of what a person waits for.

    Where the system does not tell (it is not Linux), now.
    """
    reported = Path("/proc/self/stat")
    if not reported.exists():
        return time.perf_counter()
    ticks = int(reported.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[19])
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return time.perf_counter() - max(age, 0.0)


class Stages:
    """Names each stage as it begins and keeps how long it took; what comes before the first is "start".

    PRIVACY: how far the count has come follows the number of records, so the bar is drawn for a person at a
    terminal only; a log gets the stages' names.

    Args:
        begun: when the work began, by `time.perf_counter`; None is now.
    """

    def __init__(self, *, begun: float | None = None) -> None:
        self.seconds = dict.fromkeys(("start", "charge", "select", "count", "publish", "close"), 0.0)
        self.ended: set[str] = set()
        self._begun = time.perf_counter() if begun is None else begun
        self._started = False
        self._last_shown = ""
        self._quiet = is_quiet()
        self._progress: Progress | None = None
        self._records: int | None = None
        self._n_bytes = 0
        self.release_id: str | None = None

    @cached_property
    def _console(self) -> Console:
        return console(stderr=True, highlight=False)

    def begin(self, release_id: str) -> None:
        """Say the id of the release that is about to be charged: whatever comes, it can be finished by its id."""
        self.release_id = release_id
        if self._console.is_terminal:
            import rich.progress  # noqa: F401 - loaded now, so that it is no part of the first stage's seconds
        self.tell(f"release {release_id}")

    def tell(self, text: str) -> None:
        """Say something in a line of its own, above the bar where one is drawn."""
        if self._progress is None:
            print(f"crowdblend: {text}", file=sys.stderr, flush=True)
        else:
            self._progress.console.print(f"crowdblend: {text}", markup=False, highlight=False, soft_wrap=True)

    def warn(self, text: str) -> None:
        """Print a warning before the first stage, also where the command was asked to be quiet."""
        print(text, file=sys.stderr, flush=True)

    def expect(self, *, records: int | None, n_bytes: int) -> None:
        """Take note of how much the stages that read records have before them; None where nobody knows how many."""
        self._records, self._n_bytes = records, n_bytes

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """One stage, from its beginning to its end."""
        begun = time.perf_counter()
        if not self._started:
            self.seconds["start"] = begun - self._begun
            self._started = True
        try:
            with self.shown(name):
                yield
            self.ended.add(name)
        finally:
            self.seconds[name] += time.perf_counter() - begun

    @contextmanager
    def shown(self, name: str) -> Iterator[None]:
        """Show one stage, from its beginning to its end; nothing where the command was asked to be quiet."""
        if self._quiet:
            yield
            return
        if not self._console.is_terminal:
            if name != self._last_shown:
                print(f"crowdblend: {name}", file=sys.stderr, flush=True)
            self._last_shown = name
            yield
            return
        bar = progress_bar(name, console=self._console, records=self._records, n_bytes=self._n_bytes)
        try:
            with bar as self._progress:
                yield
        finally:
            self._progress = None

    def on_progress(self, done: int, total: int) -> None:
        """Show how much of the running stage is done."""
        if self._progress is not None:
            self._progress.update(self._progress.task_ids[-1], completed=done, total=total)


def progress_bar(name: str, *, console: Console, records: int | None, n_bytes: int) -> Progress:
    """Return a bar for one stage, to be entered; those that read records also tell their pace and what is left."""
    from rich import progress
    from rich.text import Text

    class Pace(progress.ProgressColumn):
        """The pace of a stage whose work is known."""

        def render(self, task: progress.Task) -> Text:
            """Draw it."""
            share = task.completed / task.total if task.total else 0.0
            return Text(pace(share=share, seconds=task.elapsed or 0.0, records=records, n_bytes=n_bytes))

    columns: list[progress.ProgressColumn] = [
        progress.SpinnerColumn(),
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
    ]
    columns.append(progress.TimeElapsedColumn())
    if n_bytes and name in READING:
        columns += [progress.TextColumn("left"), progress.TimeRemainingColumn(), Pace()]
    bar = progress.Progress(*columns, console=console)
    bar.add_task(f"{name:8}", total=None)
    return bar


def pace(*, share: float, seconds: float, records: int | None, n_bytes: int) -> str:
    """Return how fast a stage goes, by the share (0 to 1) that is done: `2.1 M rows/s, 11.4 MB/s`; empty for none."""
    if share <= 0 or seconds <= 0:
        return ""
    flow = f"{_short(n_bytes * share / seconds)}B/s"
    return flow if records is None else f"{_short(records * share / seconds).rstrip()} rows/s, {flow}"


def _short(number: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number:.0f} "
