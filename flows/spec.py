"""The release specification (TOML): read once, here, into a request of frozen values."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

from ..accounting.theory.planning import largest_sampling_rate, least_k
from ..accounting.theory.price import price
from ..accounting.theory.selection import selection_cost
from ..mechanisms.amount_format import amount_exact, amount_shown
from ..mechanisms.epsilon_safe import EpsilonSafeRelease
from ..mechanisms.event import Microdata
from ..mechanisms.map_choice import MapChoice
from ..mechanisms.recoding import GeneralizationMap
from ..mechanisms.refusal import InputRefused
from ..mechanisms.strongly_safe import StronglySafeRelease
from ..tasks.objects import Output, output_at
from ..tasks.request import MicrodataRequest, ReportsRequest, Request
from .declared_columns import declared_choice, declared_map
from .reading_spec import check_declared_values, record_reading
from .sampling_spec import check_sampling
from .spec_kinds import release_kind
from .spec_tables import PrivacyTable, SelectionTable, SpecTables, parse_spec

__all__ = ["read_spec"]

LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def read_spec(path: Path, *, output: Output | None, releases: int = 1) -> Request:
    """Read and check a specification and the hierarchies that it names; no record is touched.

    Args:
        path: the TOML file; relative paths in it start from its folder.
        output: replaces [release].output; None keeps the specification's.
        releases: how many releases of it δ and the price are for; more than one fixes both k and rate.

    Raises:
        InputRefused: anything that is wrong, with file and key or line.
    """
    spec = parse_spec(path)
    request = _request(path, spec, output=output, releases=releases)
    if not isinstance(request, ReportsRequest):
        check_declared_values(path, request.recoding, request.reading)
    return request


def _request(path: Path, spec: SpecTables, *, output: Output | None, releases: int) -> Request:
    """What is asked for; each kind is loaded when it is asked for."""
    base = path.resolve().parent
    kind = release_kind(path, spec)
    _check_data(path, spec)
    check_sampling(path, spec)
    place = _output(path, spec, base, output)
    if spec.answer is None and spec.reports is None and not spec.columns:
        raise InputRefused("this is required and missing.", where=f"{path}: [columns]")
    if releases > 1 and kind != "microdata":
        raise InputRefused(
            "a series is of microdata releases.", where=f"{path}: [{kind}]", remedy="Charge each release for itself."
        )
    if spec.reports is not None:
        from .reports_spec import reports_request

        return reports_request(path, spec, spec.reports, base=base, output=place)
    if spec.answer is not None:
        from .answer_spec import answer_request

        return answer_request(path, spec, spec.answer, base=base, output=place)
    if spec.privacy is None:
        raise InputRefused("this is required and missing.", where=f"{path}: [privacy].delta")
    if spec.histogram is not None:
        from .histogram_spec import histogram_request

        return histogram_request(path, spec, spec.histogram, spec.privacy, base=base, output=place)
    if spec.points is not None:
        from .points_spec import points_request

        return points_request(path, spec, spec.points, spec.privacy, base=base, output=place)
    return _microdata_request(path, spec, spec.privacy, base=base, output=place, releases=releases)


def _microdata_request(
    path: Path, spec: SpecTables, privacy: PrivacyTable, *, base: Path, output: Output, releases: int
) -> MicrodataRequest:
    rows_per_person = spec.data.rows_per_person
    if (releases > 1 or rows_per_person > 1) and (spec.sampling is None or spec.suppression is None):
        who = "a series fixes" if releases > 1 else "a release with several records of a person names"
        raise InputRefused(
            f"{who} both k and rate, and one of them is missing.",
            where=f"{path}: {'[sampling].rate' if spec.sampling is None else '[suppression].k'}",
            remedy="`crowdblend plan --releases` finds the one that is missing." if releases > 1 else "Give both.",
        )
    if spec.selection is not None:
        _check_selection(path, spec.selection, epsilon=privacy.epsilon, times=releases * rows_per_person)
    mechanism = _mechanism(path, spec, privacy)
    charged = price(mechanism, delta=privacy.delta, releases=releases, rows_per_person=rows_per_person)
    together = "" if releases == 1 else f" for {releases} releases"
    if privacy.epsilon is not None and charged.epsilon > privacy.epsilon:
        raise InputRefused(
            f"k = {mechanism.k} and rate = {mechanism.sampling_rate} cost ε = "
            f"{amount_shown(charged.epsilon)}{together} at "
            f"δ = {amount_exact(charged.delta)}, more than the ε = {amount_exact(privacy.epsilon)} asked for.",
            where=f"{path}: [privacy].epsilon",
            remedy="Raise k, lower the rate, or leave one of them out: it follows from ε and δ.",
        )
    return MicrodataRequest(
        label=spec.release.name,
        form=spec.release.form,
        file_format=spec.release.format,
        output=output,
        dataset=spec.data.dataset,
        source=spec.data.source,
        base=base,
        reading=record_reading(spec),
        mechanism=mechanism,
        price=charged,
        recoding=_recoding(path, spec, base),
    )


def _check_data(path: Path, spec: SpecTables) -> None:
    if spec.data.separator in '"\r\n\0' or not spec.data.separator.isascii():
        raise InputRefused(
            "the separator must be one ASCII character other than a quote or a line end.",
            where=f"{path}: [data].separator",
        )
    if not LABEL.fullmatch(spec.release.name):
        raise InputRefused(
            "a release's name is 1 to 100 letters, digits, dots, dashes and underscores.",
            where=f"{path}: [release].name",
        )


def _check_selection(path: Path, selection: SelectionTable, *, epsilon: Decimal | None, times: int) -> None:
    """Whether [selection] holds together, and leaves something of the ε asked for to the release itself."""
    if (selection.on == "fresh-sample") is not (selection.rate is not None):
        fresh = selection.on == "fresh-sample"
        raise InputRefused(
            "a choice on a fresh sample needs that sample's rate."
            if fresh
            else "a rate belongs to a choice on a fresh sample.",
            where=f"{path}: [selection].rate",
            remedy="" if fresh else 'Remove it, or write on = "fresh-sample".',
        )
    cost = selection_cost(selection.epsilon, selection_rate=selection.rate).epsilon * times
    if epsilon is not None and cost >= epsilon:
        raise InputRefused(
            f"choosing the map costs ε = {amount_shown(cost)}, which leaves nothing of the ε = "
            f"{amount_exact(epsilon)} asked for.",
            where=f"{path}: [selection].epsilon",
            remedy="Lower it, or raise [privacy].epsilon.",
        )


def _mechanism(path: Path, spec: SpecTables, privacy: PrivacyTable) -> Microdata:
    """The mechanism with its k and rate; one of them may follow from ε and δ."""
    epsilon, delta, chosen = privacy.epsilon, privacy.delta, spec.selection
    k = None if spec.suppression is None else spec.suppression.k
    rate = None if spec.sampling is None else spec.sampling.rate
    selection_epsilon, selection_rate = (None, None) if chosen is None else (chosen.epsilon, chosen.rate)
    if (k is None or rate is None) and (epsilon is None or (k is None and rate is None)):
        missing = "[suppression].k" if k is None else "[sampling].rate"
        raise InputRefused(
            "this is required and missing.",
            where=f"{path}: {missing}",
            remedy="Give both k and rate, or [privacy].epsilon and one of them.",
        )
    if k is None and rate is not None and epsilon is not None:
        k = least_k(
            sampling_rate=rate,
            epsilon=epsilon,
            delta=delta,
            selection_epsilon=selection_epsilon,
            selection_rate=selection_rate,
        )
    elif rate is None and k is not None and epsilon is not None:
        rate = largest_sampling_rate(
            k=k, epsilon=epsilon, delta=delta, selection_epsilon=selection_epsilon, selection_rate=selection_rate
        )
    if k is None or rate is None:
        raise InputRefused("k or the rate is missing.", where=str(path))
    if selection_epsilon is None:
        return StronglySafeRelease(k=k, sampling_rate=rate)
    return EpsilonSafeRelease(
        k=k, sampling_rate=rate, selection_epsilon=selection_epsilon, selection_rate=selection_rate
    )


def _recoding(path: Path, spec: SpecTables, base: Path) -> GeneralizationMap | MapChoice:
    if spec.selection is None:
        return declared_map(path, spec.columns, base=base)
    return declared_choice(path, spec.columns, spec.selection, base=base)


def _output(path: Path, spec: SpecTables, base: Path, output: Output | None) -> Output:
    if output is not None:
        return output
    if spec.release.output is None:
        raise InputRefused(
            "no output is named.", where=f"{path}: [release].output", remedy="Name one here or with --output."
        )
    return output_at(spec.release.output, base=base)
