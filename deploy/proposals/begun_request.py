"""The text of a request: a researcher's question, with labels and bounds from the release that it is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...flows.request_files import FORMAT, RequestFile, parsed_request, requested, toml_text
from ...mechanisms.hierarchies.build import labels_beyond
from ...mechanisms.hierarchies.declare import BUCKET_LABEL, Hierarchy, IntervalHierarchy
from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.wording import did_you_mean

if TYPE_CHECKING:
    from ...analysis import LoadedRelease
    from ...analysis.regressions import Part
    from ...flows.releases.answer_release import AnswerRequest
    from ...mechanisms.generalization_map import MappedColumn

HEAD = "# A request for one answer. Send it to the steward of the data set; docs/asking.md says what becomes of it.\n"
NOT_WRITTEN = "Nothing was written."


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What a researcher asks, as it is said on the command line.

    Args:
        kind: "count", "sum", "mean" or "regression".
        column: whose numbers are added up; None of counts and regressions.
        formula: of a regression; None of others.
        by: columns whose labels make groups.
        levels: of columns' labels, where they are said.
        bounds: of columns of numbers, where they are said.
        labels: of columns, where they are said.
        least_records: N of a mean.
    """

    kind: str
    column: str | None = None
    formula: str | None = None
    by: tuple[str, ...] = ()
    levels: Mapping[str, int] = field(default_factory=dict)
    bounds: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    labels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    least_records: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Asking:
    """Who asks, why, of which data, and at which ε.

    Args:
        name: of the request.
        asked_by: whoever asks.
        purpose: why.
        dataset: whose records; None for those of the release.
        epsilon: that is suggested.
    """

    name: str
    asked_by: str
    purpose: str
    dataset: str | None
    epsilon: Decimal


def begun_request(
    question: Question, asking: Asking, *, release: LoadedRelease | None, path: Path
) -> tuple[str, RequestFile, AnswerRequest]:
    """Return the text of a request, what it says when it is read, and the answer that it asks for.

    Args:
        question: what is asked.
        asking: by whom, why, and of what.
        release: that it is about; None for none.
        path: of the request's file, for messages.

    Raises:
        InputRefused: a column or label that there isn't, or a question that can't be answered.
    """
    certificate = {} if release is None else release.certificate
    dataset = asking.dataset or certificate.get("dataset")
    if dataset is None:
        raise InputRefused(
            "which data set is asked of isn't known.",
            not_done=NOT_WRITTEN,
            remedy="Name a release of it with --about, or its name with --dataset.",
        )
    if certificate and dataset != certificate["dataset"]:
        raise InputRefused(
            f"the release is of the data set {certificate['dataset']!r}, and --dataset names {dataset!r}.",
            where="--dataset",
            not_done=NOT_WRITTEN,
            remedy="Leave out one of the two.",
        )
    if "unit_records" in certificate and (question.kind != "count" or not question.by):
        raise InputRefused(
            "each row of this release is made of several records, and of such rows counts by group are answered alone.",
            where="--about",
            not_done=NOT_WRITTEN,
            remedy="Ask with --count and --by COLUMN.",
        )
    columns = _Columns(question, () if release is None else release.published.columns)
    answer = _asked(question, columns)
    table = {
        "format": FORMAT,
        "name": asking.name,
        "asked_by": asking.asked_by,
        "purpose": asking.purpose,
        "dataset": dataset,
        **({"release": certificate["release_id"]} if certificate else {}),
    }
    columns.require_all_used()
    tables = {"request": table, "answer": {**answer, "epsilon": asking.epsilon}, "columns": columns.declared}
    text = HEAD + toml_text(tables)
    asked = parsed_request(text.encode("utf-8", "surrogatepass"), path)  # refused where it isn't UTF-8
    # Of labels that a release has, the steward's specification knows the hierarchy; here its labels stand for it.
    known = asked.written.get("columns", {}) | columns.listed
    stand_in = {"release": {"name": asked.label, "output": "answer"}, "data": {"dataset": dataset, "source": "-"}}
    tried = {**stand_in, "answer": asked.written["answer"], "columns": known}
    return text, asked, requested(tried, path=path, base=path.parent)


