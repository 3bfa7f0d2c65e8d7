"""The sentences of a certificate: what was done, what it guarantees to whom, where that is proved, what it omits."""

from __future__ import annotations

from typing import assert_never

from ...mechanisms.answers import CountAnswer, MeanAnswer, SumAnswer
from ...mechanisms.biased_sampling import BiasedSampleCounts, UnequalRatesHistogram
from ...mechanisms.count_sketch import CountMeanSketch
from ...mechanisms.epsilon_safe import EpsilonSafeRelease
from ...mechanisms.event import Answer, Mechanism
from ...mechanisms.histogram import NoisyHistogram, OutlierPrivateHistogram, SuppressedHistogram
from ...mechanisms.krandomization import KRandomization, OutcomeCounts
from ...mechanisms.neighbours import REPLACEMENT
from ...mechanisms.points import SyntheticPoints
from ...mechanisms.strongly_safe import StronglySafeRelease
from ..theory.price import mechanism_of_record
from ..theory.words import biased_words, crowd_blending_words, local_words, outcome_words, outlier_words
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
MICRODATA = (
    "The records were sampled with fresh independent coins, recoded with {map}, and groups of fewer than k sampled "
    "records were left out."
)
SERIES_GUARANTEE = (
    "This is one release of a series, and the guarantee is for the whole series: whoever sees all its {releases} "
    "releases, whatever else they know, has almost the same chance of seeing them had {unit} been absent from all of "
    "them: every event's probability differs by a factor of at most e^epsilon, plus at most delta. The series' "
    "parameters were fixed before its first release. Each release sampled the records with fresh "
    "independent coins, recoded them with {map}, and left groups of fewer than k sampled records out."
)
FIXED_MAP = "a map that was fixed before they were read"
DRAWN_MAP = (
    "a map that was drawn privately, before they were sampled, from candidates declared before any record was read; "
    "what the draw costs is part of epsilon and delta"
)
THEOREMS = {
    "lqs-theorem-3.9/1": "Li, Qardaji, Su, arXiv:1101.2604v2, Theorem 3.9",
    "exact-profile/1": "Li, Qardaji, Su, arXiv:1101.2604v2, Section 3; exact form proved in docs/proofs",
    "basic-exact/1": "Li, Qardaji, Su, arXiv:1101.2604v2, Section 3; exact form proved in docs/proofs, the "
    "releases' costs added up",
    "pld/1": "Li, Qardaji, Su, arXiv:1101.2604v2, Section 3; exact form proved in docs/proofs, composed by "
    "Zhu, Dong, Wang, arXiv:2106.08567",
    "exact-profile-selection/1": "Li, Qardaji, Su, arXiv:1101.2604v2, Theorem 3.11; exact form proved in "
    "docs/proofs/selection.md",
    "pld-selection/1": "Li, Qardaji, Su, arXiv:1101.2604v2, Theorem 3.11; exact form proved in "
    "docs/proofs/selection.md, composed by Zhu, Dong, Wang, arXiv:2106.08567",
    "exact-noisy-profile/1": "Gehrke, Hay, Lui, Pass, CRYPTO 2012, Example 2; exact form proved in "
    "docs/proofs/noisy-histogram.md",
    "outlier-exact/1": "Lui, Pass, Outlier Privacy, TCC 2015; exact form proved in docs/proofs/outlier-privacy.md",
    "robust-counts/1": "inclusion rates within bounds, the setting of Gehrke, Hay, Lui, Pass, CRYPTO 2012, Theorem 2; "
    "the price is proved in docs/proofs/robust-sampling.md",
    "pure-noise/1": "Laplace mechanism and its discrete form; proved in docs/proofs/answers.md",
    "pure-noise-amplified/1": "Laplace mechanism and its discrete form, proved in docs/proofs/answers.md, amplified by "
    "Li, Qardaji, Su, arXiv:1101.2604v2, Theorem 1",
    "local/1": "randomized response on the device (Apple, Learning with Privacy at Scale, 2017; Zhilyaev, Zeber, "
    "K-Randomization, 2016); proved in docs/proofs/local.md",
    "outcome-counts-exact/1": "Zhilyaev, Zeber, K-Randomization, 2016; exact form proved in "
    "docs/proofs/outcome-counts.md",
    "shuffle-fmt-3.1/1": "Feldman, McMillan, Talwar, arXiv:2012.12803, Theorem 3.1; used as in "
    "docs/proofs/outcome-counts.md",
    "basic-selection/1": "Li, Qardaji, Su, arXiv:1101.2604v2, Theorem 3.11: the draw's cost and that of the releases, "
    "added up",
}
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
SAMPLED = "The records were sampled with fresh independent coins for this release alone."
WHOLE = "Every record was read; no sample was drawn."
SUPPRESSED = (
    "Counts of fewer than k sampled records are published as 0, those of k and more as they are; every cell that was "
    "declared before the records were read is there."
)
NOISY = (
    "Counts of fewer than k sampled records, 0 too, have two-sided geometric noise, those of k and more are published "
    "as they are; every cell that was declared before the records were read is there. Which are noisy is not told."
)
OUTLIER = (
    "Every count has two-sided geometric noise, and every cell that was declared before the records were read is there."
)
REPORTS = (
    "Each report was randomized on a person's device before it was sent. Every report was read; no sample was drawn. "
    "They were added up, and from the sums alone the effect of the coins was taken out on average."
)
SURVEYED = (
    "Every record was read; no sample was drawn for this release. The data set is itself a sample, whose secret coins, "
    "independent and with rates within the declared bounds, are the protection: so it is released once. Counts of "
    "fewer than k records are published as 0, those of k and more as they are; every cell that was declared before the "
    "records were read is there."
)
UNEQUAL = (
    "The records were sampled with fresh independent coins for this release alone, each at the rate that it names "
    "itself, within bounds that were declared beforehand."
)
POINTS = (
    "The records were counted in the cells of a declared grid, counts of fewer than k sampled records were {small}, "
    "and the middle of each cell is published as often as its count says."
)
GROUP_THEOREM = "carried over to several records of a person by group privacy, proved in docs/proofs"


