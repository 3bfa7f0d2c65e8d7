"""A toy kind's release: the number of records in each declared group, with noise made of coin flips."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from crowdblend.accounting.kernel.prices.registry import price
from crowdblend.flows.columns import declared_map
from crowdblend.flows.releases.release_kind import (
    GivenSpec,
    NoDocument,
    ReleaseKind,
    count_records,
    record_layout,
)
from crowdblend.flows.spec_tables import SpecTable
from crowdblend.mechanisms.generalization_map import GeneralizationMap
from crowdblend.tasks.request import Request
from pydantic import Field

from .prices import CoinFlipCount, CoinFlips

if TYPE_CHECKING:
    from crowdblend.tasks.stages.table import Publication


class CoinFlipsTable(SpecTable):
    """[coin-flips]: what is published at least."""

    least_count: int = Field(ge=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class CoinFlipsRequest(Request):
    """Noisy counts of the cells of a declared partition."""

    kind: ClassVar[str] = "coin-flips"
    domain: ClassVar[bytes] = b"crowdblend coin flips 1\n"

    mechanism: CoinFlipCount
    recoding: GeneralizationMap

    @property
    def own_terms(self) -> Mapping[str, object]:
        """Nothing beside mechanism and map."""
        return {}


def _request(given: GivenSpec) -> CoinFlipsRequest:
    mechanism = CoinFlipCount(least_count=given.own.least_count)
    return CoinFlipsRequest(
        **given.shared,
        price=price(mechanism, delta=Decimal(0), rows_per_person=given.tables.data.rows_per_person),
        mechanism=mechanism,
        recoding=declared_map(given.path, given.columns, base=given.base),
    )


def _publication(request: CoinFlipsRequest, _: GeneralizationMap, counts: tuple[int, ...]) -> Publication:
    from crowdblend.tasks.stages.table import Publication, count_table

    published, cells = np.array(counts, dtype=np.int64), np.arange(len(counts)).reshape(1, -1)
    return Publication(
        table=count_table(cells, published, generalization=request.recoding, form="counts"),
        file_format=request.file_format,
        groups=len(counts),
        records=int(published.sum()),
        form="coin-flips",
        details={},
    )


def _explained(request: CoinFlipsRequest) -> dict[str, Any]:
    return {"maps": 1, "selection": None, "cells": request.recoding.cells}


KIND = ReleaseKind(
    name=CoinFlipsRequest.kind,
    model=CoinFlipsTable,
    allows=frozenset({"columns"}),
    mechanisms=(CoinFlipCount,),
    series=False,
    forms=False,
    limits=True,
    unequal_rates=lambda _: frozenset(),
    request=_request,
    layout=record_layout,
    count=count_records,
    protection=lambda request, _: CoinFlips(mechanism=request.mechanism, layout=request.recoding.layout),
    finish=_publication,
    explain=_explained,
    meanings={"least_count": "what is published at least"},
    sheet=lambda *_: NoDocument(of=("coin flips",)),
    preview=lambda _: None,
    figures=frozenset({"count"}),
)
