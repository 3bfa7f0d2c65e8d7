"""What a mechanism guarantees, in plain words with its numbers, for certificates and pages."""

from __future__ import annotations

from decimal import Decimal
from typing import assert_never

from ...mechanisms.biased_sampling import BiasedSampleCounts
from ...mechanisms.count_sketch import CountMeanSketch
from ...mechanisms.histogram import NoisyHistogram, OutlierPrivateHistogram, SuppressedHistogram
from ...mechanisms.krandomization import KRandomization, OutcomeCounts
from .biased_price import zero_knowledge_epsilon_biased, zero_knowledge_holds
from .crowd_blending import delta_zero_knowledge, epsilon_zero_knowledge
from .local_reports import local_epsilon

__all__ = ["biased_words", "crowd_blending_words", "local_words", "outcome_words", "outlier_words"]


def crowd_blending_words(event: SuppressedHistogram | NoisyHistogram) -> str:
    """The crowd-blending guarantee, and with a sample the zero-knowledge one. CBP, Definition 3 and Theorem 1."""
    match event:
        case SuppressedHistogram():
            loss = Decimal(0)
            outside = "or the release is exactly as if they were not in the data"
        case NoisyHistogram(epsilon=epsilon):
            loss = epsilon
            outside = f"or the release is almost as if they were not in the data (a factor of at most e^{epsilon})"
        case _:
            assert_never(event)
    words = (
        f"({event.k}, {loss})-crowd-blending: each person either cannot be told apart from at least {event.k - 1} "
        f"others in the data, {outside}."
    )
    rate = event.sampling_rate
    if rate is None:
        return (
            f"{words} This alone is not differential privacy: the count of a group of {event.k} or more is published "
            "exactly."
        )
    if event.k < 2:  # a hypothesis of the theorem
        return words
    epsilon_zk = epsilon_zero_knowledge(loss, sampling_rate=rate)
    delta_zk = delta_zero_knowledge(k=event.k, sampling_rate=rate)
    return (
        f"{words} On a fresh sample at rate {rate} it is ({epsilon_zk}, {delta_zk})-zero-knowledge private: what it "
        f"tells about a person could almost be told from a {rate} sample of everybody else (aggregates iRS({rate}))."
    )


def biased_words(event: BiasedSampleCounts) -> str:
    """The crowd-blending guarantee where rates are unequal, and the zero-knowledge one where its theorem holds.

    CBP, Theorem 2, whose δ has no stated constant: it needs k ≥ 2 and ℓ < k − 1, and its δ falls with k − ℓ.
    """
    few = f" but for at most {event.exceptions} of its records" if event.exceptions else ""
    lowest, highest = event.lowest_rate, event.highest_rate
    words = (
        f"({event.k}, 0)-crowd-blending, on records with inclusion rates from {lowest} to {highest}{few}, none above "
        f"{event.largest_rate}"
    )
    if not zero_knowledge_holds(event):
        return f"{words}."
    fewer = "k" if event.exceptions == 0 else f"k - {event.exceptions} = {event.k - event.exceptions}"
    return (
        f"{words}: so it is also zero-knowledge private with epsilon {zero_knowledge_epsilon_biased(event)} for the "
        f"aggregates iRS({lowest}, {highest}, {event.exceptions}), with a delta that falls with {fewer} and has no "
        "stated constant (Theorem 2 of Gehrke, Hay, Lui, Pass)."
    )


def outlier_words(event: OutlierPrivateHistogram) -> str:
    """The outlier-private guarantee. Notes-CBP, Definition 7."""
    edge = event.horizon - event.margin
    return (
        f"Outlier-private: the rarer a person's group, the better the protection. In a group of c people below {edge} "
        f"the noise has loss {event.margin * event.epsilon}/({event.horizon} − c) per record, in larger ones "
        f"{event.epsilon}; neighbouring groups' scales differ, which is paid for in δ."
    )


def local_words(mechanism: KRandomization | CountMeanSketch) -> str:
    """The guarantee of one report, which needs no trust in whoever collects it."""
    words = (
        f"Each report is {local_epsilon(mechanism)}-locally private: it is randomized before it leaves the device, so "
        "that nobody, the collector included, need be trusted. That a person reports at all is not hidden."
    )
    if isinstance(mechanism, KRandomization) and mechanism.bits == 1:
        q = mechanism.flip_probability
        words += (
            f" Of one bit the largest ratio of two neighbours' probabilities is (1 − {q})/{q} exactly, for one "
            "report as for the number of ones among many (K-Randomization, 2016)."
        )
    return words


def outcome_words(event: OutcomeCounts, rule: str) -> str:
    """What the price of published outcome counts rests on, and what holds for whoever sees the reports themselves."""
    if rule == "outcome-counts-exact/1":
        basis = f"the exact distribution of the number of ones among {event.least_people} people or more"
    else:
        basis = (
            f"amplification by shuffling (arXiv:2012.12803, Theorem 3.1), whose condition that the local epsilon is at "
            f"most ln(n/(16 ln(2/delta))) was checked with n = {event.least_people}"
        )
    return (
        f"The price is that of the counts of all reports, by {basis}. It is for those who see this release and not the "
        "reports, and it holds while at least so many people's devices flipped their bits as stated and independently, "
        "and nothing else is ever published of these reports. Against whoever holds the reports this holds: "
        f"{local_words(event.randomizer)}"
    )
