"""Exhibits: a second answer from one sample, seeds that can be guessed, and noise in floating point."""

from __future__ import annotations

import hashlib
import math
import os
from decimal import Decimal

import numpy as np
from crowdblend.accounting.kernel.prices.registry import price
from crowdblend.mechanisms.kernel.sampling import ChunkIdentity, kept_positions, sample_commitment
from crowdblend.mechanisms.kinds.answers import CountAnswer, Tally, answered
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease

from ..desk import Job, temporary_desk
from ..statistics.confidence import epsilon_lower
from .exhibit import Exhibit

__all__ = ["floating_point", "guessed_seeds", "second_answer", "second_release"]

ALARM = 1e-6
CHUNK = ChunkIdentity(file=0, block=0)
RATE = Decimal("0.2")
K = 20
SPEC = """
[release]
name = "reuse"
output = "unused"
[data]
dataset = "people"
source = "people.csv"
[sampling]
rate = 0.2
[suppression]
k = 20
[privacy]
delta = 1e-3
[columns.colour]
values = ["blue", "red"]
level = {level}
"""


def _counts(key: bytes, *, with_t: bool) -> tuple[int, int]:
    """Sampled records of blue (400 records) and of red (t alone, the last record)."""
    kept = kept_positions(key=key, chunk=CHUNK, records=401 if with_t else 400, rate=RATE)
    red = int(np.count_nonzero(kept == 400))
    return int(kept.size) - red, red


def second_release() -> Exhibit:
    """Two safe releases, one finer and one coarser, of one sample; and the same with a sample each."""
    runs = 20_000
    hits = {"one": [0, 0], "own": [0, 0]}
    for side in (0, 1):
        for _ in range(runs):
            key, other = os.urandom(32), os.urandom(32)
            blue, red = _counts(key, with_t=side == 0)
            hits["one"][side] += blue + red > blue >= K
            hits["own"][side] += sum(_counts(other, with_t=side == 0)) > blue >= K
    delta = Decimal("1e-3")
    paid = price(StronglySafeRelease(k=K, sampling_rate=RATE), delta=delta, releases=2)
    claimed, charged = 2 * float(price(StronglySafeRelease(k=K, sampling_rate=RATE), delta=delta / 2).epsilon), paid
    bound = max(
        epsilon_lower(hits["own"][a], runs, hits["own"][b], runs, delta=float(delta), alarm=ALARM)
        for a, b in ((0, 1), (1, 0))
    )
    least = epsilon_lower(hits["one"][0], runs, hits["one"][1], runs, delta=float(delta), alarm=ALARM)
    refused = _reuse_is_refused()
    return Exhibit(
        name="second-release",
        title="A second release of one sample (LQS §2.6)",
        other_way=f"a sample is released twice, finer and coarser, each strongly safe; ε = {claimed:.2f} "
        f"claimed for both",
        from_other=f"the coarser count is larger than the finer ones together in {hits['one'][0] / runs:.1%} of "
        f"the runs "
        f"with the person and in {hits['one'][1]} of {runs:,} without: it shows the dropped record; ε is at "
        f"least {least:.1f}",
        from_ours=f"with a sample each: {hits['own'][0] / runs:.1%} with and {hits['own'][1] / runs:.1%} "
        f"without; ε is at "
        f"least {bound:.2f}, and {float(charged.epsilon):.2f} was paid for both. A second release of a sample "
        f"{'was refused by the accountant' if refused else 'WAS NOT REFUSED'}",
        other_betrays=least > claimed,
        ours_betrays=bound > float(charged.epsilon) or not refused,
    )


def _reuse_is_refused() -> bool:
    """Whether the flow refuses a second release under the key of the first, and publishes nothing of it.

    Raises:
        RuntimeError: the first release was refused, or the second for another reason: the attack was not made.
    """
    with temporary_desk() as desk:
        desk.add_dataset("people")
        (desk.folder / "people.csv").write_text("colour\n" + "blue\n" * 400 + "red\n")
        jobs = [
            Job(spec=SPEC.format(level=level), output=f"out-{level}", release_id=f"reuse-{level}", key=bytes(range(32)))
            for level in (0, 1)
        ]
        first, second = desk.release(jobs)
        if "refused" in first or ("refused" in second and "sample" not in second["why"]):
            raise RuntimeError(f"no sample was used twice: {first.get('why')} {second.get('why')}")
        return second.get("refused") == "AccountantRefused" and not (desk.folder / "out-1").exists()


def second_answer() -> Exhibit:
    """Two noisy counts, each amplified by sampling, of one sample; and of a sample each."""
    rate, own, runs = 0.1, Decimal(2), 400_000
    answer = CountAnswer(epsilon=own, relation="add/remove", groups=1, sampling_rate=Decimal("0.1"))
    stated = 2 * float(price(answer, delta=Decimal(0)).epsilon)
    rng = np.random.default_rng(26)
    hits = {"one": [0, 0], "own": [0, 0]}
    for side in (0, 1):
        for kind, found in hits.items():
            first = rng.random(runs) < rate if side == 0 else np.zeros(runs, dtype=bool)
            again = first if kind == "one" or side == 1 else rng.random(runs) < rate
            noisy = [
                np.array(answered(answer, Tally(records=part.astype(np.int64), sums=np.zeros(runs, dtype=np.int64))))
                for part in (first, again)
            ]
            found[side] = int(np.count_nonzero((noisy[0] >= 1) & (noisy[1] >= 1)))
    least, bound = (
        epsilon_lower(hits[kind][0], runs, hits[kind][1], runs, delta=0.0, alarm=ALARM) for kind in ("one", "own")
    )
    return Exhibit(
        name="second-answer",
        title="A second noisy answer from one sample (LQS §2.6)",
        other_way=f"two counts with noise of ε = {own} each on one sample at rate {rate}, the amplified prices "
        f"added up: "
        f"ε = {stated:.2f} claimed",
        from_other=f"both answers at least 1: {hits['one'][0] / runs:.2%} with the person, {hits['one'][1] / runs:.2%} "
        f"without; ε is at least {least:.2f}, far above the claim",
        from_ours=f"with a sample each: {hits['own'][0] / runs:.2%} with, {hits['own'][1] / runs:.2%} without; ε is at "
        f"least {bound:.2f}, within the claim",
        other_betrays=least > stated,
        ours_betrays=bound > stated,
    )


