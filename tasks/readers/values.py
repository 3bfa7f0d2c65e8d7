"""How stored records are read: what the specification declares of it, the same for every record."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, replace
from typing import Literal

Quoting = Literal["rfc4180", "none"]
Encoding = Literal["utf-8", "latin-1", "iso-8859-2", "iso-8859-15", "cp1250", "cp1251", "cp1252"]
DecimalSign = Literal[".", ","]

_COMMA_NUMBER = re.compile(rb"[+-]?([0-9]+(,[0-9]*)?|,[0-9]+)([eE][+-]?[0-9]+)?")
_POINT_NUMBER = re.compile(rb"[+-]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_WHOLE_FLOAT = re.compile(rb"(-?(?:0|[1-9][0-9]*))\.0*")
_ALWAYS_KEPT = ("separator", "null_values")


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordReading:
    """The keys of [data] that decide where a record begins and what its fields say.

    PRIVACY: each is a constant that is declared before records are read, and acts on one record at a time.

    Args:
        separator: field separator of CSV records, one character.
        quoting: of CSV: "rfc4180", where a quoted field may hold separators and line breaks; or "none", where every
            line is a record and a quote is a character like any other.
        encoding: of CSV: one in which the first 128 bytes are ASCII's, so that separators, quotes and line breaks are
            the same bytes in all of them.
        null_values: texts that mean "missing" and are published as "*".
        trim: whether white space at both ends of a text is left out.
        decimal: the decimal sign of numbers in texts. With ",", a number that is written with a point is unseen.
        whole_floats: whether a text such as 30.0 is read as the whole number that it writes, 30.
    """

    separator: str = ","
    quoting: Quoting = "rfc4180"
    encoding: Encoding = "utf-8"
    null_values: tuple[str, ...] = ("",)
    trim: bool = False
    decimal: DecimalSign = "."
    whole_floats: bool = False
    _null: frozenset[bytes] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_null", frozenset(text.encode() for text in self.null_values))

    @property
    def canonical(self) -> dict[str, object]:
        """What a charge is bound to: the keys that are not as they are where nothing is said, and the oldest two."""
        usual = RecordReading()
        kept: dict[str, object] = {"separator": self.separator, "null": list(self.null_values)}
        for key in fields(self):
            if key.init and key.name not in _ALWAYS_KEPT and getattr(self, key.name) != getattr(usual, key.name):
                kept[key.name] = getattr(self, key.name)
        return kept

    @property
    def of_unicode(self) -> RecordReading:
        """Return the same for texts that are UTF-8 whatever the specification says of CSV files, as Parquet's are."""
        return replace(self, encoding="utf-8")

    @property
    def rewrites(self) -> bool:
        """Tell whether any text means another than it is stored as."""
        return self.encoding != "utf-8" or self.trim or self.decimal != "." or self.whole_floats

    def meant(self, text: bytes) -> bytes | None:
        """Return what a stored text means, in UTF-8; None where it means nothing that is declared.

        Total: each text has one meaning, whatever other records have.
        """
        if self.encoding != "utf-8":
            try:
                text = text.decode(self.encoding).encode()
            except UnicodeDecodeError:
                return None
        if self.trim:
            try:
                text = text.decode().strip().encode()
            except UnicodeDecodeError:
                return None
        if text in self._null:
            return None
        if self.decimal == ",":
            # With a decimal comma a number with a point is ambiguous (a thousand, or a fraction), so it is undeclared.
            if _POINT_NUMBER.fullmatch(text):
                return None
            if _COMMA_NUMBER.fullmatch(text):
                text = text.replace(b",", b".")
        if self.whole_floats and (whole := _WHOLE_FLOAT.fullmatch(text)) is not None:
            text = b"0" if whole[1] == b"-0" else whole[1]
        # Once more: what the steps above made of a text may be one that is declared to mean missing.
        return None if text in self._null else text
