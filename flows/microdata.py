"""What makes a microdata release: choose the map, sample, recode, count, suppress."""

from __future__ import annotations

from typing import assert_never

from ..accounting.ledger.charge import Receipt
from ..accounting.ledger.keystore import ReleaseFolder
from ..mechanisms.map_choice import MapChoice
from ..mechanisms.recoding import GeneralizationMap
from ..tasks.executors import Executor
from ..tasks.publication import Publication, microdata_publication
from ..tasks.request import MicrodataRequest
from ..tasks.sampled_counts import surviving_groups
from ..tasks.select import drawn_map
from ..tasks.source import SourceLayout
from .observer import Observer

__all__ = ["made_microdata"]


def made_microdata(
    request: MicrodataRequest,
    *,
    receipt: Receipt,
    layout: SourceLayout,
    folder: ReleaseFolder,
    executor: Executor,
    observer: Observer,
) -> tuple[GeneralizationMap, Publication]:
    """The map of a release that is paid for, and its groups of at least k sampled records.

    Args:
        request: what is asked for.
        receipt: proof that the release is paid for.
        layout: the files of the records.
        folder: the release's folder in the private store.
        executor: where the counting is done.
        observer: told of the stages.

    Raises:
        ReleaseFailed: the work failed.
    """
    match request.recoding:
        case GeneralizationMap() as generalization:
            pass
        case MapChoice() as choice:
            with observer.stage("select"):
                generalization = drawn_map(
                    receipt=receipt,
                    request=request,
                    choice=choice,
                    layout=layout,
                    folder=folder,
                    executor=executor,
                    advanced=observer.advanced,
                )
        case _:
            assert_never(request.recoding)
    with observer.stage("count"):
        surviving = surviving_groups(
            receipt=receipt,
            request=request,
            generalization=generalization,
            layout=layout,
            key=folder.key,
            executor=executor,
            advanced=observer.advanced,
        )
    return generalization, microdata_publication(request, surviving, generalization=generalization)
