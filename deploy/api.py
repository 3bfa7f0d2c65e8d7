"""The public Python names of crowdblend, for notebooks, scripts and other people's flows.

What is named here stays, or changes with a note in the changelog; everything else may change with any version.

>>> from crowdblend.deploy.api import GeneralizationMap, IntervalHierarchy, MappedColumn, plan
>>> price = plan(k=20, sampling_rate="0.1", delta="1e-6", releases=12)
>>> print(f"{price.epsilon:.4f} for all 12 releases together, {price.epsilon_exact:.4f} for one")
0.4216 for all 12 releases together, 0.1830 for one
"""

from __future__ import annotations

from ..accounting.theory.planning import Plan
from ..accounting.theory.price import Price, paper_price, price
from ..flows.settings import House, house
from ..mechanisms.epsilon_safe import EpsilonSafeRelease
from ..mechanisms.hierarchy import HierarchyError, ValueHierarchy
from ..mechanisms.intervals import IntervalHierarchy
from ..mechanisms.measures.classes import average_class_size, discernibility, normalised_class_size
from ..mechanisms.measures.counted import CountedRecords
from ..mechanisms.measures.risk import ReidentificationRisk, reidentification_risk
from ..mechanisms.measures.utility import UtilityMeasures, utility_of
from ..mechanisms.recoding import GeneralizationMap, MappedColumn
from ..mechanisms.refusal import AccountantRefused, InputRefused, Refusal, ReleaseFailed
from ..mechanisms.strongly_safe import StronglySafeRelease
from ..mechanisms.suppression import GroupCounts, count_keys, suppress
from .asking import Explained, LedgerView, explain, ledger, plan
from .composing import private_report, release
from .facts import FactTable
from .plan_report import plan_table
from .private_report.making import MadeReport
from .published import PublishedRelease, open_release

__all__ = [
    "AccountantRefused",
    "CountedRecords",
    "EpsilonSafeRelease",
    "Explained",
    "FactTable",
    "GeneralizationMap",
    "GroupCounts",
    "HierarchyError",
    "House",
    "InputRefused",
    "IntervalHierarchy",
    "LedgerView",
    "MadeReport",
    "MappedColumn",
    "Plan",
    "Price",
    "PublishedRelease",
    "Refusal",
    "ReidentificationRisk",
    "ReleaseFailed",
    "StronglySafeRelease",
    "UtilityMeasures",
    "ValueHierarchy",
    "average_class_size",
    "count_keys",
    "discernibility",
    "explain",
    "house",
    "ledger",
    "normalised_class_size",
    "open_release",
    "paper_price",
    "plan",
    "plan_table",
    "price",
    "private_report",
    "reidentification_risk",
    "release",
    "suppress",
    "utility_of",
]
