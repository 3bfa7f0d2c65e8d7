"""Searches what a run left behind for what must not be there: the secret, sampled records, suppressed values.

As a program: `python leak_scan.py FOLDER --secrets secrets.json --leave-out people.csv`, where the secrets are
{"keys": [hexadecimal digits], "texts": [...], "numbers": {name: number}, "positions": [...]}; it prints the findings
as JSON and leaves with 1 where there are any.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
import struct
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .traces import Traces, traces_of

__all__ = ["Secrets", "scan"]

LEAST_NUMBER = 100  # a smaller one stands everywhere by chance
LEAST_BINARY = 1 << 16  # the same, of eight bytes
WINDOW = 4  # so many sampled positions one after the other are no chance
MOST_WINDOWS = 40


@dataclass(frozen=True, kw_only=True)
class Secrets:
    """What must be nowhere.

    Args:
        keys: sampling keys.
        texts: suppressed values, and what identifies a record; as regular expressions.
        numbers: name → a number that follows the records, such as the sample's size.
        positions: places of sampled records in their file, ascending.
    """

    keys: tuple[bytes, ...] = ()
    texts: Mapping[str, bytes] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)
    positions: tuple[int, ...] = ()

    def patterns(self) -> Iterator[tuple[str, re.Pattern[bytes]]]:
        """Each thing with what it looks like, wherever it may have been written.

        Each begins with its literal text, and looks back from behind it: so it is searched for twenty times as fast.
        """
        for key in self.keys:
            for form, text in _forms_of_key(key):
                yield f"sampling key ({form})", re.compile(re.escape(text), re.IGNORECASE if form == "hex" else 0)
        for name, text in self.texts.items():
            yield name, re.compile(text)
        for name, number in self.numbers.items():
            if abs(number) >= LEAST_NUMBER:
                # A port of this machine and the thousandths of a logged time are no more than chance.
                chance = rb"(?<!127\.0\.0\.1:%d)(?:(?<!:\d\d,%d)|(?! - ))" % (number, number)
                yield name, re.compile(rb"%d(?<![\da-f.-]%d)%s(?![\da-f])(?!\.\d)" % (number, number, chance))
            if LEAST_BINARY <= abs(number) < 1 << 31:
                yield f"{name} (binary)", re.compile(re.escape(struct.pack("<q", number)))
                yield f"{name} (pickled)", re.compile(re.escape(b"J" + struct.pack("<i", number)))
        windows = [self.positions[i : i + WINDOW] for i in range(len(self.positions) - WINDOW + 1)]
        for window in windows[:MOST_WINDOWS]:
            first, *others = window
            text = rb"%d(?<!\d%d)" % (first, first) + b"".join(rb"\D{1,4}%d" % place for place in others) + rb"(?!\d)"
            yield f"sampled positions {window}", re.compile(text)
            for code in "qiI":
                yield (
                    f"sampled positions {window} (binary)",
                    re.compile(re.escape(struct.pack(f"<{WINDOW}{code}", *window))),
                )


def _forms_of_key(key: bytes) -> Iterator[tuple[str, bytes]]:
    yield "bytes", key
    yield "hex", key.hex().encode()
    yield "base64", base64.b64encode(key).rstrip(b"=")
    yield "base64 for URLs", base64.urlsafe_b64encode(key).rstrip(b"=")
    yield "text", repr(key)[2:-1].encode()
    yield "list", ", ".join(map(str, key)).encode()
    yield "number", str(int.from_bytes(key, "big")).encode()
    yield "backwards", key[::-1]


def scan(traces: Traces, secrets: Secrets) -> dict[str, list[str]]:
    """What was found, and where."""
    return {name: places for name, pattern in secrets.patterns() if (places := traces.holding(pattern))}


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--secrets", type=Path, required=True)
    parser.add_argument("--leave-out", action="append", default=[], help="A file below the folder: the input itself.")
    arguments = parser.parse_args()
    told = json.loads(arguments.secrets.read_text(encoding="utf-8"))
    secrets = Secrets(
        keys=tuple(bytes.fromhex(key) for key in told.get("keys", ())),
        texts={f"text {number}": re.escape(text.encode()) for number, text in enumerate(told.get("texts", ()))},
        numbers=told.get("numbers", {}),
        positions=tuple(told.get("positions", ())),
    )
    found = scan(traces_of(arguments.folder, leaving_out=frozenset(arguments.leave_out)), secrets)
    print(json.dumps({"ok": not found, "findings": found}, indent=2))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
