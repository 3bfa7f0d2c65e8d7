"""What every stage has in common: a Prefect task that keeps nothing, and failures that reveal nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

from ...mechanisms.kernel.errors import Refusal, ReleaseFailed

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class _Call:
    """A stage's arguments, closed to Prefect, which else looks for futures in them: twice at every label of a map.

    Args:
        args: arguments by place.
        key_words: arguments by name.
    """

    __slots__ = ("args", "key_words")

    def __init__(self, args: tuple[Any, ...], key_words: dict[str, Any]) -> None:
        self.args = args
        self.key_words = key_words


def stage(name: str) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Make a function one stage of a release: a Prefect task of this name.

    PRIVACY: Prefect's default cache could hand a later release the same sample, and Prefect records the texts of
    exceptions. So nothing is cached or persisted, and only refusals leave as they are; of any other fault only the
    kind is reported, since its text could hold a value of the records. The arguments are closed to Prefect.
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
            # Raised outside of the handler: an exception that is raised inside one carries the first as its context,
            # and with it the text.
            raise ReleaseFailed(
                f"the stage '{name}' failed ({kind}).",
                not_done="",  # what a failure leaves behind is added by who knows the ledger
                remedy="Run again with the same release id: it takes the same sample and is not charged twice.",
            )

        def called(call: _Call) -> Result:
            return guarded(*call.args, **call.key_words)

        called.__qualname__ = function.__qualname__  # Prefect makes a task's key of it
        called.__module__ = function.__module__

        @cache
        def as_task() -> Callable[[_Call], Result]:
            from prefect import task  # it takes seconds to load, and a refusal runs no stage
            from prefect.cache_policies import NO_CACHE

            return task(
                name=name,
                task_run_name=name,
                cache_policy=NO_CACHE,
                persist_result=False,
                retries=0,
                log_prints=False,
            )(called)

        @wraps(function)
        def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            return as_task()(_Call(args, kwargs))

        vars(run)["fn"] = guarded  # as of Prefect's own tasks: the stage without Prefect
        return run

    return decorate