class _Columns:
    """The columns of a request, declared as they are asked for."""

    def __init__(self, question: Question, known: Sequence[MappedColumn]) -> None:
        self._question = question
        self._known = {column.name: column for column in known}
        self.declared: dict[str, dict[str, Any]] = {}
        self.listed: dict[str, dict[str, Any]] = {}
        self._used: set[str] = set()

    def labelled(self, name: str, *, label: str | None = None) -> None:
        """Declare a column of labels.

        Args:
            name: of the column.
            label: that it must have; None where any are right.
        """
        self._used.add(name)
        given, level = self._question.labels.get(name), self._question.levels.get(name)
        if given is not None:
            labels = list(given)
            self._require_labels(name, labels)
            self.declared[name] = {"values": labels, "level": level or 0}
        else:
            column = self.known(name, missing=f"Name its labels: --label {name}=…, once for each.")
            level = column.level if level is None else level
            if not 0 <= level < column.hierarchy.levels:
                raise InputRefused(
                    f"the labels of column {name!r} have levels 0 to {column.hierarchy.levels - 1}, not {level}.",
                    where="--level",
                    not_done=NOT_WRITTEN,
                )
            labels = [one for one in _labels(column.hierarchy, level) if one != BUCKET_LABEL]
            self.declared[name] = {"hierarchy_sha256": column.hierarchy.digest(), "level": level}
            self.listed[name] = {"values": labels, "level": 0} if labels else {"values": ["-"], "level": 1}
        if label is not None and label not in labels:
            raise InputRefused(
                f"column {name!r} has no label {label!r} at this level.",
                not_done=NOT_WRITTEN,
                remedy=did_you_mean([label], labels) or f"There are {', '.join(labels[:20])}.",
            )

    def _require_labels(self, name: str, labels: Sequence[str]) -> None:
        """Refuse labels that are no values of a column of the release: no record could be counted by them."""
        if (column := self._known.get(name)) is None:
            return
        if unknown := labels_beyond(column.hierarchy, labels, level=0):
            raise InputRefused(
                f"column {name!r} has no value {min(unknown)!r}.",
                where="--label",
                not_done=NOT_WRITTEN,
                remedy="Leave out --label: the release has the column's labels, and --level names coarser ones.",
            )

    def bounds(self, name: str) -> tuple[int, int]:
        """Return the bounds of a column of numbers: those that were given, or those of the release."""
        self._used.add(name)
        if (given := self._question.bounds.get(name)) is not None:
            return given
        hierarchy = self.known(name, missing=f"Give its bounds: --bounds {name} LOWER UPPER.").hierarchy
        if not isinstance(hierarchy, IntervalHierarchy):
            raise InputRefused(
                f"column {name!r} has labels, and no bounds of whole numbers.",
                not_done=NOT_WRITTEN,
                remedy=f"Give bounds, if it has numbers: --bounds {name} LOWER UPPER; in a regression, C({name}) takes "
                "its labels.",
            )
        return hierarchy.lower, hierarchy.upper - 1

    def known(self, name: str, *, missing: str) -> MappedColumn:
        """Return a column of the release; a refusal says what is missing."""
        if (column := self._known.get(name)) is not None:
            return column
        if not self._known:
            raise InputRefused(f"nothing is known of column {name!r}.", not_done=NOT_WRITTEN, remedy=missing)
        similar = did_you_mean([name], self._known) or f"It has {', '.join(self._known)}."
        raise InputRefused(
            f"the release has no column {name!r}.",
            not_done=NOT_WRITTEN,
            remedy=f"{similar} If the data set has it: {missing[0].lower()}{missing[1:]}",
        )

    def first(self) -> str | None:
        """Return any column of the release; None without one."""
        return next(iter(self._known), None)

    def require_all_used(self) -> None:
        """Refuse labels, levels and bounds of columns that aren't asked for."""
        given = {"--label": self._question.labels, "--level": self._question.levels, "--bounds": self._question.bounds}
        for option, own in given.items():
            for name in own:
                if name not in self._used:
                    raise InputRefused(
                        f"column {name!r} is not asked for.", where=option, not_done=NOT_WRITTEN, remedy="Leave it out."
                    )


