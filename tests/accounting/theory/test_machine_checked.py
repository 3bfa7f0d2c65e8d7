"""What ties the machine-checked proofs (docs/proofs/coq) to the code: their definitions, evaluated exactly.

Coq proves the theorems about these definitions for all parameters; nothing but these tests says that the code computes
the same. e^ε is enclosed between two rationals, so every comparison is exact.
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache
from math import comb
from pathlib import Path

import numpy as np
import pytest
from crowdblend.accounting.kernel.prices.privacy_profile import delta_exact
from crowdblend.mechanisms.kinds.deletion import stage_counts
from crowdblend.mechanisms.kinds.deletion_noise import WEIGHT_TOTAL, OptimalDeletion, deletion_weights
from crowdblend.mechanisms.kinds.microdata import suppress

PROJECT = Path(__file__).resolve().parents[3]
PROOFS = PROJECT / "docs" / "proofs" / "coq"

# The definitions of the proofs, word for word; below, each by the same name.
DEFINITIONS = {
    "Privacy.v": [
        "match n with O => 0 | S m => sum m u + u m end.",
        "chances (S n) phi <= E * chances n phi + delta /\\ chances n phi <= E * chances (S n) phi + delta.",
    ],
    "Profile.v": [
        "(1 - rate) * u j + match j with O => 0 | S i => rate * u i end.",
        "| O => fun j => match j with O => 1 | S _ => 0 end | S m => coin rate (heads rate m)",
        "if (j <? k)%nat then 0%nat else j.",
        "sum (S n) (fun j => heads rate n j * phi (published k j)).",
        "Definition hidden (k : nat) (rate : R) (n : nat) : R := sum k (heads rate n).",
        "Definition gamma (rate E : R) : R := 1 - (1 - rate) / E.",
        "Definition eta (rate E : R) : R := 1 - E * (1 - rate).",
        "(k <= S n)%nat /\\ INR k - 1 <= gamma rate E * INR (S n) /\\",
        "INR k - 1 <= eta rate E * INR (S n) /\\",
        "R := (1 - hidden k rate (S n)) - E * (1 - hidden k rate n).",
        "R := hidden k rate n - E * hidden k rate (S n).",
        "(is_private E delta (chance k rate) <-> Rmax (adding k rate E nA) (removing k rate E nR) <= delta).",
    ],
    "Deletion.v": [
        "| O => 0 | S j => Rmin (Rmin (a * pi a d j + d) (1 - (1 - pi a d j - d) / a)) 1",
        "Definition noise (a d : R) (z : nat) : R := pi a d (S z) - pi a d z.",
        "sum most (fun z => noise a d z * phi (n - z)%nat).",
        "forall n, (forall j, 0 <= law n j) /\\ sum (S n) (law n) = 1.",
        "chance_by law n (at_least x) <= chance a d most n (at_least x).",
    ],
    "Weights.v": [
        "| O => 0 | S j => let b := below growth decay fine total share j in "
        "Z.min (Z.min (growth * b / fine + share) (total + decay * (b + share - total) / fine)) total end%Z.",
        "(below growth decay fine total share (S z) - below growth decay fine total share z)%Z.",
        "sum most (fun z => IZR (weight growth decay fine total share z) * phi (n - z)%nat) / IZR total.",
        "Hypothesis growth_down : IZR growth <= a * IZR fine.",
        "Hypothesis decay_up : IZR fine <= a * IZR decay.",
        "Hypothesis growth_near : (total * (fine - growth) <= fine)%Z.",
        "Hypothesis decay_near : (total * (decay - fine) <= fine)%Z.",
        "Hypothesis all_weights : below growth decay fine total share most = total.",
        "Hypothesis lowered : IZR share + INR most * (a + 1) <= delta * IZR total.",
    ],
}


def heads(rate, n):
    law = [Fraction(1)]
    for _ in range(n):
        law = [(1 - rate) * there + rate * below for there, below in zip([*law, 0], [0, *law], strict=True)]
    return law


def published(k, j):
    return 0 if j < k else j


def hidden(k, rate, n):
    return sum(heads(rate, n)[:k])


def first_adding(k, rate, growth):
    return next(n for n in itertools.count() if k <= n + 1 and k - 1 <= (1 - (1 - rate) / growth) * (n + 1))


def first_removing(k, rate, growth):
    return next(n for n in itertools.count() if k - 1 <= (1 - growth * (1 - rate)) * (n + 1))


def adding(k, rate, growth, n):
    return (1 - hidden(k, rate, n + 1)) - growth * (1 - hidden(k, rate, n))


def removing(k, rate, growth, n):
    return hidden(k, rate, n) - growth * hidden(k, rate, n + 1)


def pi(growth, delta):
    found = [Fraction(0)]
    while found[-1] < 1:
        found.append(min(growth * found[-1] + delta, 1 - (1 - found[-1] - delta) / growth, Fraction(1)))
    return found


def below(growth, decay, fine, total, share):
    found = [0]
    while found[-1] < total:
        b = found[-1]
        found.append(min(growth * b // fine + share, total + decay * (b + share - total) // fine, total))
    return found


def divergences(smaller, larger, growth):
    """The largest of chances(n + 1) − E·chances(n) over all events, and the other way round."""
    outcomes = smaller.keys() | larger.keys()
    pairs = [(smaller.get(o, 0), larger.get(o, 0)) for o in outcomes]
    return (
        sum(max(Fraction(0), above - growth * below) for below, above in pairs),
        sum(max(Fraction(0), below - growth * above) for below, above in pairs),
    )


@cache
def enclosed(epsilon, bits):
    """⌊2^bits·e^ε⌋ or a little less, and a little more, for a text or a double."""
    digits = Context(prec=bits // 3 + 40)
    value = Fraction(digits.exp(Decimal(epsilon)))
    slack = Fraction(1, 10 ** (digits.prec - 2))
    low, high = value * (1 - slack), value * (1 + slack)
    return (low.numerator << bits) // low.denominator, -((-high.numerator << bits) // high.denominator)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_the_proofs_have_the_definitions_that_are_evaluated_here(name):
    text = " ".join((PROOFS / name).read_text(encoding="utf-8").split())
    assert not [line for line in DEFINITIONS[name] if line not in text]


# The exact profile.


@pytest.mark.parametrize(("k", "rate"), [(1, Fraction(1, 8)), (3, Fraction(1, 2)), (4, Fraction(7, 8))])
def test_the_proved_delta_is_the_largest_divergence_of_what_is_published(k, rate):
    for growth in (Fraction(1), Fraction(3, 2), Fraction(6)):
        peak = first_adding(k, rate, growth)
        largest = [adding(k, rate, growth, peak)]
        if growth * (1 - rate) < 1:
            largest.append(removing(k, rate, growth, first_removing(k, rate, growth)))
        found = []
        for n in range(2 * peak + 4):
            laws = []
            for size in (n, n + 1):
                law = {}
                for j, mass in enumerate(heads(rate, size)):
                    shown = suppress(np.array([[7]]), np.array([j]), k).counts
                    assert shown.tolist() == ([j] if published(k, j) else [])
                    law[published(k, j)] = law.get(published(k, j), 0) + mass
                laws.append(law)
            found.append(divergences(*laws, growth))
        assert max(max(pair) for pair in found) <= max(largest)
        assert found[peak][0] == largest[0]
        if len(largest) > 1 and first_removing(k, rate, growth) < len(found):
            assert found[first_removing(k, rate, growth)][1] == largest[1]


BITS = 2048
BINARY = 10  # rates are multiples of 2^-10


def hidden_whole(k, rate, n):
    """2^(BINARY·n) times the chance that fewer than k of n are sampled."""
    successes = int(rate * (1 << BINARY))
    failures = (1 << BINARY) - successes
    total, term = 0, 1
    for j in range(min(k, n + 1)):
        total = total * failures + comb(n, j) * term
        term *= successes
    return total * failures ** (n + 1 - min(k, n + 1))


def proved_delta(k, rate, epsilon):
    """What Coq proves to be the least δ, as a fraction of a power of two rounded up: (numerator, bits)."""
    low, high = (1 << BITS, 1 << BITS) if epsilon == 0.0 else enclosed(epsilon, BITS)
    bounds = [Fraction(growth, 1 << BITS) for growth in {low, high}]
    sizes = (
        {max(k, -(-(k - 1) // (1 - (1 - rate) / growth))) for growth in bounds},
        {max(1, -(-(k - 1) // eta)) for growth in bounds if (eta := 1 - growth * (1 - rate)) > 0},
    )
    assert len(sizes[0]) == 1
    assert len(sizes[1]) <= 1
    size = sizes[0].pop()
    bits = BINARY * size + BITS
    without = (1 << BINARY * size) - (hidden_whole(k, rate, size - 1) << BINARY)
    found = [(((1 << BINARY * size) - hidden_whole(k, rate, size) << BITS) - low * without, bits)]
    for size in sizes[1]:
        without = hidden_whole(k, rate, size - 1) << BINARY + BITS
        found.append((without - low * hidden_whole(k, rate, size), BINARY * size + BITS))
    widest = max(bits for _, bits in found)
    return max(number << widest - bits for number, bits in found), widest


def check_profile(ks, rates, epsilons):
    for k, rate, epsilon in itertools.product(ks, rates, epsilons):
        number, bits = proved_delta(k, Fraction(rate), epsilon)
        reported = delta_exact(k=k, sampling_rate=float(rate), epsilon=epsilon)
        top, bottom = reported.as_integer_ratio()
        assert top << bits >= number * bottom, (k, rate, epsilon)
        if reported > 1e-290:
            assert top * 10**9 << bits <= number * bottom * (10**9 + 1), (k, rate, epsilon)


RATES = (Fraction(1, 64), Fraction(51, 1024), Fraction(102, 1024), Fraction(1, 4), Fraction(1, 2), Fraction(15, 16))


def test_the_charged_delta_is_the_proved_one_and_never_below():
    check_profile((1, 2, 7, 20, 60), RATES, (0.0, 0.05, 0.5, 2.0))


@pytest.mark.long
def test_the_charged_delta_is_the_proved_one_for_every_threshold_up_to_200():
    check_profile(range(1, 201), RATES, (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 2.0, 4.0, 7.0))


# The optimal deletion noise.


def test_what_a_stage_publishes_is_the_proved_difference():
    counts, deletions = np.meshgrid(np.arange(12), np.arange(12))
    kept = stage_counts(counts.ravel(), deletions.ravel(), k=1)
    assert kept.tolist() == [max(0, n - z) for n, z in zip(counts.ravel(), deletions.ravel(), strict=True)]


@pytest.mark.parametrize("growth", [Fraction(1), Fraction(5, 4), Fraction(3)])
@pytest.mark.parametrize("delta", [Fraction(1, 50), Fraction(2, 7)])
def test_the_proved_noise_is_private_for_every_group_and_event(growth, delta):
    below = pi(growth, delta)
    noise = [above - lower for lower, above in itertools.pairwise(below)]
    for n in range(len(noise) + 2):
        laws = []
        for size in (n, n + 1):
            law = {}
            for z, mass in enumerate(noise):
                law[max(0, size - z)] = law.get(max(0, size - z), 0) + mass
            laws.append(law)
        assert max(divergences(*laws, growth)) <= delta


def check_roundings(weights, low, high, delta, unit):
    """That the weights are those of the proved recursion, and what its theorem asks of their roundings."""
    fine, total = 1 << 256, WEIGHT_TOTAL
    growth, decay = (low >> unit - 256) - 1, -(-(1 << unit + 256) // low) + 1
    lowered = int(delta * total) - ((1 << 16) + 1) * (growth // fine + 3)
    assert list(itertools.accumulate(weights, initial=0)) == below(growth, decay, fine, total, lowered)
    assert growth << unit <= low * fine
    assert fine << unit <= low * decay
    assert total * (fine - growth) <= fine
    assert total * (decay - fine) <= fine
    assert lowered > 0
    assert (lowered << unit) + len(weights) * (high + (1 << unit)) <= delta * total * (1 << unit)


def check_noise(epsilons, deltas):
    unit = 512
    for epsilon, delta in itertools.product(epsilons, deltas):
        try:
            weights = deletion_weights(OptimalDeletion(epsilon=Decimal(epsilon), delta=Decimal(delta)))
        except ValueError:
            continue  # wider than any noise may be
        low, high = enclosed(epsilon, unit)
        share = Fraction(delta)
        check_roundings(weights, low, high, share, unit)
        # The recursion in whole 2^-512ths, rounded down; the weights lie below it, and nearly reach it.
        proved, one, step = [0], 1 << unit, (share.numerator << unit) // share.denominator
        while proved[-1] < one:
            proved.append(min(low * proved[-1] // one + step, one + (proved[-1] + step - one) * one // low, one))
        reached = [weight << unit - 128 for weight in itertools.accumulate(weights, initial=0)]
        assert 0 <= len(reached) - len(proved) <= 1
        for ours, least in zip(reached, proved, strict=False):
            assert ours <= least + (1 << unit // 2)
            assert least - ours <= least // 10**6
        # The weights themselves, by every event in both directions.
        for upper, lower in (([*weights, 0], [0, *weights]), ([0, *weights], [*weights, 0])):
            over = sum(max(0, (p << unit) - low * q) for p, q in zip(upper, lower, strict=True))
            assert over <= share * WEIGHT_TOTAL * one, (epsilon, delta)


def test_the_drawn_noise_is_the_proved_one_and_private():
    check_noise(("0.05", "0.5", "2"), ("0.1", "1e-6", "1e-12"))


@pytest.mark.long
def test_the_drawn_noise_is_the_proved_one_and_private_on_the_whole_grid():
    check_noise(
        [str(Decimal(step) / 100) for step in (1, 2, 5, *range(10, 100, 5), *range(100, 1000, 50))],
        [f"{lead}e-{place}" for place in range(1, 21) for lead in (1, 3)],
    )


# The proofs themselves.


def check_proofs(folder):
    return subprocess.run(
        ["make", "--no-print-directory", "proofs", f"PROOFS={folder}", f"CHECKED={folder}/checked"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "was", "becomes", "said"),
    [
        ("Profile.v", "", "", None),
        ("Profile.v", "(j <? k)%nat then", "(j <=? k)%nat then", "Profile.v"),
        ("Profile.v", "INR k - 1 <= gamma", "INR k <= gamma", "Profile.v"),
        ("Deletion.v", "(a * pi a d j + d)", "(a * pi a d j + 2 * d)", "Deletion.v"),
        (
            "Deletion.v",
            "Rmin (Rmin (a * pi a d j + d) (1 - (1 - pi a d j - d) / a)) 1",
            "Rmin (a * pi a d j + d) 1",
            "v",
        ),
        (
            "Deletion.v",
            "forall n, (forall j, 0 <= law n j) /\\ sum (S n)",
            "forall n, (forall j, 0 <= law n j) /\\ sum n",
            "v",
        ),
        ("Privacy.v", "sum n v.\nProof. induction n; simpl; lra. Qed.", "sum n v.\nProof. Admitted.", "something else"),
        ("Weights.v", "(growth * b / fine + share)", "(growth * b / fine + share + 1)", "Weights.v"),
        ("Weights.v", "IZR share + INR most * (a + 1)", "IZR share + INR most", "Weights.v"),
        (
            "Privacy.v",
            "Lemma naturals_unbounded x :",
            "Axiom naturals_unbounded : forall x, exists n, x < INR n.\nLemma unused x :",
            "something else",
        ),
    ],
)
def test_coq_checks_the_proofs_and_refuses_others(tmp_path, needs, name, was, becomes, said):
    needs(shutil.which("coqc") is not None, "Coq", "CROWDBLEND_TEST_COQ")
    folder = tmp_path / "coq"
    shutil.copytree(PROOFS, folder)
    text = (folder / name).read_text(encoding="utf-8")
    (folder / name).write_text(text.replace(was, becomes), encoding="utf-8")
    done = check_proofs(folder)
    if said is None:
        assert done.returncode == 0, done.stderr
    else:
        assert was in text
        assert done.returncode != 0
        assert said in done.stderr