def theorem_of(rule: str) -> str:
    """Where the price's theorem is proved; a rule for several records names the one for a single record after a +."""
    group, plus, inner = rule.partition("+")
    if not plus:
        return THEOREMS.get(rule, rule)
    return f"{THEOREMS.get(inner, inner)}; {GROUP_THEOREM} ({group})"


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
    chosen = DRAWN_MAP if _drawn(charge) else FIXED_MAP
    if charge.series is not None:
        return SERIES_GUARANTEE.format(unit=unit, map=chosen, releases=charge.price.releases)
    mechanism = mechanism_of_record(dict(charge.mechanism))
    words = VALUES_GUARANTEE if charge.price.relation == REPLACEMENT else GUARANTEE
    if isinstance(mechanism, BiasedSampleCounts):
        words = SURVEY_GUARANTEE
    more = _more_in_words(mechanism, rule=charge.price.rule) if circumstances.rows_per_person == 1 else ""
    return f"{words.format(unit=unit)}{_done_in_words(mechanism, chosen=chosen)}{more}"


def limits_in_words(charge: ReleaseCharged, circumstances: Circumstances) -> str:
    """What the guarantee doesn't cover; arguments as of `guarantee_in_words`."""
    match mechanism_of_record(dict(charge.mechanism)):
        case EpsilonSafeRelease():
            chosen = "a choice of candidates, weights, k or rate"
        case SyntheticPoints():
            chosen = "a choice of bounds, cells, k or rate"
        case _:
            chosen = "a choice of levels, k or rate"
    words = LIMITS if charge.series is None else SERIES_LIMITS
    few = records_in_words(circumstances)
    limits = words.format(records=few if circumstances.rows_per_person == 1 else f"at most {few}", chosen=chosen)
    days = circumstances.look_days
    if not days:
        return limits
    looks = "1 private look was recorded" if len(days) == 1 else f"{len(days)} private looks were recorded"
    return limits + LOOKED.format(looks=looks, day=max(days).isoformat())


def _drawn(charge: ReleaseCharged) -> bool:
    """Whether the release's mechanism draws its map."""
    return isinstance(mechanism_of_record(dict(charge.mechanism)), EpsilonSafeRelease)


def _done_in_words(mechanism: Mechanism, *, chosen: str) -> str:
    match mechanism:
        case StronglySafeRelease() | EpsilonSafeRelease():
            done = MICRODATA.format(map=chosen)
        case SuppressedHistogram():
            done = f"{SAMPLED} {SUPPRESSED}"
        case NoisyHistogram():
            done = f"{SAMPLED} {NOISY}"
        case OutlierPrivateHistogram():
            done = f"{WHOLE} {OUTLIER}"
        case BiasedSampleCounts():
            done = SURVEYED
        case UnequalRatesHistogram():
            done = f"{UNEQUAL} {SUPPRESSED}"
        case SyntheticPoints(counts=counts):
            noisy = isinstance(counts, NoisyHistogram)
            small = "given two-sided geometric noise, 0 too" if noisy else "left out"
            done = f"{SAMPLED} {POINTS.format(small=small)}"
        case CountAnswer() | SumAnswer() | MeanAnswer():
            done = f"{WHOLE if mechanism.sampling_rate is None else SAMPLED} {_answer_in_words(mechanism)}"
        case CountMeanSketch() | KRandomization() | OutcomeCounts():
            done = REPORTS
        case _:
            assert_never(mechanism)
    return done


def _more_in_words(mechanism: Mechanism, *, rule: str) -> str:
    """What else is proved of the mechanism, for one record of a person."""
    match mechanism:
        case SuppressedHistogram() | NoisyHistogram():
            more = f" {crowd_blending_words(mechanism)}"
        case OutlierPrivateHistogram():
            more = f" {outlier_words(mechanism)}"
        case CountMeanSketch() | KRandomization():
            more = f" {local_words(mechanism)}"
        case OutcomeCounts():
            more = f" {outcome_words(mechanism, rule)}"
        case BiasedSampleCounts():
            more = f" {biased_words(mechanism)}"
        case UnequalRatesHistogram():
            more = f" {biased_words(mechanism.as_survey)}"
        case SyntheticPoints(counts=NoisyHistogram() as counts):
            more = f" {crowd_blending_words(counts)}"
        case (
            StronglySafeRelease()
            | EpsilonSafeRelease()
            | SyntheticPoints()
            | CountAnswer()
            | SumAnswer()
            | MeanAnswer()
        ):
            more = ""
        case _:
            assert_never(mechanism)
    return more


def _answer_in_words(answer: Answer) -> str:
    where = "" if answer.groups == 1 else f" in each of {answer.groups} declared groups, empty ones too"
    match answer:
        case CountAnswer():
            return f"The records were counted{where}, and each count has two-sided geometric noise."
        case SumAnswer(lower=lower, upper=upper):
            return (
                f"Values clamped to {lower} … {upper} were added up{where}, and each sum has two-sided geometric noise."
            )
        case MeanAnswer(lower=lower, upper=upper, least_records=least):
            return (
                f"Values clamped to {lower} … {upper} were added up{where} and divided by the number of records, or by "
                f"{least} where there are fewer; each quotient has Laplace noise on a fine grid."
            )
        case _:
            assert_never(answer)
