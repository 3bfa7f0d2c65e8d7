"""One release from the command line: prepared, counted here or on a cluster, run on Prefect, with its result."""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..accounting.descriptions.description_registry import has_sampled_rows, published_text
from ..accounting.given_files import read_given
from ..accounting.kernel.prices.registry import mechanism_record
from ..flows.paths import StatePaths, resolved_settings
from ..flows.prepare import PreparedRelease, Scheduled, prepare
from ..flows.spec_tables import CLASSES, ClusterTable
from ..mechanisms.generalization_map import TOLD_KEYS, first_levels, told_sentences
from ..mechanisms.hierarchies.build import DateHierarchy
from ..mechanisms.hierarchies.declare import Hierarchy, IntervalHierarchy, ValueHierarchy
from ..mechanisms.kernel.amounts import amount_shown, counted
from ..mechanisms.kernel.errors import AccountantRefused, InputRefused, ReleaseFailed
from ..mechanisms.wording import share_shown
from ..tasks.destinations import output_at, output_named
from ..tasks.kernel.publication import StagedRelease, remembered_release
from ..tasks.stages.publish import certificate_of
from .release_facts import charge_boundary, levels_text
from .terminal.stages import Stages

if TYPE_CHECKING:
    from ..tasks.counting.executors import Executor
    from .schemas.outputs import LookedUp, Payment, RunResult, SeriesPlace, Told


LARGEST_SCHEDULER_FILE = 1 << 20  # bytes


def run_release(
    spec: Path,
    *,
    state_paths: StatePaths,
    output: str | None,
    scheduler: str | None,
    release_id: str | None,
    series: str | None = None,
    new: bool = False,
    scheduled: Scheduled | None = None,
    rehearse: bool = False,
    randomness: Callable[[int], bytes],
    stages: Stages | None = None,
) -> RunResult:
    """Run one release, or answer with the stored result of one that is published, as `run --json` prints it.

    Args:
        spec: the specification's file.
        state_paths: where the ledger and the private store lie.
        output: the release's folder (from the working folder) or URL, instead of the specification's.
        scheduler: address of a Dask scheduler; None for the specification's cluster, or that of Dask's settings, or
            this machine's threads.
        release_id: id to run, resume or look up; None for a new release.
        series: the series whose next release this is, None for a release that is charged for itself.
        new: whether a release may begin beside an unfinished one of the same specification, which then costs twice.
        scheduled: what a schedule says of the delivery; None where nothing is scheduled.
        rehearse: whether to rehearse the release instead, at a price of its own.
        randomness: source of the sampling key, n to n bytes; the operating system's, but for tests.
        stages: who is shown the progress; None for the terminal.
    """
    stages = Stages() if stages is None else stages
    place = None if output is None else output_at(output, base=Path.cwd())
    with (
        charge_boundary(release_id, state_paths=state_paths, stages=stages) as charging,
        prepare(
            spec,
            state_paths=state_paths,
            output=place,
            release_id=release_id,
            series=series,
            new=new,
            scheduled=scheduled,
            rehearse=rehearse,
        ) as prepared,
    ):
        if prepared.other_names:
            stages.warn(two_names_warning(prepared.other_names, dataset=prepared.request.dataset))
        warn_of_metadata(prepared.remarks, warn=stages.warn)
        if prepared.layout is None:
            # Looked up and not made again: its sample's key is destroyed, and the same bytes could not come of another
            # one.
            published = remembered_release(prepared.folder, place_of=output_named)
            if published is None:
                raise AccountantRefused(
                    f"release '{prepared.release_id}' is published, but this private store knows nothing of it.",
                    remedy="Use the private store (CROWDBLEND_HOME) that it was made with.",
                )
        else:
            stages.begin(prepared.release_id)
            stages.expect(records=prepared.layout.records, n_bytes=prepared.layout.n_bytes)
            charging(prepared)
            published = _run_on_prefect(spec, prepared, scheduler=scheduler, randomness=randomness, stages=stages)
        return _result(prepared, published, stages, looked_up=prepared.layout is None)


def _run_on_prefect(
    spec: Path,
    prepared: PreparedRelease,
    *,
    scheduler: str | None,
    randomness: Callable[[int], bytes],
    stages: Stages,
) -> StagedRelease:
    """Run the release's flow, on a cluster where one is chosen; Prefect starts while that is reached."""
    from ..flows.spec_tables import cluster_of_spec
    from .prefect_environment import configure_prefect, configured_api

    choice = chosen_cluster(scheduler=scheduler, of_spec=cluster_of_spec(spec))
    # First, since everything that follows takes seconds: an address that doesn't answer is refused at once.
    require_reachable(choice)
    wait_for_prefect = configure_prefect(prepared.state_paths.home)
    from ..flows.release import run_flow

    with opened_executor(choice, tell=stages.tell) as executor:
        wait_for_prefect()
        gc.freeze()  # what is loaded by now stays: no collection has to walk it again
        with configured_api():
            return run_flow(prepared, executor=executor, randomness=randomness, observer=stages)


