"""How a column's values become labels, by a rule: from its name, its type, and the values of public records.

Nothing here sees a record of the release. Whatever is proposed is written out, for somebody to change.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from ...mechanisms.hierarchies.build import Rows
from ...mechanisms.hierarchies.declare import BUCKET_LABEL
from ...tasks.readers.file_formats import ColumnKind
from .column_roles import NOT_RELEASED, Role, column_role, parts_of_name
from .public_records import PublicColumn

FEW_VALUES = 20
"""So many different numbers are a list of values, and more are intervals."""
FINEST_LABELS = 100
"""At most so many labels are counted at a column's finest level, where its hierarchy has a coarser one."""
FREQUENT = ((60, 0.001), (20, 0.01), (8, 0.05), (2, 0.1))
"""Levels of a list: at most how many values keep their own label, and their least share of the public records."""
MOST_LISTED = 5_000
"""Values of a list; a text with more is asked about."""
INTERVALS = 20
"""About so many intervals of the finest width hold four fifths of the public numbers."""
MOST_INTERVALS = 60
_NESTED = {1: (1, 5, 10, 50), 2: (2, 10, 20, 100), 5: (5, 10, 50, 100)}
"""Widths whose finest has this first digit: each divides the next. The widest leave few labels, as rows of many columns
need."""
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([ T].*)?")
_DIGITS = re.compile(r"[0-9]+")
_SEPARATORS = "-./_ "


@dataclass(frozen=True, kw_only=True, slots=True)
class ProposedColumn:
    """What is proposed of a column.

    Args:
        remarks: what to know of it, or why it isn't released.
        domain: the line of TOML that declares its values; None where a file of rows does, or nobody knows them.
        rows: of a hierarchy that is to be written; None where none is.
        levels: of the hierarchy, `*` included.
        min_level: the finest level to be counted.
        released: whether it is proposed to be released.
    """

    remarks: tuple[str, ...] = ()
    domain: str | None = None
    rows: Rows | None = None
    levels: int = 0
    min_level: int = 0
    released: bool = False

    @property
    def complete(self) -> bool:
        """Tell whether its values are declared."""
        return self.domain is not None or self.rows is not None


def proposed_by_name(name: str, kind: ColumnKind, role: Role) -> ProposedColumn | None:
    """Return what name and type alone tell; None where they don't tell which values there are."""
    if kind == "boolean":
        return ProposedColumn(domain='values = ["false", "true"]', levels=2, released=True)
    if kind not in ("integer", "unknown"):
        return None
    whole = "".join(part for part in parts_of_name(name) if not part.isdigit())
    if role == "age":
        found = _interval(Decimal(0), Decimal(100), [5, 10, 20, 40])
    elif whole in ("month", "monat", "mois"):
        found = _interval(Decimal(1), Decimal(13), [3, 6])
    elif whole in ("hour", "stunde", "heure"):
        found = _interval(Decimal(0), Decimal(24), [4, 8])
    elif whole in ("birthyear", "yearofbirth", "yob", "geburtsjahr"):
        found = _interval(Decimal(1900), Decimal(2030), [5, 10, 50])
    else:
        return None
    remark = "Bounds by its name: everybody outside them has the label below or above. Check them."
    return ProposedColumn(domain=found, levels=found.count(",") - 1, remarks=(remark,), released=True)


