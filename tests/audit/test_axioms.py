"""What costs nothing more, several records, and replacement."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from crowdblend.accounting.kinds.composition.amplification import Guarantee
from crowdblend.mechanisms.kernel.errors import InputRefused

from audit.theory.axioms import for_group, for_replacement, post_processed, randomly_chosen

PURE = Guarantee(epsilon=Decimal(1), delta=Decimal(0))


def test_axioms():
    worse = Guarantee(epsilon=Decimal("0.5"), delta=Decimal("1e-3"))
    assert post_processed(worse) == worse
    assert randomly_chosen([PURE, worse]) == Guarantee(epsilon=Decimal(1), delta=Decimal("1e-3"))
    with pytest.raises(InputRefused):
        randomly_chosen([])


def test_groups_and_replacement():
    guarantee = Guarantee(epsilon=Decimal("0.3"), delta=Decimal("1e-6"))
    doubled = for_replacement(guarantee)
    assert doubled.epsilon == Decimal("0.6")
    assert float(doubled.delta) == pytest.approx((1 + math.exp(0.3)) * 1e-6, rel=1e-11)
    assert for_group(guarantee, records=1) == guarantee
    assert float(for_group(guarantee, records=4).delta) == pytest.approx(
        1e-6 * math.expm1(1.2) / math.expm1(0.3), rel=1e-10
    )
    with pytest.raises(InputRefused, match="at least one record"):
        for_group(guarantee, records=0)
    with pytest.raises(InputRefused, match="reaches 1"):
        for_group(guarantee, records=100)