def warn_of_metadata(remarks: tuple[str, ...], *, warn: Callable[[str], None]) -> None:
    """Give sentences on what seems wrong by the source's metadata; they decide nothing."""
    for remark in remarks:
        warn(f"crowdblend: warning: {remark}")


def two_names_warning(other_names: tuple[str, ...], *, dataset: str) -> str:
    """Return the warning about a source that went by other names before; it decides nothing."""
    return (
        f"crowdblend: warning: files of the same names, sizes and headers were released before as data set "
        f"{', '.join(other_names)}. If these are the same people, '{dataset}' gives them a "
        "second budget, and what is spent adds up."
    )


def _result(prepared: PreparedRelease, published: StagedRelease, stages: Stages, *, looked_up: bool) -> RunResult:
    request = prepared.request
    from ..tasks.stages.count import load_map  # a refusal loads nothing that counts

    generalization = load_map(request, folder=prepared.folder, sample_id=published.sample_id)
    if generalization is None:
        raise AccountantRefused(
            f"release '{prepared.release_id}' is published, but this private store doesn't know its map.",
            remedy="Use the private store (CROWDBLEND_HOME) that it was made with.",
        )
    paper = request.paper_price
    told: dict[str, Any] = {
        name: published.details[name]
        for name in (*TOLD_KEYS, "stages", "blocks", "margins", "pairs", "survey_weights")
        if name in published.details
    }
    if (members := published.details.get("members")) is not None:
        told["members"] = {name: fact for name, fact in members.items() if name != "map"}
    levels = {column.name: column.level for column in generalization.columns}
    if "pairs" in told:  # the map of the margins is finer than that of the rows
        levels = first_levels(told)
    sentences = told_sentences(
        {**published.details, "records": published.records},
        levels=levels,
        hierarchies={column.name: column.hierarchy for column in generalization.columns},
    )
    if request.rehearsal:
        told["rehearsal"] = published.details["rehearsal"]
        declared = {column.name: column.hierarchy for column in request.recoding.columns}
        sentences = tuple(_rehearsed(one, declared[one["column"]]) for one in told["rehearsal"])
    looked: LookedUp = {"output_in_place": _in_place(published)} if looked_up else {}
    return {
        "release_id": prepared.release_id,
        "looked_up": looked_up,
        **looked,
        "dataset": request.dataset,
        **_payment(prepared),
        "sample_id": published.sample_id if request.names_sample else None,
        "mechanism": mechanism_record(request.mechanism),
        "epsilon": float(request.price.epsilon),
        "delta": float(request.price.delta),
        "epsilon_paper": None if paper is None else float(paper.epsilon),
        "levels": levels,
        "published_groups": published.groups,
        "published_records": published.records,
        **cast("Told", told | ({"in_words": list(sentences)} if sentences else {})),
        "output": str(published.output),
        "certificate": certificate_of(published.output),
        "timings": {name: round(seconds, 4) for name, seconds in stages.seconds.items()},
    }


_MANY = (
    0.5  # of a column's values, with confidence: then its declaration, and not a few odd values, is what doesn't fit
)


def _rehearsed(column: Mapping[str, Any], hierarchy: Hierarchy) -> str:
    """Return the sentences on what a rehearsal says of a column, and how its values are read where most become `*`."""
    if column["share"] is None:
        return f"{column['column']}: no share can be estimated, since there are too few records for this noise."
    said = (
        f"{column['column']}: about {column['share']:.1%} of the values become * at the finest level "
        f"({column['low']:.1%} to {column['high']:.1%} with a confidence of 95 %)."
    )
    return said if column["low"] < _MANY else f"{said} {_how_read(hierarchy)}"


def _how_read(hierarchy: Hierarchy) -> str:
    """Return what a column's values must look like, and which key or command is for those that look otherwise."""
    match hierarchy:
        case DateHierarchy():
            return (
                "Days are read as 2026-03-31, within the bounds; for another form there is `crowdblend hierarchy build "
                "dates --form`."
            )
        case IntervalHierarchy():
            return (
                "Whole numbers are read; for numbers with decimals write the bounds so (lower = 0.0), and for texts "
                "such as 30.0 whole_floats = true in [data]."
            )
        case ValueHierarchy():
            return (
                "Values are compared as text with those that are declared, with their capitals, zeros and spaces; "
                "fold_case of the column, trim and encoding of [data] change that."
            )
        case _:
            return "Numbers are read with the sign that decimal in [data] names."


def _in_place(published: StagedRelease) -> bool | None:
    """Return whether an earlier release lies where it was published, byte for byte; None where nobody can look."""
    try:
        return published.in_view
    except (ReleaseFailed, OSError):
        return None


