"""The sentences of a certificate: what was done, what it guarantees to whom, where that is proved, what it omits."""

from __future__ import annotations

from ...mechanisms.neighbours import REPLACEMENT
from ..theory.kinds.registry import kind_of, kind_of_record, mechanism_of_record
from .circumstances import Circumstances
from .release_entries import ReleaseCharged

__all__ = ["guarantee_in_words", "limits_in_words", "records_in_words", "theorem_of"]

GUARANTEE = (
    "Whoever sees this release, whatever else they know, has almost the same chance of seeing it had "
    "{unit} been absent: every event's probability differs by a factor of at most "
    "e^epsilon, plus at most delta. "
)
VALUES_GUARANTEE = (
    "Whoever sees this release, whatever else they know, has almost the same chance of seeing it had {unit} had any "
    "other values, the number of people being public: every event's probability differs by a factor of at most "
    "e^epsilon, plus at most delta. "
)
SURVEY_GUARANTEE = (
    "Whoever sees this release, whatever else they know but who was sampled, has almost the same chance of seeing it "
    "had {unit} been absent from the population that was sampled: every event's probability differs by a factor of at "
    "most e^epsilon, plus at most delta. "
)
SERIES_GUARANTEE = (
    "This is one release of a series, and the guarantee is for the whole series: whoever sees all its {releases} "
    "releases, whatever else they know, has almost the same chance of seeing them had {unit} been absent from all of "
    "them: every event's probability differs by a factor of at most e^epsilon, plus at most delta. The series' "
    "parameters were fixed before its first release. "
)
LIMITS = (
    "The guarantee is for {records} a person and for this release alone; what other releases of the "
    "data set cost adds up in the ledger. It doesn't cover {chosen} made by "
    "looking at the records."
)
SERIES_LIMITS = (
    "The guarantee is for {records} a person in each release and for this series alone; what other releases of the "
    "data set cost adds up in the ledger. It doesn't cover {chosen} made by looking at the records."
)
LOOKED = (
    " Before this release was charged, {looks} at this data set's records, the last on {day}: parameters may "
    "have been chosen after private inspection, which the guarantee doesn't cover."
)
GROUP_THEOREM = "carried over to several records of a person by group privacy, proved in docs/proofs"


def theorem_of(charge: ReleaseCharged) -> str:
    """Where the price's theorem is proved; a rule for several records names the one for a single record after a +."""
    theorems = kind_of_record(dict(charge.mechanism).get("kind")).theorems
    group, plus, inner = charge.price.rule.rpartition("+")
    proved = theorems.get(inner, inner)
    return f"{proved}; {GROUP_THEOREM} ({group})" if plus else proved


def records_in_words(circumstances: Circumstances) -> str:
    """The most records of a person, as a noun."""
    count = circumstances.rows_per_person
    return "one record" if count == 1 else f"{count} records"


def guarantee_in_words(charge: ReleaseCharged, circumstances: Circumstances) -> str:
    """The guarantee and what was done for it.

    Args:
        charge: the release's charge, as the ledger has it.
        circumstances: what the ledger said of the data set at the charge.
    """
    if circumstances.rows_per_person == 1:
        unit = "any one person's record" if charge.series is None else "any one person's records"
    else:
        each = "" if charge.series is None else " in each release"
        unit = f"all of any one person's records, at most {circumstances.rows_per_person}{each},"
    mechanism = mechanism_of_record(dict(charge.mechanism))
    kind = kind_of(mechanism)
    if charge.series is not None:
        return f"{SERIES_GUARANTEE.format(unit=unit, releases=charge.price.releases)}{kind.statements.series or ''}"
    template = VALUES_GUARANTEE if charge.price.relation == REPLACEMENT else GUARANTEE
    if kind.survey_rate is not None:
        template = SURVEY_GUARANTEE
    proved = kind.statements.proved(mechanism, charge.price.rule) if circumstances.rows_per_person == 1 else ""
    return f"{template.format(unit=unit)}{kind.statements.done(mechanism)}{proved and ' '}{proved}"


def limits_in_words(charge: ReleaseCharged, circumstances: Circumstances) -> str:
    """What the guarantee doesn't cover; arguments as of `guarantee_in_words`."""
    chosen = kind_of_record(dict(charge.mechanism).get("kind")).statements.chosen
    words = LIMITS if charge.series is None else SERIES_LIMITS
    few = records_in_words(circumstances)
    limits = words.format(records=few if circumstances.rows_per_person == 1 else f"at most {few}", chosen=chosen)
    days = circumstances.look_days
    if not days:
        return limits
    looks = "1 private look was recorded" if len(days) == 1 else f"{len(days)} private looks were recorded"
    return limits + LOOKED.format(looks=looks, day=max(days).isoformat())
