"""What every stage has in common: a Prefect task that keeps nothing, and failures that tell nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import ParamSpec, TypeVar

from ..mechanisms.refusal import Refusal, ReleaseFailed

__all__ = ["stage"]

IF_IT_FAILS = "Nothing was published; what was charged stays charged."
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def stage(
    name: str, *, if_it_fails: str = IF_IT_FAILS
) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Make a function one stage of a release: a Prefect task of this name.

    Args:
        name: the stage's name, all that Prefect is told of it.
        if_it_fails: what a person must know of the state that a failure leaves behind.

    PRIVACY: Prefect's default cache could hand a later release the same sample, and Prefect records the texts of
    exceptions. So nothing is cached or persisted, and only refusals leave as they are; of any other fault only the
    kind is told, since its text could hold a value of the records.
    """

    def decorate(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        @wraps(function)
        def guarded(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            try:
                return function(*args, **kwargs)
            except Refusal:
                raise
            except Exception as error:  # noqa: BLE001 - the text of an unknown fault must not be recorded
                kind = type(error).__name__
            raise ReleaseFailed(
                f"the stage '{name}' failed ({kind}).",
                not_done=if_it_fails,
                remedy="Run again with the same release id: it takes the same sample and is not charged twice.",
            )

        @cache
        def as_task() -> Callable[Arguments, Result]:
            from prefect import task  # it takes seconds to load, and a refusal runs no stage
            from prefect.cache_policies import NO_CACHE

            return task(
                name=name,
                task_run_name=name,
                cache_policy=NO_CACHE,
                persist_result=False,
                retries=0,
                log_prints=False,
            )(guarded)

        @wraps(function)
        def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            return as_task()(*args, **kwargs)

        vars(run)["fn"] = guarded  # as of Prefect's own tasks: the stage without Prefect
        return run

    return decorate