def _payment(prepared: PreparedRelease) -> Payment:
    """Return the release's place in its series, if any, and what was taken of a filter budget."""
    state = prepared.reader.release(prepared.release_id)
    paid = None if state is None else prepared.reader.dataset_context(state.receipt)
    shown: Payment = {"series": None}
    if state is None or paid is None:
        return shown
    if (place := state.charge.series) is not None:
        releases = state.charge.price.releases
        in_series: SeriesPlace = {"name": place.name, "number": place.number, "releases": releases}
        if prepared.request.part is not None:
            in_series["part"] = prepared.request.part
        shown["series"] = in_series
    if (budget := paid.filter_budget) is not None and (taken := paid.filter_charge) is not None:
        from ..accounting.ledger.filter_accounting import share_of  # numerics, for a filter budget alone

        shown["filter_charge"] = {
            "order": float(taken.order),
            "divergence": float(taken.divergence),
            "tail": float(taken.tail),
            "share": float(share_of(taken, budget.accounting)),
        }
    return shown


Choice = ClusterTable | None
ANSWERED_WITHIN_SECONDS = 5
CONNECTED_WITHIN_SECONDS = 10
CANT_CONNECT = (OSError, ValueError, TypeError, RuntimeError)


def chosen_cluster(*, scheduler: str | None, of_spec: Choice) -> Choice:
    """Return the command's cluster, else the specification's, else that of Dask's settings, else crowdblend.toml's."""
    import dask.config  # a refusal doesn't need Dask

    if scheduler is not None:
        return ClusterTable.model_construct(address=scheduler)
    if of_spec is not None:
        return of_spec
    address = dask.config.get("scheduler-address", None)  # DASK_SCHEDULER_ADDRESS, or Dask's files
    address = address or resolved_settings()["scheduler"].value
    return None if address is None else ClusterTable.model_construct(address=str(address))


def require_reachable(choice: Choice) -> None:
    """Refuse a scheduler that doesn't answer or doesn't trust this process; the first thing to do with a cluster.

    It comes before a `Client` tries at length and noisily, and before a Prefect server is started in vain.
    """
    if choice is None or choice.cls is not None:
        return
    from distributed.core import connect
    from distributed.security import Security

    address = _address(choice)

    async def answered() -> None:
        within = ANSWERED_WITHIN_SECONDS
        asked = connect(address, timeout=within, **Security().get_connection_args("client"))
        talk = await asyncio.wait_for(asked, within)  # `connect` waits for ever for the first words of what it reached
        await talk.close()

    try:
        asyncio.run(answered())
    except Exception as error:  # noqa: BLE001 - whatever answers there may not be a scheduler: its bytes can be anything
        raise _unreachable(address, error) from None


@contextmanager
def opened_executor(choice: Choice, *, tell: Callable[[str], None]) -> Iterator[Executor]:
    """Connect to a reachable cluster, or start it, and see that all its machines run this version, or refuse.

    PRIVACY: this comes before the charge, so a cluster that can't be used costs nothing.
    """
    from ..tasks.counting.executors import LocalThreads

    match choice:
        case None:
            yield LocalThreads()
        case ClusterTable(cls=None):
            address = _address(choice)
            with _connected(address, choice, shown=address, tell=tell) as executor:
                yield executor
        case ClusterTable(cls=str() as name):
            with (
                _started(name, choice, tell=tell) as cluster,
                _connected(cluster, choice, shown=name, tell=tell) as executor,
            ):
                yield executor


@contextmanager
def _connected(where: object, choice: ClusterTable, *, shown: str, tell: Callable[[str], None]) -> Iterator[Executor]:
    from distributed import Client

    from ..tasks.counting.executors import DaskCluster
    from ..tasks.counting.workers import require_same_everywhere

    try:
        client = Client(where, set_as_default=False, timeout=CONNECTED_WITHIN_SECONDS)
    except CANT_CONNECT as error:
        raise _unreachable(shown, error) from None
    with client:
        try:
            client.wait_for_workers(choice.workers, timeout=choice.wait_seconds)
        except TimeoutError:
            raise InputRefused(
                f"fewer than {choice.workers} workers joined within {choice.wait_seconds} seconds.",
                where=shown,
                remedy="Start workers, or change workers and wait_seconds in [cluster].",
            ) from None
        require_same_everywhere(client)
        yield DaskCluster(client=client, tell=tell)