def proposed_by_public(kind: ColumnKind, role: Role, public: PublicColumn) -> ProposedColumn:
    """Return what the values of public records tell.

    Args:
        kind: of the column in the records of the release.
        role: what the column seems to be.
        public: its values in public records.
    """
    texts = public.texts
    mostly_numbers = 2 * len(public.numbers) > public.records
    if (why := _not_told(kind, public, mostly_numbers=mostly_numbers)) is not None:
        return ProposedColumn(remarks=(why,))
    if kind == "date" or (public.complete and all(map(_DAY.fullmatch, texts))):
        return _days(texts)
    if mostly_numbers and role != "code" and (kind == "number" or public.distinct > FEW_VALUES):
        return _numbers(kind, public)
    listed = {text: times for text, times in texts.items() if text.isprintable() and text != BUCKET_LABEL}
    if (role == "code" and _with_digits(listed)) or (public.distinct > FREQUENT[0][0] and _like_codes(listed)):
        rows = prefix_levels(sorted(listed, key=_natural))
        if rows is not None:
            return _of_rows(rows, ("Levels are prefixes of its codes.", _UNSEEN))
    return _listed(listed)


def _not_told(kind: ColumnKind, public: PublicColumn, *, mostly_numbers: bool) -> str | None:
    """Return why public values give no labels; None where they do."""
    if public.distinct < 2:
        return "The public records have one value of it at the most, so it would tell nothing."
    if kind == "date":
        return None
    if mostly_numbers:
        numbered = kind != "number" and _numbers_records(public)
        return "It has another number in each public record, as if it numbered them." if numbered else None
    if public.records >= 50 and 2 * public.distinct > public.records:
        return "Most public records have a text of their own here, as names and free texts have."
    if public.distinct > MOST_LISTED:
        return f"The public records have {public.distinct:,} different texts here."
    return None


_UNSEEN = "Values that the public records don't have are published as *: add those that a public list has."


def _listed(texts: Mapping[str, int]) -> ProposedColumn:
    rows = frequency_levels(texts)
    if len(rows[0]) == 2:
        values = ", ".join(_text(value) for value, *_ in rows)
        return ProposedColumn(domain=f"values = [{values}]", levels=2, remarks=(_UNSEEN,), released=True)
    return _of_rows(rows, ("Values that are rare in the public records are merged at coarser levels.", _UNSEEN))


def _of_rows(rows: Rows, remarks: tuple[str, ...]) -> ProposedColumn:
    sizes = [len({*labels}) for labels in zip(*rows, strict=True)]
    finest = next(level for level, size in enumerate(sizes) if size <= FINEST_LABELS)
    return ProposedColumn(rows=rows, levels=len(sizes), min_level=finest, remarks=remarks, released=True)


def frequency_levels(texts: Mapping[str, int]) -> Rows:
    """Return a list of values whose rare ones are merged at coarser levels, and `*`.

    Args:
        texts: by how many public records have each.
    """
    ranked = sorted(texts, key=lambda text: (-texts[text], text))
    records, other = sum(texts.values()), "other values"
    while other in texts:
        other += "'"
    columns = [sorted(texts, key=_natural)]
    for most, least in FREQUENT:
        kept = {text for text in ranked[:most] if texts[text] >= least * records}
        labels = [text if text in kept else other for text in columns[0]]
        if kept and labels.count(other) > 1 and len({*labels}) < len({*columns[-1]}):
            columns.append(labels)
    return [(*row, BUCKET_LABEL) for row in zip(*columns, strict=True)]


def prefix_levels(codes: Sequence[str]) -> Rows | None:
    """Return codes with ever shorter prefixes, each of which tells markedly less; None where none does.

    Numbers of different lengths are read as if they had zeros before them, so that 170 and 8680 begin with 01 and 86.
    """
    longest = max(map(len, codes))
    numbered = [len(code) for code in codes if _DIGITS.fullmatch(code)]
    others_are_words = not any(_DIGITS.search(code) for code in codes if not _DIGITS.fullmatch(code))
    padded = max(numbered) if numbered and others_are_words else 0
    whole = [code.zfill(padded) if _DIGITS.fullmatch(code) else code for code in codes]
    columns, before = [list(codes)], len({*codes})
    found: dict[int, list[str]] = {}
    for length in range(longest - 1, 0, -1):
        labels = [_stem(code[:length]) for code in whole]
        ends_a_part = all(code[length] in _SEPARATORS for code in whole if len(code) > length)
        # Of prefixes that tell the same the longest, but for one that ends where a part of the code does.
        if ends_a_part or len({*labels}) not in found:
            found[len({*labels})] = labels
    for labels_now, labels in found.items():
        if 1 < labels_now <= 0.6 * before:
            columns.append(labels)
            before = labels_now
    return None if len(columns) == 1 else [(*row, BUCKET_LABEL) for row in zip(*columns, strict=True)]


