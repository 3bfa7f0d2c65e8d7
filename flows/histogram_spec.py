"""The [histogram] table of a specification: which counts of which declared cells, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

from ..accounting.theory.price import Price, price
from ..accounting.theory.refused_mechanisms import refuse_unsafe
from ..mechanisms.amount_format import amount_exact, amount_shown
from ..mechanisms.event import Histogram
from ..mechanisms.histogram import NoisyHistogram, OutlierPrivateHistogram, SuppressedHistogram
from ..mechanisms.recoding import GeneralizationMap
from ..mechanisms.refusal import InputRefused
from ..tasks.objects import Output
from ..tasks.request import HistogramRequest
from .declared_columns import declared_map
from .reading_spec import record_reading
from .sampling_spec import biased_counts, inclusion_column
from .spec_tables import HistogramTable, PrivacyTable, SpecTables

__all__ = ["histogram_request", "require_affordable", "require_cells", "require_safe"]

MOST_CELLS = 1_000_000
NOISE = "two-sided-geometric"
PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "suppressed": ("k",),
    "noisy": ("k", "epsilon"),
    "outlier-private": ("epsilon", "horizon", "margin"),
}


def histogram_request(
    path: Path, spec: SpecTables, table: HistogramTable, privacy: PrivacyTable, *, base: Path, output: Output
) -> HistogramRequest:
    """The histogram that a specification asks for; no record is touched.

    Args:
        path: the specification's file, for messages.
        spec: its tables.
        table: its [histogram].
        privacy: its [privacy].
        base: folder that relative paths start from.
        output: where it will be published.

    Raises:
        InputRefused: anything that is wrong, or has no price; with file and key.
    """
    mechanism = _mechanism(path, spec, table)
    partition = declared_map(path, spec.columns, base=base)
    require_cells(path, partition)
    inclusion = inclusion_column(path, spec)
    charged = price(mechanism, delta=privacy.delta, rows_per_person=spec.data.rows_per_person)
    require_affordable(path, charged, privacy)
    return HistogramRequest(
        label=spec.release.name,
        file_format=spec.release.format,
        output=output,
        dataset=spec.data.dataset,
        source=spec.data.source,
        base=base,
        reading=record_reading(spec),
        price=charged,
        mechanism=mechanism,
        partition=partition,
        inclusion=inclusion,
    )


def require_affordable(path: Path, charged: Price, privacy: PrivacyTable) -> None:
    """Refuse a price above the ε that was asked for.

    Raises:
        InputRefused: it is.
    """
    if privacy.epsilon is not None and charged.epsilon > privacy.epsilon:
        raise InputRefused(
            f"this costs ε = {amount_shown(charged.epsilon)} at δ = {amount_exact(charged.delta)}, "
            f"more than the ε = {amount_exact(privacy.epsilon)} asked for.",
            where=f"{path}: [privacy].epsilon",
            remedy="Lower the rate or the noise's ε, or raise k or the margin.",
        )


def require_cells(path: Path, recoding: GeneralizationMap) -> None:
    """Refuse more cells than are published.

    Raises:
        InputRefused: there are more.
    """
    if recoding.cells > MOST_CELLS:
        raise InputRefused(
            f"these columns have {recoding.cells} combinations of labels, more than the {MOST_CELLS} that one release "
            "publishes.",
            where=f"{path}: [columns]",
            remedy="Use coarser levels or fewer columns.",
        )


def require_safe(path: Path, name: str, *, table: str) -> None:
    """Refuse noise that gives no guarantee, and noise that nobody knows.

    Raises:
        InputRefused: it isn't the two-sided geometric.
    """
    where = f"{path}: [{table}].noise"
    refuse_unsafe(name, where=where)
    if name != NOISE:
        raise InputRefused(f"there is no noise {name!r}.", where=where, remedy=f'Leave it out, or write "{NOISE}".')


def _mechanism(path: Path, spec: SpecTables, table: HistogramTable) -> Histogram:
    where = f"{path}: [histogram]"
    refuse_unsafe(table.kind, where=f"{where}.kind")
    if table.kind not in PARAMETERS:
        raise InputRefused(
            f"there is no kind {table.kind!r}.", where=f"{where}.kind", remedy=f"Name one of {', '.join(PARAMETERS)}."
        )
    require_safe(path, table.noise, table="histogram")
    needed = PARAMETERS[table.kind]
    for name in ("k", "epsilon", "horizon", "margin"):
        given = getattr(table, name) is not None
        if given is not (name in needed):
            what = "is not a parameter of this kind" if given else "is required and missing"
            raise InputRefused(f"this {what}.", where=f"{where}.{name}", remedy="Remove it." if given else "")
    rate = None if spec.sampling is None else spec.sampling.rate
    k, epsilon = table.k or 0, table.epsilon or Decimal(0)
    try:
        if (biased := biased_counts(spec, k=k)) is not None:
            return biased
        if table.kind == "outlier-private":
            if rate is not None:
                raise InputRefused(
                    "an outlier-private histogram counts every record, and no price on a sample is proved for it here.",
                    where=f"{path}: [sampling]",
                    remedy="Remove the table.",
                )
            return OutlierPrivateHistogram(epsilon=epsilon, horizon=table.horizon or 0, margin=table.margin or 0)
        if rate is None:
            raise InputRefused(
                f"a {table.kind} histogram of all records is crowd-blending, but not differentially private: the count "
                "of a group of k and more is published exactly, so that whoever knows all its members but one learns "
                "whether that one is there. It has no price that a budget could take "
                "(docs/mechanisms/histograms.md).",
                where=f"{path}: [sampling].rate",
                remedy='Give a sampling rate, or write kind = "outlier-private".',
            )
        if table.kind == "suppressed":
            return SuppressedHistogram(k=k, sampling_rate=rate)
        return NoisyHistogram(k=k, epsilon=epsilon, sampling_rate=rate)
    except ValueError as error:
        raise InputRefused(f"{error}.", where=where) from None
