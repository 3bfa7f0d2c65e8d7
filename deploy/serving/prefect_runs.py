"""What `serve` asks of Prefect: its deployment, the flow runs that are due, and those that a killed process left."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, cast
from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterId,
    FlowRunFilter,
    FlowRunFilterName,
    FlowRunFilterState,
    FlowRunFilterStateType,
    TaskRunFilter,
    TaskRunFilterState,
    TaskRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.client.schemas.sorting import FlowRunSort
from prefect.deployments.runner import RunnerDeployment
from prefect.exceptions import ObjectNotFound
from prefect.states import Completed, Crashed
from prefect.types.entrypoint import EntrypointType

from ...accounting.ledger.queries import Stage
from ..prefect.scheduled import release_id_at, scheduled_release

if TYPE_CHECKING:
    from prefect.client.schemas.responses import DeploymentResponse

__all__ = ["PrefectRuns", "deployed"]

_BEGUN = [StateType.PENDING, StateType.RUNNING, StateType.CANCELLING, StateType.PAUSED]


@dataclass(frozen=True, kw_only=True, slots=True)
class PrefectRuns:
    """The flow runs of one series' deployment.

    Args:
        deployment_id: the deployment.
        series: the series' name, which is the deployment's too.
    """

    deployment_id: UUID
    series: str

    def release_id(self, run: FlowRun) -> str:
        """The release that a flow run is for."""
        named = run.parameters.get("release_id")
        when = run.expected_start_time
        if named or when is None:
            return str(named)
        return release_id_at(self.series, when)

    def due(self, *, at: datetime) -> FlowRun | None:
        """The first flow run that is due; None where none is."""
        until = {"next_scheduled_start_time": {"before_": at}, "state": {"type": {"any_": [StateType.SCHEDULED]}}}
        scheduled = FlowRunFilter.model_validate(until)
        return next(iter(self._found(scheduled)), None)

    def begun(self) -> list[FlowRun]:
        """Flow runs that have begun and not ended, by their scheduled times."""
        return self._found(FlowRunFilter(state=_of_types(_BEGUN)))

    def paused(self) -> bool:
        """Whether Prefect's schedule is paused, so that nothing will come due."""
        with get_client(sync_client=True) as client:
            deployment = client.read_deployment(self.deployment_id)
        return bool(deployment.paused) or not any(schedule.active for schedule in deployment.schedules)

    def create(self, release_id: str) -> FlowRun:
        """A new flow run that finishes a release."""
        with get_client(sync_client=True) as client:
            return client.create_flow_run_from_deployment(self.deployment_id, parameters={"release_id": release_id})

    def close_killed(self, run: FlowRun, *, stage: Stage | None) -> None:
        """Give a flow run whose process is dead its end, and those of its subflows and tasks.

        Args:
            run: the flow run.
            stage: how far the ledger has its release; None where it was not charged.
        """
        name = self.release_id(run)
        ended: State[None]
        match stage:
            case "published":
                ended = Completed(
                    message=f"Release {name} is published; its process was killed before it reported to Prefect."
                )
            case "abandoned":
                ended = Crashed(message=f"The process was killed; release {name} was abandoned.")
            case _:
                ended = Crashed(message=f"The process was killed; another flow run can finish release {name}.")
        inner = FlowRunFilter(name=FlowRunFilterName(any_=[name]), state=_of_types(_BEGUN))
        with get_client(sync_client=True) as client:
            subflows = client.read_flow_runs(flow_run_filter=inner)
            for flow_run in (*subflows, run):
                of_run = FlowRunFilter.model_validate({"id": {"any_": [flow_run.id]}})
                running = TaskRunFilter(
                    state=TaskRunFilterState(type=TaskRunFilterStateType(any_=[StateType.PENDING, StateType.RUNNING]))
                )
                for task_run in client.read_task_runs(flow_run_filter=of_run, task_run_filter=running):
                    client.set_task_run_state(task_run.id, Crashed(message="The process was killed."), force=True)
                client.set_flow_run_state(flow_run.id, ended, force=True)

    def remove(self) -> None:
        """Take the deployment with its schedule out of Prefect; what has run stays recorded."""
        with get_client(sync_client=True) as client:
            client.delete_deployment(self.deployment_id)

    def _found(self, flow_run_filter: FlowRunFilter) -> list[FlowRun]:
        of_series = DeploymentFilter(id=DeploymentFilterId(any_=[self.deployment_id]))
        with get_client(sync_client=True) as client:
            return client.read_flow_runs(
                flow_run_filter=flow_run_filter,
                deployment_filter=of_series,
                sort=FlowRunSort.EXPECTED_START_TIME_ASC,
            )


def deployed(*, series: str, cron: str, parameters: dict[str, str]) -> PrefectRuns:
    """The deployment of a series: as it is, where Prefect has it so, paused or not; else written anew.

    Args:
        series: the series' name.
        cron: five fields, in UTC.
        parameters: of the flow.
    """
    with get_client(sync_client=True) as client:
        try:
            known = client.read_deployment_by_name(f"{scheduled_release.name}/{series}")
        except ObjectNotFound:
            known = None
    if known is not None and _is_so(known, cron=cron, parameters=parameters):
        return PrefectRuns(deployment_id=known.id, series=series)
    deployment = cast(
        RunnerDeployment,
        scheduled_release.to_deployment(
            name=series, cron=cron, parameters=parameters, entrypoint_type=EntrypointType.MODULE_PATH
        ),
    )
    return PrefectRuns(deployment_id=cast(UUID, deployment.apply()), series=series)


def _is_so(known: DeploymentResponse, *, cron: str, parameters: dict[str, str]) -> bool:
    crons = [getattr(schedule.schedule, "cron", None) for schedule in known.schedules]
    return crons == [cron] and known.parameters == parameters


def _of_types(types: list[StateType]) -> FlowRunFilterState:
    return FlowRunFilterState(type=FlowRunFilterStateType(any_=types))
