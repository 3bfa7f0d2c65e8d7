"""The public Python names of crowdblend, for notebooks, scripts and other people's flows.

What is named here stays, or changes with a note in the changelog; everything else may change with any version.

>>> from crowdblend.deploy.api import GeneralizationMap, IntervalHierarchy, MappedColumn, plan
>>> price = plan(k=20, sampling_rate=0.1, delta=1e-6, releases=12)
>>> print(f"{price.epsilon:.4f} for all 12 releases together, {price.epsilon_exact:.4f} for one")
0.4216 for all 12 releases together, 0.1830 for one
"""

from __future__ import annotations

from ..accounting.ledger.certificate import CertificateCheck
from ..accounting.ledger.queries import DatasetState
from ..accounting.ledger.series import SeriesState
from ..accounting.theory.planning import Plan
from ..accounting.theory.price import Price, paper_price, price
from ..flows.dry_run import DryRun
from ..flows.settings import House, house
from ..mechanisms.epsilon_safe import EpsilonSafeRelease
from ..mechanisms.hierarchy import HierarchyError, ValueHierarchy
from ..mechanisms.hierarchy_building import (
    day_rows,
    interval_rows,
    outline_rows,
    parent_rows,
    prefix_rows,
    written_day,
)
from ..mechanisms.intervals import IntervalHierarchy
from ..mechanisms.measures.classes import average_class_size, discernibility, normalised_class_size
from ..mechanisms.measures.counted import CountedRecords
from ..mechanisms.measures.risk import ReidentificationRisk, reidentification_risk
from ..mechanisms.measures.utility import UtilityMeasures, utility_of
from ..mechanisms.recoding import GeneralizationMap, MappedColumn
from ..mechanisms.refusal import AccountantRefused, InputRefused, Refusal, ReleaseFailed
from ..mechanisms.strongly_safe import StronglySafeRelease
from ..mechanisms.suppression import GroupCounts, count_keys, suppress
from .asking import Explained, LedgerView, dry_run, explain, ledger, plan
from .composing import private_report, release
from .facts import FactTable
from .hierarchy_api import HierarchyCheck, check_hierarchy, import_hierarchy, read_hierarchy, write_hierarchy
from .ledger_api import abandon, add_dataset, add_series, raise_budget, record_look, series
from .plan_report import plan_table
from .preview.telling import Preview, preview
from .private_report.making import MadeReport
from .published import PublishedRelease, open_release, verify
from .sheet.writing import write_sheet

__all__ = [
    "AccountantRefused",
    "CertificateCheck",
    "CountedRecords",
    "DatasetState",
    "DryRun",
    "EpsilonSafeRelease",
    "Explained",
    "FactTable",
    "GeneralizationMap",
    "GroupCounts",
    "HierarchyCheck",
    "HierarchyError",
    "House",
    "InputRefused",
    "IntervalHierarchy",
    "LedgerView",
    "MadeReport",
    "MappedColumn",
    "Plan",
    "Preview",
    "Price",
    "PublishedRelease",
    "Refusal",
    "ReidentificationRisk",
    "ReleaseFailed",
    "SeriesState",
    "StronglySafeRelease",
    "UtilityMeasures",
    "ValueHierarchy",
    "abandon",
    "add_dataset",
    "add_series",
    "average_class_size",
    "check_hierarchy",
    "count_keys",
    "day_rows",
    "discernibility",
    "dry_run",
    "explain",
    "house",
    "import_hierarchy",
    "interval_rows",
    "ledger",
    "normalised_class_size",
    "open_release",
    "outline_rows",
    "paper_price",
    "parent_rows",
    "plan",
    "plan_table",
    "prefix_rows",
    "preview",
    "price",
    "private_report",
    "raise_budget",
    "read_hierarchy",
    "record_look",
    "reidentification_risk",
    "release",
    "series",
    "suppress",
    "utility_of",
    "verify",
    "write_hierarchy",
    "write_sheet",
    "written_day",
]