def _labels(hierarchy: Hierarchy, level: int) -> list[str]:
    import numpy as np

    return hierarchy.labels(np.arange(hierarchy.size(level), dtype=np.int64), level)


def _asked(question: Question, columns: _Columns) -> dict[str, Any]:
    """Return what [answer] says, but for its ε; the columns are declared on the way."""
    if question.kind == "regression":
        _declare_regression(question, columns)
        return {"kind": "moments"}
    for name in question.by:
        columns.labelled(name)
    answer: dict[str, Any] = {"kind": question.kind, **({"by": list(question.by)} if question.by else {})}
    if question.column is not None:
        lower, upper = columns.bounds(question.column)
        answer |= {"column": question.column, "lower": lower, "upper": upper}
    elif not question.by:
        if (any_column := columns.first()) is None:
            raise InputRefused(
                "a count of all records is read from a column, and none is known.",
                where="--count",
                not_done=NOT_WRITTEN,
                remedy="Name groups with --by, or a release with --about.",
            )
        answer["column"] = any_column
    if question.least_records is not None:
        answer["least_records"] = question.least_records
    return answer


def _declare_regression(question: Question, columns: _Columns) -> None:
    response, parts = _parts(question)
    seen: dict[str, bool] = {}
    for part in (response, *parts):
        if part.function is not None:
            raise InputRefused(
                f"sums of products have numbers as they are, and not {part.function}({part.column}).",
                where="--regression",
                not_done=NOT_WRITTEN,
                remedy="Have the steward add such a column to the source.",
            )
        as_labels = part.categories or part.label is not None
        if seen.setdefault(part.column, as_labels) is not as_labels:
            raise InputRefused(
                f"column {part.column!r} is taken both by its numbers and by its labels.",
                where="--regression",
                not_done=NOT_WRITTEN,
                remedy="Take it in one way.",
            )
        if as_labels:
            columns.labelled(part.column, label=part.label)
        else:
            lower, upper = columns.bounds(part.column)
            columns.declared[part.column] = {"bounds": {"lower": lower, "upper": upper}}
    if response.categories:
        raise InputRefused(
            f"the response {response.column!r} is no number.",
            where="--regression",
            not_done=NOT_WRITTEN,
            remedy=f"Name one of its labels, {response.column}[…], for the share that has it.",
        )


def _parts(question: Question) -> tuple[Part, tuple[Part, ...]]:
    from ...analysis.regressions import parsed

    try:
        return parsed(question.formula or "")
    except InputRefused as fault:
        raise InputRefused(fault.what, where="--regression", not_done=NOT_WRITTEN, remedy=fault.remedy) from None


def answered_already(question: Question, release: LoadedRelease) -> str | None:
    """Return the call of the researcher's kit that answers a question by what a release has counted; None for none.

    Counts of one column, and of a counted pair, answer it; means and regressions too, as exactly as its labels are.
    """
    columns = {column.name: column for column in release.published.columns}
    parts: tuple[Part, ...] = ()
    if question.kind == "regression":
        response, others = _parts(question)
        parts = (response, *others)
    added_up = () if question.column is None else (question.column,)
    names = {*question.by, *added_up, *(part.column for part in parts)}
    if not release.published.margins or not names <= columns.keys() or (len(names) > 2 and not parts):
        return None
    if question.labels or any(level < columns[name].level for name, level in question.levels.items()):
        return None
    counted = [{release.published.columns[place].name for place in pair.columns} for pair in release.published.pairs]
    if any({one, other} not in counted for one, other in combinations(sorted(names), 2)):
        return None
    by = ", ".join(f'"{name}"' for name in question.by)
    match question.kind:
        case "count":
            return f"release.table({by})" if by else "release.count()"
        case "regression":
            return f'release.regression("{question.formula}")'
        case _:
            mean = f'release.mean("{question.column}"{f", by={by}" if by else ""})'
            return mean if question.kind == "mean" else f"{mean}, times the counts of release.table or release.count"
