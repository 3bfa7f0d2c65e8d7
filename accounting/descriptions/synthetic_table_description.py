"""Describe synthetic tables."""

from __future__ import annotations

from ...mechanisms.kinds.synthetic_table import SyntheticTable
from ..kinds.composition.composed import not_composed
from ..kinds.synthetic_table_prices import RULE, RULE_OF_SERIES
from .kind_description import WHOLE, KindDescription, Published

_DONE = (
    "The rows of this table are synthetic: none is a record of a person, and combinations of labels may be there that "
    "nobody has. A model was fitted by {method} of the library OpenDP to noisy counts of labels that were declared "
    "before the records were read, of single columns and of combinations that were chosen privately; the rows were "
    "drawn from it, each by itself."
)
_SERIES = (
    "Each release fitted a model of its own to noisy counts of all records, of labels that were declared before they "
    "were read, and drew its rows from that; none is a record of a person."
)
_THEOREM = (
    "Bun, Steinke, arXiv:1605.02065, Definition 1.1, by the conversion of Canonne, Kamath, Steinke, "
    "arXiv:2004.00010, Proposition 12; proved in docs/proofs/synthetic-table.md, given that the library's choices "
    "and counts have the stated rho"
)


SYNTHETIC_TABLE: KindDescription[SyntheticTable] = KindDescription(
    done=lambda mechanism: f"{WHOLE} {_DONE.format(method=mechanism.method.upper())}",
    chosen="a choice of columns, levels or method",
    series=_SERIES,
    published=Published("combination", "combinations", "synthetic row"),
    theorems={
        RULE: _THEOREM,
        RULE_OF_SERIES: f"{_THEOREM}; of several tables the sum",
    },
    losses=not_composed,
)
