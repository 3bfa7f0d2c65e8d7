"""One release from the command line: prepared, run as a flow on Prefect, told as a result."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ..accounting.ledger.reader import open_reader
from ..accounting.theory.kinds.registry import mechanism_record
from ..flows.paths import StatePaths
from ..flows.prepare import PreparedRelease, prepared_release
from ..mechanisms.errors import AccountantRefused, InputRefused, ReleaseFailed
from ..mechanisms.recoding import GeneralizationMap
from ..tasks.stages.draw_once import load_map
from ..tasks.stages.publish import StagedRelease, certificate_of, output_at, remembered_release
from .terminal.stages import Stages

__all__ = ["run_release"]

PREFECT_ABSENT = "Failed to reach API"
"""How the RuntimeError begins by which Prefect tells that its server doesn't answer at all."""


def run_release(
    spec: Path,
    *,
    state_paths: StatePaths,
    output: str | None,
    scheduler: str | None,
    release_id: str | None,
    series: str | None = None,
    randomness: Callable[[int], bytes],
    stages: Stages | None = None,
) -> dict[str, Any]:
    """Run one release, or answer with the stored result of one that is published.

    Args:
        spec: the specification's file.
        state_paths: where the ledger and the private store lie.
        output: the release's folder (from the working folder) or URL, instead of the specification's.
        scheduler: address of a Dask scheduler; None for the specification's cluster, or that of Dask's settings, or
            this machine's threads.
        release_id: id to run, resume or look up; None for a new release.
        series: the series whose next release this is, None for a release that is charged for itself.
        randomness: source of the sampling key, n to n bytes; the operating system's, but for tests.
        stages: who is shown the progress; None for the terminal.

    Returns:
        What `run --json` prints.

    Raises:
        InputRefused: the specification, the source's metadata or the output is wrong.
        AccountantRefused: the accountant refuses.
        ReleaseFailed: the work failed after the charge.
    """
    stages = Stages() if stages is None else stages
    place = None if output is None else output_at(output, base=Path.cwd())
    with prepared_release(
        spec, state_paths=state_paths, output=place, release_id=release_id, series=series
    ) as prepared:
        if prepared.other_names:
            click.echo(two_names_warning(prepared.other_names, dataset=prepared.request.dataset), err=True)
        warn_of_metadata(prepared.remarks)
        if prepared.layout is None:
            published = remembered_release(prepared.folder)
            if published is None:
                raise AccountantRefused(
                    f"release '{prepared.release_id}' is published, but this private store knows nothing of it.",
                    remedy="Use the private store (CROWDBLEND_HOME) that it was made with.",
                )
        else:
            stages.begin(prepared.release_id)
            stages.expect(records=prepared.layout.records, n_bytes=prepared.layout.n_bytes)
            from ..flows.spec_tables import cluster_of_spec
            from .cluster import chosen_cluster, opened_executor, require_reachable  # a refusal doesn't need Dask
            from .prefect.environment import configure_prefect, configured_api

            choice = chosen_cluster(scheduler=scheduler, of_spec=cluster_of_spec(spec))
            require_reachable(choice)
            wait_for_prefect = configure_prefect(state_paths.home)
            import httpx

            from ..flows.release import run_flow

            with opened_executor(choice, tell=stages.tell) as executor:
                wait_for_prefect()
                gc.freeze()  # what is loaded by now stays: no collection has to walk it again
                with configured_api():
                    try:
                        published = run_flow(prepared, executor=executor, randomness=randomness, observer=stages)
                    except (httpx.HTTPError, RuntimeError) as error:
                        if isinstance(error, RuntimeError) and not str(error).startswith(PREFECT_ABSENT):
                            raise
                        raise _prefect_lost(prepared) from None
        generalization = load_map(prepared.request, folder=prepared.folder, sample_id=published.sample_id)
        if generalization is None:
            raise AccountantRefused(
                f"release '{prepared.release_id}' is published, but this private store doesn't know its map.",
                remedy="Use the private store (CROWDBLEND_HOME) that it was made with.",
            )
        return _result(prepared, published, generalization, stages, looked_up=prepared.layout is None)


def _prefect_lost(prepared: PreparedRelease) -> InputRefused | ReleaseFailed:
    """What the loss means, by what the ledger has of the release."""
    with open_reader(prepared.state_paths.ledger_url) as reader:
        state = reader.release(prepared.release_id)
    if state is None:
        return InputRefused(
            "Prefect's server can't be reached.",
            where="PREFECT_API_URL",
            remedy="Start the server, or unset the variable: each run then has a server of its own.",
        )
    published = state.stage == "published"
    return ReleaseFailed(
        "Prefect's server was lost on the way.",
        not_done="The release is published all the same; Prefect alone doesn't know."
        if published
        else "What was charged stays charged, and what came into view stays.",
        remedy="Run again with the same release id: it shows the result."
        if published
        else "Run again with the same release id: it is finished at no new charge.",
    )


def warn_of_metadata(remarks: tuple[str, ...]) -> None:
    """Tell the steward, on standard error, what seems wrong by the source's metadata; it decides nothing.

    Args:
        remarks: whole sentences.
    """
    for remark in remarks:
        click.echo(f"crowdblend: warning: {remark}", err=True)


def two_names_warning(other_names: tuple[str, ...], *, dataset: str) -> str:
    """What the steward is told of a source that went by another name; it decides nothing.

    Args:
        other_names: the names that it went by.
        dataset: the name that it goes by now.
    """
    return (
        f"crowdblend: warning: files of the same names, sizes and headers were released before as data set "
        f"{', '.join(other_names)}. If these are the same people, '{dataset}' gives them a "
        "second budget, and what is spent adds up."
    )


def _result(
    prepared: PreparedRelease,
    published: StagedRelease,
    generalization: GeneralizationMap,
    stages: Stages,
    *,
    looked_up: bool,
) -> dict[str, Any]:
    request = prepared.request
    paper = request.paper_price
    return {
        "release_id": prepared.release_id,
        "looked_up": looked_up,
        "dataset": request.dataset,
        "series": _series(prepared),
        "sample_id": published.sample_id if request.names_sample else None,
        "mechanism": mechanism_record(request.mechanism),
        "epsilon": float(request.price.epsilon),
        "delta": float(request.price.delta),
        "epsilon_paper": None if paper is None else float(paper.epsilon),
        "levels": {column.name: column.level for column in generalization.columns},
        "published_groups": published.groups,
        "published_records": published.records,
        **({"stages": published.details["stages"]} if "stages" in published.details else {}),
        "output": str(published.output),
        "certificate": certificate_of(published.output),
        "timings": {name: round(seconds, 4) for name, seconds in stages.seconds.items()},
    }


def _series(prepared: PreparedRelease) -> dict[str, Any] | None:
    """The release's place in its series."""
    if prepared.series is None:
        return None
    with open_reader(prepared.state_paths.ledger_url) as reader:
        state = reader.release(prepared.release_id)
    if state is None or state.charge.series is None:
        return None
    place, price = state.charge.series, state.charge.price
    return {"name": place.name, "number": place.number, "releases": price.releases}
