"""The three ways in which the product says no; each is one message for a person, never a traceback."""

from __future__ import annotations

import re

STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters but tab and newline, marks that turn the direction of writing, and halves of characters."""


def visible(text: str) -> str:
    r"""Return a text with each character that could steer a terminal or hide text as its code, such as \u001b."""
    return STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def one_line(text: str) -> str:
    """Return the same, for a text that must not look like several lines or cells."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


class Refusal(Exception):
    """Something was refused: says what, where, what was not done, and what to do next.

    PRIVACY: `what` and `where` may name files, keys, lines, and public values (specification, hierarchies,
    prices), never a value of the records.

    Args:
        what: the fault in one sentence, with its numbers.
        where: file, line or key, for example "adult.toml: [sampling].rate"; empty where there is none.
        not_done: what therefore did not happen; each kind has its usual sentence.
        remedy: what the reader can do next.
        cause: short name of the class of the fault, for programs; each kind has its usual one.
    """

    exit_code = 1
    nothing_done = ""
    usual_cause = "failed"

    def __init__(
        self, what: str, *, where: str = "", not_done: str | None = None, remedy: str = "", cause: str = ""
    ) -> None:
        self.what = what
        self.where = where
        self.not_done = self.nothing_done if not_done is None else not_done
        self.remedy = remedy
        self.cause = cause or self.usual_cause
        super().__init__(self.message)

    @property
    def message(self) -> str:
        """The whole refusal: one line, and one more for each fault where it is a list of them."""
        head = f"{one_line(self.where)}: {self.what}" if self.where else self.what
        return visible(" ".join(part for part in (head, self.not_done, self.remedy) if part))


class InputRefused(Refusal):
    """The specification or the command is wrong; nothing was charged (exit code 2)."""

    exit_code = 2
    usual_cause = "input"
    nothing_done = "Nothing was read, written or charged."


class AccountantRefused(Refusal):
    """The accountant refuses; nothing was read or published (exit code 3)."""

    exit_code = 3
    usual_cause = "accountant"
    nothing_done = "Nothing was read or published."


class ReleaseFailed(Refusal):
    """The work failed after the charge (exit code 1); the cost stays spent once reading has begun."""

    exit_code = 1
    nothing_done = "Nothing was published."
