"""The public Python names of crowdblend, for notebooks, scripts and other people's flows.

What is named here stays, or changes with a note in the changelog; everything else may change with any version.

>>> from crowdblend.deploy.api import GeneralizationMap, IntervalHierarchy, MappedColumn, plan
>>> price = plan(k=20, sampling_rate=0.1, delta=1e-6, releases=12)
>>> print(f"{price.epsilon:.4f} for all 12 releases together, {price.epsilon_exact:.4f} for one")
0.3618 for all 12 releases together, 0.1830 for one
"""

from __future__ import annotations

from ..accounting.certificate.verify import CertificateCheck
from ..accounting.kernel.prices.mechanism_kind import Price
from ..accounting.kernel.prices.registry import paper_price, price
from ..accounting.ledger.lookup import DatasetState, SeriesState
from ..accounting.theory.planning.planner import Plan
from ..flows.configured_kinds import switch_on_configured_kinds
from ..flows.paths import StatePaths, resolve_paths
from ..flows.prepare import PreparedRelease
from ..mechanisms.generalization_map import GeneralizationMap, MappedColumn
from ..mechanisms.hierarchies.build import (
    DateHierarchy,
    day_rows,
    interval_rows,
    outline_rows,
    parent_rows,
    prefix_rows,
    written_day,
)
from ..mechanisms.hierarchies.declare import HierarchyError, IntervalHierarchy, ValueHierarchy
from ..mechanisms.kernel.errors import AccountantRefused, InputRefused, Refusal, ReleaseFailed
from ..mechanisms.kernel.group_counts import GroupCounts, count_keys
from ..mechanisms.kinds.microdata import EpsilonSafeRelease, StronglySafeRelease, suppress
from ..mechanisms.measures.counted_records import CountedRecords
from ..mechanisms.measures.risk import (
    ReidentificationRisk,
    average_class_size,
    discernibility,
    normalised_class_size,
    reidentification_risk,
)
from ..mechanisms.measures.utility import UtilityMeasures, utility_of
from .documents.preview.render_preview import Preview, preview
from .documents.private_report import MadeReport
from .documents.sheet.render_sheet import write_sheet
from .python.hierarchies import HierarchyCheck, check_hierarchy, import_hierarchy, read_hierarchy, write_hierarchy
from .python.ledger import LedgerView, abandon, add_dataset, add_series, ledger, raise_budget, record_look, series
from .python.releases import (
    Explained,
    PublishedRelease,
    dry_run,
    explain,
    open_release,
    plan,
    private_report,
    release,
    verify,
)
from .terminal.plan_tables import plan_table
from .terminal.tables import FactTable

__all__ = [
    "AccountantRefused",
    "CertificateCheck",
    "CountedRecords",
    "DatasetState",
    "DateHierarchy",
    "EpsilonSafeRelease",
    "Explained",
    "FactTable",
    "GeneralizationMap",
    "GroupCounts",
    "HierarchyCheck",
    "HierarchyError",
    "InputRefused",
    "IntervalHierarchy",
    "LedgerView",
    "MadeReport",
    "MappedColumn",
    "Plan",
    "PreparedRelease",
    "Preview",
    "Price",
    "PublishedRelease",
    "Refusal",
    "ReidentificationRisk",
    "ReleaseFailed",
    "SeriesState",
    "StatePaths",
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
    "resolve_paths",
    "series",
    "suppress",
    "switch_on_configured_kinds",
    "utility_of",
    "verify",
    "write_hierarchy",
    "write_sheet",
    "written_day",
]
