"""The stage that makes estimates of local reports: added up on the workers, then post-processed."""

from __future__ import annotations

from ..accounting.ledger.charge import Receipt
from ..mechanisms.krandomization import OutcomeCounts
from ..mechanisms.refusal import ReleaseFailed
from ..mechanisms.report_design import ReportDesign, SketchDesign, design_record
from ..mechanisms.report_estimates import Totals, estimated, reports_added_up
from .executors import Advanced, Executor
from .publication import Publication
from .report_counts import outcome_totals, sketch_totals
from .report_files import ReportTask, report_tasks
from .report_table import PublishedEstimates, write_estimates
from .request import ReportsRequest
from .source import SourceLayout
from .stage import stage

__all__ = ["published_reports"]


@stage("count")
def published_reports(
    *,
    receipt: Receipt,
    request: ReportsRequest,
    layout: SourceLayout,
    executor: Executor,
    advanced: Advanced,
) -> Publication:
    """Add the reports up and estimate; nothing is drawn, so that a retry gives the same.

    PRIVACY: the number of reports is public under replacement, the relation of every price of reports. Whether an
    honest device's report can be read doesn't depend on what its person answered, so neither does success.

    Args:
        receipt: proof that the release is paid for.
        request: what is asked for.
        layout: the files of the reports.
        executor: where the adding is done.
        advanced: told of the progress; for the steward's terminal alone.

    Raises:
        ReleaseFailed: the reports can't be read, the workers were lost, or there are too few for the price.
    """
    del receipt  # needed as proof alone
    design = request.design
    tasks = report_tasks(layout, collection=design.mechanism)
    totals = _totals(tasks, design=design, executor=executor, advanced=advanced)
    reports = reports_added_up(totals)
    least = request.mechanism.least_people if isinstance(request.mechanism, OutcomeCounts) else 1
    if reports < least:
        raise ReleaseFailed(
            f"{reports} reports could be read, and the release needs {least}.",
            remedy="Were the reports made with these parameters? The release can be abandoned; its cost stays spent.",
        )
    published = PublishedEstimates.of(request, estimated(design, totals))
    return Publication(
        write=lambda place: write_estimates(published, folder=place, file_format=request.file_format),
        groups=design.answers,
        records=None,
        form="estimates",
        details={"confidence": str(request.confidence), "reports": reports, **_encoding(design)},
    )


def _totals(tasks: tuple[ReportTask, ...], *, design: ReportDesign, executor: Executor, advanced: Advanced) -> Totals:
    if isinstance(design, SketchDesign):
        return sketch_totals(tasks, sketch=design.mechanism, executor=executor, advanced=advanced)
    return outcome_totals(tasks, mechanism=design.mechanism, executor=executor, advanced=advanced)


def _encoding(design: ReportDesign) -> dict[str, str | int]:
    """What a reader must know of the encoding, beside the mechanism's parameters and the published labels."""
    return {name: value for name, value in design_record(design).items() if isinstance(value, str | int)}