def _stem(prefix: str) -> str:
    """Return a prefix without the separator that it ends with; the prefix where nothing else is left."""
    return prefix.rstrip(_SEPARATORS) or prefix


def _with_digits(texts: Mapping[str, int]) -> bool:
    """Return whether most texts have a digit: an occupation may be a code, or a word whose prefix says nothing."""
    return 2 * sum(_DIGITS.search(text) is not None for text in texts) > len(texts)


def _like_codes(texts: Mapping[str, int]) -> bool:
    """Return whether all texts have one length and a digit, as codes do and words don't."""
    return len({len(text) for text in texts}) == 1 and all(_DIGITS.search(text) for text in texts)


def _is_number(text: str) -> bool:
    return _natural(text)[0] == 0


def _natural(text: str) -> tuple[int, float, str]:
    """Return by what values are sorted: numbers by their size before texts."""
    try:
        return 0, float(text), text
    except ValueError:
        return 1, 0.0, text


def _numbers_records(public: PublicColumn) -> bool:
    """Return whether whole numbers that differ in all records lie so near each other as numbers of records do."""
    numbers = public.numbers
    span = numbers[-1] - numbers[0]
    all_differ = public.distinct == public.records == len(numbers) >= 100
    return all_differ and all(number == int(number) for number in numbers) and span < 3 * len(numbers)


def _days(texts: Mapping[str, int]) -> ProposedColumn:
    days = sorted(text[:10] for text in texts if _DAY.fullmatch(text))
    if not days:
        return ProposedColumn(remarks=("No public record has a day such as 2026-03-31 here.",))
    line = (
        f'dates = {{ from = "{days[0][:4]}-01-01", to = "{days[-1][:4]}-12-31", '
        'levels = ["month", "quarter", "year", "decade"] }'
    )
    several_years = int(days[-1][:4]) > int(days[0][:4])
    return ProposedColumn(domain=line, levels=6, min_level=int(several_years), released=True)


def _numbers(kind: ColumnKind, public: PublicColumn) -> ProposedColumn:
    """Return intervals around nearly all public numbers, whole or decimal as these are."""
    numbers = public.numbers
    low, high = (_quantile(numbers, share) for share in (0.005, 0.995))
    # 5000.0 is no whole number of an interval of whole numbers, but one of decimal numbers.
    decimal = kind == "number" or (kind != "integer" and any("." in text for text in public.texts if _is_number(text)))
    # The width follows from where most numbers lie: a few large ones would stretch it until all others share one.
    width = _nice((_quantile(numbers, 0.9) - _quantile(numbers, 0.1) or high - low) / INTERVALS)
    if not decimal:
        width = max(width, Decimal(1))
    first, last = Decimal(low), Decimal(min(high, low + float(width) * MOST_INTERVALS))
    mantissa = int(width.scaleb(-width.adjusted()))
    widths = [width / mantissa * times for times in _NESTED[mantissa]]
    widths = [one for one in widths if 2 * one <= last - first]
    step = widths[min(1, len(widths) - 1)] if widths else width
    lower, upper = (Decimal(math.floor(one / step)) * step for one in (first, last + step))
    remarks = [f"Bounds and widths of {len(numbers):,} public numbers; those outside have the label below or above."]
    if public.not_numbers:
        words = sorted((text for text in public.texts if _natural(text)[0]), key=lambda text: -public.texts[text])
        shown = f", such as {_text(words[0])}," if words else ""
        remarks.append(f"Other texts{shown} are published as *: {public.not_numbers / public.records:.0%} of them.")
    if decimal:
        widths = [width.quantize(Decimal("0.1")) if width == int(width) else width for width in widths]
        lower, upper = (one.quantize(Decimal("0.1")) if one == int(one) else one for one in (lower, upper))
        return ProposedColumn(
            domain=_interval(lower, upper, widths),
            levels=len(widths) + 2,
            min_level=1 if widths else 0,
            remarks=tuple(remarks),
            released=True,
        )
    widths = [width for width in widths if width > 1]
    return ProposedColumn(
        domain=_interval(lower, upper, widths),
        levels=len(widths) + 2,
        min_level=int(upper - lower > FINEST_LABELS and bool(widths)),
        remarks=tuple(remarks),
        released=True,
    )


