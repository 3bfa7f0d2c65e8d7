"""How much noise a synthetic table may have for a price."""

from __future__ import annotations

import math
from decimal import Decimal

from ....mechanisms.kernel.amounts import amount_exact
from ....mechanisms.kernel.errors import InputRefused
from ....mechanisms.kinds.synthetic_table import LARGEST_RHO
from ...kernel.prices.arithmetic import decimal_down
from ...kernel.prices.mechanism_kind import check_request
from ...kinds.synthetic_table_prices import concentrated_epsilon, rho_of_all

_LEAST_RHO, _WIDTH = 1e-12, 1e-11


def largest_rho(epsilon: Decimal, *, delta: Decimal, records: int = 1, releases: int = 1) -> Decimal:
    """Return about the largest ρ of each table whose price is at most ε together, of at most 12 digits.

    Args:
        epsilon: ε > 0.
        delta: δ, 0 < δ < 1.
        records: M, the most records of one person.
        releases: T, how many tables.

    Raises:
        InputRefused: there is none.
    """
    check_request(delta, releases)

    def fits(rho: Decimal) -> bool:
        return concentrated_epsilon(rho_of_all(rho, records, releases), delta=delta) <= epsilon

    low, high = math.log(_LEAST_RHO), math.log(LARGEST_RHO)
    while high - low > _WIDTH:
        middle = (low + high) / 2.0
        low, high = (middle, high) if fits(Decimal(math.exp(middle))) else (low, middle)
    rho = decimal_down(Decimal(math.exp(low)))
    if not fits(rho):
        raise InputRefused(f"epsilon {amount_exact(epsilon)} is too little for a synthetic table.", remedy="Raise it.")
    return rho