def _grouped(kept: np.ndarray, with_t: bool) -> tuple[int, ...]:
    """Counts of 8 groups of 200 records each; t comes first and is of group 0."""
    places = kept - 1 if with_t else kept
    counts = np.bincount(np.maximum(places, 0) // 200, minlength=8)[:8]
    return tuple(np.where(counts >= K, counts, 0).tolist())


def guessed_seeds() -> Exhibit:
    """A sample drawn by a generator with a seed like a date or a small number, and one under a secret key."""
    candidates, trials = range(20_000, 40_000), 200
    tables: dict[tuple[int, ...], set[bool]] = {}
    for seed in candidates:
        for with_t in (True, False):
            kept = np.flatnonzero(np.random.default_rng(seed).random(1_600 + with_t) < 0.2)
            tables.setdefault(_grouped(kept, with_t), set()).add(with_t)
    coins = np.random.default_rng(5)
    right = 0
    for _ in range(trials):
        truth = bool(coins.integers(2))
        kept = np.flatnonzero(np.random.default_rng(int(coins.choice(candidates))).random(1_600 + truth) < 0.2)
        right += tables[_grouped(kept, truth)] == {truth}
    ours_right, opened = 0, 0
    guesses = {
        sample_commitment(make(seed))
        for seed in candidates
        for make in (
            lambda seed: seed.to_bytes(32, "big"),
            lambda seed: seed.to_bytes(32, "little"),
            lambda seed: hashlib.sha256(str(seed).encode()).digest(),
        )
    }
    for _ in range(trials):
        truth, key = bool(coins.integers(2)), os.urandom(32)
        kept = kept_positions(key=key, chunk=CHUNK, records=1_600 + truth, rate=RATE)
        ours_right += tables.get(_grouped(kept, truth), set()) == {truth}
        opened += sample_commitment(key) in guesses
    return Exhibit(
        name="guessed-seeds",
        title="Predictable seeds",
        other_way=f"the sample is drawn by a generator seeded with one of {len(candidates):,} numbers, such as a day",
        from_other=f"whoever knows all records but one tries every seed against the published counts and tells "
        f"whether the "
        f"person is there: right and certain in {right} of {trials} releases",
        from_ours=f"the same table of seeds fits {ours_right} of {trials} releases, and none of "
        f"{len(guesses):,} keys made "
        f"from those seeds opens a release's sample id ({opened} of {trials}): the key has 256 bits of the operating "
        "system's",
        other_betrays=right > 0.5 * trials,
        ours_betrays=opened > 0 or ours_right > 0,
    )


def _possible(output: float, exact: float) -> bool:
    """Whether exact + (−ln u)·sign, as the naive sampler computes it, can be this output for some 53-bit u."""
    middle = round(math.exp(-abs(output - exact)) * 2.0**53)
    for offset in range(-8, 9):
        u = (middle + offset) * 2.0**-53
        if 0.0 < u < 1.0 and exact + math.copysign(-math.log(u), output - exact) == output:
            return True
    return False


def floating_point() -> Exhibit:
    """Laplace noise as a formula of doubles, and whole numbers with exact noise."""
    rng, runs = np.random.default_rng(53), 4_000
    certain = 0
    for _ in range(runs):
        u = int(rng.integers(1, 1 << 53)) * 2.0**-53
        output = 1.0 + (-math.log(u) if rng.integers(2) else math.log(u))
        certain += not _possible(output, 0.0)
    answer = CountAnswer(epsilon=Decimal(1), relation="add/remove", groups=1, sampling_rate=None)
    seen = [
        set(answered(answer, Tally(records=np.full(100_000, exact), sums=np.zeros(100_000, dtype=np.int64))))
        for exact in (0, 1)
    ]
    only = [sorted(one - other, key=abs) for one, other in (seen, seen[::-1])]
    # Outputs that only one neighbour shows must be rare ones, far out in the tail.
    near = [value for part in only for value in part if abs(value) < 7]
    return Exhibit(
        name="floating-point",
        title="Noise in floating point (Mironov, CCS 2012)",
        other_way="a count plus −ln(u) in doubles, u of 53 bits",
        from_other=f"the last bits tell: {certain / runs:.1%} of the answers to a count of 1 are impossible for "
        f"a count of "
        "0; δ is that large for every ε",
        from_ours=f"answers are whole numbers with exact noise: of 100,000 answers each, every number from −6 "
        f"to 6 comes "
        f"with a count of 0 and with one of 1 ({len(near)} exceptions)",
        other_betrays=certain > 0.1 * runs,
        ours_betrays=bool(near),
    )