def weight_bounds(public: PublicColumn) -> list[Decimal] | None:
    """Return bounds of classes of weights, two to each doubling, around nearly all public ones; None where none is.

    A total of weights is about as exact as the middles of their classes are, and its noise grows with the last bound.
    """
    weights = [number for number in public.numbers if number > 0]
    if not weights:
        return None
    low, high = (_quantile(weights, share) for share in (0.005, 0.995))
    bounds = [_nice(low)]
    if bounds[0] > low:
        bounds = [bounds[0] / 2]
    while bounds[-1] < high or len(bounds) < 3:
        bounds += [bounds[-1] * Decimal("1.4"), bounds[-1] * 2]
    return bounds[:MOST_INTERVALS]


def _quantile(numbers: Sequence[float], share: float) -> float:
    return numbers[min(len(numbers) - 1, int(share * len(numbers)))]


def _nice(width: float) -> Decimal:
    """Return the least of 1, 2 and 5 times a power of ten that isn't below a width; 1 of none."""
    if width <= 0:
        return Decimal(1)
    power = Decimal(1).scaleb(math.floor(math.log10(width)))
    return next(power * times for times in (1, 2, 5, 10) if float(power * times) >= width * (1 - 1e-9))


def _interval(lower: Decimal, upper: Decimal, widths: Sequence[Decimal | int]) -> str:
    listed = ", ".join(f"{width:f}" if isinstance(width, Decimal) else str(width) for width in widths)
    return f"interval = {{ lower = {lower:f}, upper = {upper:f}, widths = [{listed}] }}"


def _text(value: str) -> str:
    """Return a basic string of TOML: JSON's, but that DEL must be escaped too."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def column_lines(column: ProposedColumn, *, file: str, automatic: bool) -> Iterator[str]:
    """Yield the lines of a column whose values are declared, from the second on.

    Args:
        column: what is proposed.
        file: of the hierarchy, where it has rows.
        automatic: whether the release finds its levels; else it has one in the middle.
    """
    yield f"hierarchy = {_text(file)}" if column.domain is None else column.domain
    if automatic:
        yield 'levels = "auto"'
        if column.min_level:
            yield f"min_level = {column.min_level}"
    else:
        yield f"level = {max(column.min_level, column.levels // 2 if column.levels > 2 else 0)}"


def proposed_column(name: str, kind: ColumnKind, public: PublicColumn | None) -> ProposedColumn:
    """Return what is proposed of a column that nobody has declared.

    Args:
        name: as the source has it.
        kind: of its type.
        public: its values in public records; None where there are none.
    """
    role = column_role(name, kind)
    if role in NOT_RELEASED:
        return ProposedColumn(remarks=(NOT_RELEASED[role],))
    by_name = proposed_by_name(name, kind, role)
    if by_name is not None and (public is None or kind == "boolean" or role == "age"):
        return by_name
    if public is not None and kind != "unmapped":
        return proposed_by_public(kind, role, public)
    return ProposedColumn(remarks=("Nothing public tells its values.",) if kind != "unmapped" else ())