def _address(choice: ClusterTable) -> str:
    if choice.scheduler_file is None:
        return str(choice.address)
    try:
        return str(json.loads(read_given(Path(choice.scheduler_file), most=LARGEST_SCHEDULER_FILE))["address"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputRefused(
            f"the scheduler file can't be read ({type(error).__name__}).", where=choice.scheduler_file
        ) from None


def _unreachable(where: str, error: Exception) -> InputRefused:
    kind = type(error).__name__ if isinstance(error, CANT_CONNECT) else "what answers there is no scheduler of Dask's"
    return InputRefused(
        f"the scheduler can't be reached ({kind}).",
        where=where,
        remedy="Check that it runs, its address, and Dask's TLS settings (distributed.comm.tls).",
        cause="scheduler-unreachable",
    )


@contextmanager
def _started(name: str, choice: ClusterTable, *, tell: Callable[[str], None]) -> Iterator[Any]:
    module, _, own_name = name.rpartition(".")
    try:
        kind = getattr(importlib.import_module(module), own_name)
    except ImportError:
        raise InputRefused(
            f"{name} is not installed.",
            where="[cluster].class",
            remedy=f"Install {CLASSES[name]}.",
        ) from None
    settings = {"dashboard_address": "127.0.0.1:0"} if name == "distributed.LocalCluster" else {}
    try:
        cluster = kind(**(settings | choice.kwargs))
    except Exception as error:  # noqa: BLE001 - other people's code: whatever it raises, nothing was charged yet
        raise InputRefused(
            f"{name} can't be started ({type(error).__name__}: {error}).", where="[cluster].kwargs"
        ) from None
    try:
        if choice.adapt is not None:
            cluster.adapt(**choice.adapt.model_dump())
        elif choice.scale is not None:
            cluster.scale(choice.scale)
        yield cluster
    finally:
        # Jobs that no queue has taken make it fail, which must hide neither a refusal nor a published release.
        try:
            cluster.close()
        except Exception as error:  # noqa: BLE001 - other people's code, as above
            tell(f"{name} didn't end cleanly ({type(error).__name__}); look for jobs that it has left")


PLACES: Mapping[bool | None, str] = {
    True: "",
    False: ". It isn't there any more as it was published, and is never published again",
    None: ". Whether it is still there can't be looked at now",
}
"""What is said of the place of a release that was published before, by what is found there."""


def result_text(result: Mapping[str, Any]) -> str:
    """Return what `crowdblend run` says of a result, which is given as `--json` prints it."""
    kind, paper, series = result["mechanism"]["kind"], result["epsilon_paper"], result["series"]
    what = published_text(kind, groups=result["published_groups"], records=result["published_records"])
    cost = f"ε = {amount_shown(result['epsilon'])}, δ = {amount_shown(result['delta'])}"
    if paper is not None:
        cost += f" (by the paper's bound ε = {amount_shown(paper)})"
    payer, after = f"charged to '{result['dataset']}'", f": {cost}."
    if (taken := result.get("filter_charge")) is not None:
        payer = f"charged to the filter budget of '{result['dataset']}'"
        after = f", {share_shown(taken['share'])} of it. What this guarantees by itself: {cost}."
    if series is not None:
        place = f"release {series['number']} of {series['releases']} of the series '{series['name']}'"
        place += f", part {series['part']}" if "part" in series else ""
        payer = f"{place}, {payer.replace('charged', 'charged whole', 1)}"
    payer += after
    if result["looked_up"]:
        lines = [
            f"Published before: {what}: {result['output']}" + PLACES[result.get("output_in_place", True)],
            f"Nothing was read or charged now. When it was made: {payer}",
        ]
    else:
        lines = [f"Published {what}: {result['output']}", payer[0].upper() + payer[1:]]
    blocks = result.get("blocks", ())
    lines += [
        f"Block {block['name']}: {block['records']:,} records in {block['groups']:,} groups; columns "
        f"{', '.join(block['columns'])}."
        for block in blocks
    ]
    stages = result.get("stages", ())
    if len(stages) < 2 and not blocks and result["levels"] and "rehearsal" not in result:
        lines.append(f"Levels: {levels_text(result['levels'], drawn=has_sampled_rows(kind, drawn=True))}.")
    if len(stages) > 1:
        lines += [
            f"Stage {number}: {stage['published_records']:,} records in {stage['published_groups']:,} groups; "
            f"levels {levels_text(stage['levels'], drawn=False)}."
            for number, stage in enumerate(stages, start=1)
        ]
    if (members := result.get("members")) is not None:
        lines.append(
            f"Members, in a table of their own: {members['records']:,} records in "
            f"{counted(members['groups'], 'group')}; at most {members['most']} of a unit."
        )
    if pairs := result.get("pairs"):
        named = ", ".join(" and ".join(columns) for columns in dict.fromkeys(tuple(one["columns"]) for one in pairs))
        lines.append(f"Pairs that were chosen and counted: {named}.")
    lines += result.get("in_words", ())
    lines.append(f"Release {result['release_id']}; check it with: crowdblend verify {result['certificate']}")
    return "\n".join(lines)
