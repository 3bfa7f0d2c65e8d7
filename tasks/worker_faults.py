"""What a fault on a worker may tell: its kind, since its text travels through the scheduler and into logs."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from ..mechanisms.refusal import Refusal, ReleaseFailed

__all__ = ["telling_kinds_only"]

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def telling_kinds_only(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Turn every fault that is not a refusal into one that names its kind alone.

    PRIVACY: the text of an unknown fault can hold a value of the records; Dask logs it on the worker and sends it
    through the scheduler.
    """

    @wraps(function)
    def guarded(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        except Refusal:
            raise
        except Exception as error:  # noqa: BLE001 - the text of an unknown fault must not leave the worker
            kind = type(error).__name__
        raise ReleaseFailed(
            f"a task failed on its worker ({kind}).",
            remedy="Run again with the same release id: it takes the same sample and is not charged twice.",
        )

    return guarded
