"""The private report's pictures: columns, labels, pairs, class sizes, queries, classifiers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from ...accounting.charts import BarRow, Legend, bar_chart, dot, line, line_chart, log_axis, triangle_chart
from ...mechanisms.measures.classification import Classification
from ...mechanisms.measures.counted_records import QueryErrors
from ...mechanisms.measures.utility import CLASS_EDGES, ColumnUtility, UtilityMeasures

MOST_LABELS = 24
MOST_PAIR_COLUMNS = 16
LEAST_ERROR = 1e-4
SERIES = (("before", "all records"), ("after", "release"))


def column_picture(columns: Sequence[ColumnUtility]) -> Markup:
    """Return what each column loses: detail by its hierarchy, and bits by its values."""
    rows = [
        BarRow(
            label=column.name,
            values=(column.granularity, column.entropy.share),
            shown=(f"{column.granularity:.1%}", f"{column.entropy.share:.1%}"),
        )
        for column in columns
    ]
    series = (("before", "granularity lost"), ("after", "entropy lost"))
    return bar_chart(rows, series=series, key="columns", title="What coarsening loses in each column", most=1.0)


def label_picture(column: ColumnUtility, *, key: str) -> Markup:
    """Return the shares of a column's labels before and after; rare labels are put together."""
    totals = sum(column.before) or 1, sum(column.after) or 1
    places = sorted(range(len(column.labels)), key=lambda place: -column.before[place])
    chosen = sorted(places[: MOST_LABELS if len(places) <= MOST_LABELS else MOST_LABELS - 1])
    rows = [_label_row(column.labels[place], column.before[place], column.after[place], totals) for place in chosen]
    if rest := places[len(chosen) :]:
        sums = sum(column.before[place] for place in rest), sum(column.after[place] for place in rest)
        rows.append(_label_row(f"{len(rest)} rarer labels", *sums, totals))
    return bar_chart(rows, series=SERIES, key=key, title=f"Labels of {column.name}, share of the records")


def _label_row(label: str, before: int, after: int, totals: tuple[int, int]) -> BarRow:
    shares = before / totals[0], after / totals[1]
    return BarRow(label=label, values=shares, shown=(f"{shares[0]:.1%}", f"{shares[1]:.1%}"))


def class_size_picture(measures: UtilityMeasures) -> Markup:
    """Return how large the class is that a record stands in: before, coarsened, released."""
    ends = [edge - 1 for edge in CLASS_EDGES[1:]]
    names = [f"{low}" if low == high else f"{low} to {high}" for low, high in zip(CLASS_EDGES, ends, strict=False)]
    names.append(f"{CLASS_EDGES[-1]} or more")
    tables = (measures.before, measures.coarsened, measures.after)
    rows = [
        BarRow(
            label=f"{name} record{'' if name == '1' else 's'}",
            values=tuple(table.shares[place] for table in tables),
            shown=tuple(f"{table.shares[place]:.1%}" for table in tables),
        )
        for place, name in enumerate(names)
    ]
    series = (("before", "as they are"), ("middle", "coarsened"), ("after", "released"))
    return bar_chart(rows, series=series, key="classes", title="Share of the records by the size of their class")


def classifier_picture(found: Classification) -> Markup:
    """Return the accuracy of each classifier."""
    rows = [
        BarRow(label=score.trained_on, values=(score.accuracy,), shown=(f"{score.accuracy:.1%}",))
        for score in found.scores
    ]
    title = f"Share of the held-out records whose {found.target} is told rightly"
    return bar_chart(rows, series=(("after", "accuracy"),), key="classifiers", title=title, most=1.0)


def query_picture(errors: QueryErrors) -> Markup:
    """Relative errors of counting queries by the size of the true answer."""
    if not errors.by_size:
        return Markup("")
    points = [(math.sqrt(one.least * one.below), one) for one in errors.by_size]
    lines = [
        ("high", "95 of 100 below", [(at, max(one.high, LEAST_ERROR)) for at, one in points]),
        ("median", "median", [(at, max(one.median, LEAST_ERROR)) for at, one in points]),
    ]
    alone = [(at, max(one.sampling_alone, LEAST_ERROR)) for at, one in points if one.sampling_alone is not None]
    if alone:
        lines.append(("alone", "median by sampling alone", alone))
    values = [up for _, _, places in lines for _, up in places]
    x = log_axis(errors.by_size[0].least, errors.by_size[-1].below, name="true answer, in records", across=True)
    y = log_axis(min(values), max(values), name="error", across=False)
    dots = [dot(*place, x=x, y=y, radius=4, style=f"dot {style}") for style, _, places in lines for place in places]
    said = " ".join(
        f"Answers of {one.least} to {one.below - 1}: median error {one.median:.3g}, 95 of 100 below {one.high:.3g}"
        + (f", by sampling alone {one.sampling_alone:.3g}." if one.sampling_alone is not None else ".")
        for one in errors.by_size
    )
    return line_chart(
        [*(line(places, x=x, y=y, style=style) for style, _, places in lines), *dots],
        x=x,
        y=y,
        legends=[Legend(style=style, text=name) for style, name, _ in lines],
        key="queries",
        title="Errors of counting queries by the size of the true answer",
        description=said,
    )


def pair_picture(measures: UtilityMeasures) -> Markup:
    """Distances of pairs of columns as a triangle of cells; empty for one column or very many."""
    names = [column.name for column in measures.columns]
    if not 2 <= len(names) <= MOST_PAIR_COLUMNS:
        return Markup("")
    distances = {(pair.columns[0], pair.columns[1]): pair.distance for pair in measures.pairs}
    return triangle_chart(names, distances, key="pairs", title="Distance of each pair of columns")
