"""Attacks on ways of releasing: on one person by somebody who knows all others, and on people in and not in the table.

- *One known person*: the attacker knows every other record, what was deleted of the others too, and all parameters; she
  is in the table or not. The statistic is the best there is, the logarithm of the ratio of the chances of what is
  published with and without her (Neyman and Pearson). What it reaches is bounded by the price: hits ≤ e^ε·(false
  alarms) + δ. A lower bound on ε is had from counted hits (Clopper and Pearson), at an event that was chosen on draws
  of its own.
- *People in the table and not in it*: one release, people whose records were in, and control people who were held out.
  *Presence*: how much the release has of her very values, measured by what it would have if its columns were
  independent, so that a rare combination tells more than a frequent one. *Inference*: the label of one column guessed
  by the others, as the release has it among all that agree; what succeeds with control people as well is no leak of
  anybody's record.
- *Groups of one*: of the groups that the release shows, how many fit exactly one person (Cohen and Nissim,
  arXiv:1904.06009, call that isolating).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from crowdblend.mechanisms.kernel.recoding import coarsened
from crowdblend.mechanisms.kinds.deletion import CalibratedDeletion, DeletionRelease, residual_counts, stage_counts
from crowdblend.mechanisms.kinds.deletion_noise import GaussianDeletion, draw_deletions
from crowdblend.mechanisms.measures.risk import deletion_losses, sampling_losses
from numpy.typing import NDArray

from audit.statistics.confidence import Event, chosen_event, epsilon_lower

from .deletion import DELTA
from .measures import QUANTILE, auc
from .tables import COARSE_LEVEL, USUAL_LEVEL, Table
from .ways import SUBSAMPLE, Released, arx_sampling, counted, drawn_noise, most_published, planned_deletion

__all__ = ["FALSE_ALARMS", "KNOWN", "NOTHING_DONE", "OnPeople", "attack_known", "gain", "power"]

NOTHING_DONE = "the table itself"
FALSE_ALARMS = 0.01
ALARM = 0.05 / 40
"""So that all bounds of a page hold together with 95%."""
SCOUTS, DRAWS, CANDIDATES = 4_000, 20_000, 24
_LARGEST, _STEPS = 20.0, 50
_AT_ONCE = 500

Amounts = NDArray[np.float64]
Codes = NDArray[np.int64]
Draw = Callable[[bool, int], Amounts]
"""Losses of some draws, with her or without."""


def _same(table: Table, records: Codes, person: int, level: int) -> NDArray[np.bool_]:
    recoding = table.map_of(level)
    keys = recoding.keys([own[values] for own, values in zip(table.label_codes(level), records, strict=True)])
    return np.asarray(np.all(keys == keys[:, [person]], axis=0))


def _sampled(records: int, rate: Decimal, k: int, coins: np.random.Generator) -> Draw:
    def draw(there: bool, draws: int) -> Amounts:
        seen = coins.binomial(records - (not there), float(rate), draws)
        seen = np.where(seen >= k, seen, 0)
        return sampling_losses(seen, np.full(draws, records), rate=float(rate), k=k)

    return draw


def _by_usual(table: Table, records: Codes, epsilon: Decimal, person: int, coins: np.random.Generator) -> Draw:
    sampling = most_published(table, records, epsilon, USUAL_LEVEL)
    return _sampled(int(_same(table, records, person, USUAL_LEVEL).sum()), sampling.rate, sampling.k, coins)


def _by_arx(table: Table, records: Codes, epsilon: Decimal, person: int, coins: np.random.Generator) -> Draw:
    sampling = arx_sampling(epsilon)
    return _sampled(int(_same(table, records, person, USUAL_LEVEL).sum()), sampling.rate, sampling.k, coins)


def _by_subsample(table: Table, records: Codes, _epsilon: Decimal, person: int, coins: np.random.Generator) -> Draw:
    return _sampled(int(_same(table, records, person, 0).sum()), SUBSAMPLE, 1, coins)


def _by_table(_table: Table, _records: Codes, _epsilon: Decimal, _person: int, _coins: np.random.Generator) -> Draw:
    return lambda there, draws: np.full(draws, math.inf if there else -math.inf)


def _by_histogram(_table: Table, _records: Codes, epsilon: Decimal, _person: int, coins: np.random.Generator) -> Draw:
    def draw(there: bool, draws: int) -> Amounts:
        noise = drawn_noise(epsilon, draws, coins) - (not there)
        return float(epsilon) * (np.abs(noise + 1.0) - np.abs(noise))

    return draw


def _by_deletion(levels: Sequence[int], margins: bool) -> Callable[..., Draw]:
    def attack(table: Table, records: Codes, epsilon: Decimal, person: int, coins: np.random.Generator) -> Draw:
        mechanism = planned_deletion(epsilon, len(levels), len(table.names) if margins else 0).mechanism
        others = _left_by_others(table, records, person, mechanism, levels, coins)

        def draw(there: bool, draws: int) -> Amounts:
            left, losses = np.full(draws, int(there), dtype=np.int64), np.zeros(draws)
            for added in others:
                left = left + added
                shown = stage_counts(
                    left, draw_deletions(mechanism.noise, draws, randomness=coins.bytes), k=mechanism.k
                )
                losses += deletion_losses(shown, left + (not there), noise=mechanism.noise, k=mechanism.k)
                left = left - shown
            if isinstance(mechanism, CalibratedDeletion):
                for _ in table.names:
                    losses += _of_margin(mechanism.margin_noise, there, draws, coins)
            return losses

        return draw

    return attack


def _of_margin(noise: GaussianDeletion, there: bool, draws: int, coins: np.random.Generator) -> Amounts:
    """A cell's noisy count tells by Z, as a group from which nothing can be missing."""
    many = 1 << 20
    kept = many - draw_deletions(noise, draws, randomness=coins.bytes)
    return deletion_losses(kept, np.full(draws, many + (not there)), noise=noise, k=1)


def _left_by_others(
    table: Table,
    records: Codes,
    person: int,
    mechanism: DeletionRelease,
    levels: Sequence[int],
    coins: np.random.Generator,
) -> list[int]:
    """How many records of others come to her group at each stage, from the records and from groups beside hers."""
    near = _same(table, records, person, levels[-1])
    near[person] = False
    maps = [table.map_of(level) for level in levels]
    own = [
        recoding.keys(
            [codes[values[[person]]] for codes, values in zip(table.label_codes(level), records, strict=True)]
        )
        for recoding, level in zip(maps, levels, strict=True)
    ]
    keys, counts = counted(table, records[:, near], levels[0])
    found = []
    for stage, recoding in enumerate(maps):
        hers = np.all(keys == own[stage], axis=0)
        found.append(int(counts[hers].sum()))
        keys, counts = keys[:, ~hers], counts[~hers]
        if stage + 1 == len(maps) or not counts.size:
            break
        drawn = draw_deletions(mechanism.noise, counts.size, randomness=coins.bytes)
        above, parents = coarsened(
            keys, finer=recoding, coarser=maps[stage + 1], tables=recoding.tables_to(maps[stage + 1])
        )
        shown = stage_counts(counts, drawn, k=mechanism.k)
        keys, counts = above, residual_counts(counts, shown, parents, groups=above.shape[1])
    return [*found, *[0] * (len(maps) - len(found))]


KNOWN: dict[str, Callable[[Table, Codes, Decimal, int, np.random.Generator], Draw]] = {
    NOTHING_DONE: _by_table,
    "subsample of 10%, no guarantee": _by_subsample,
    "ARX's method": _by_arx,
    "sampled": _by_usual,
    "deletion": _by_deletion((USUAL_LEVEL,), margins=False),
    "deletion, calibrated": _by_deletion((0, USUAL_LEVEL, COARSE_LEVEL), margins=True),
    "noisy histogram": _by_histogram,
}
"""Way → table, records, price, number of her record and coins → what the attacker on her sees. Synthesizers
would have to be fitted anew for every draw."""


def attack_known(
    table: Table, records: Codes, epsilon: Decimal, way: str, coins: np.random.Generator, *, quick: bool = False
) -> dict[str, float]:
    """The attack on one known person: on the most exposed of some, and on one in a group of median size.

    Args:
        table: the columns.
        records: all of them.
        epsilon: the price.
        way: a name of `KNOWN`.
        coins: what everything is drawn with.
        quick: a tenth of the draws.

    Returns:
        `bound`, a lower bound on ε, wrong with a chance of `ALARM`; `power`, hits at 1% false alarms;
        `auc`; each of them with `, median` behind it for the second person.
    """
    scouts, draws = (SCOUTS // 10, DRAWS // 10) if quick else (SCOUTS, DRAWS)
    groups = counted(table, records, USUAL_LEVEL)
    recoding = table.map_of(USUAL_LEVEL)
    keys = recoding.keys([own[values] for own, values in zip(table.label_codes(USUAL_LEVEL), records, strict=True)])
    sizes = groups.counts[np.searchsorted(groups.keys[0], keys[0])]
    order = np.argsort(sizes, kind="stable")
    wanted = np.geomspace(1, sizes[order[-1]], CANDIDATES)
    people = order[np.minimum(np.searchsorted(sizes[order], wanted), order.size - 1)]
    middle = int(order[order.size // 2])
    found = {}
    promised: list[tuple[float, Draw, Event]] = []
    for person in [*dict.fromkeys(people.tolist()), middle]:
        view = KNOWN[way](table, records, epsilon, person, coins)
        event = chosen_event((_counts(view(False, scouts)), _counts(view(True, scouts))), delta=float(DELTA))
        promised.append((event.promise, view, event))
    for behind, (_, view, event) in (("", max(promised[:-1], key=lambda one: one[0])), (", median", promised[-1])):
        without, there = view(False, draws), view(True, draws)
        hits = [event.hits(_counts(losses)) for losses in (without, there)]
        likelier = event.likelier
        found[f"bound{behind}"] = epsilon_lower(
            hits[likelier], draws, hits[1 - likelier], draws, delta=float(DELTA), alarm=ALARM
        )
        found[f"power{behind}"] = power(there, without)
        found[f"auc{behind}"] = _auc(there, without)
    return found


def _counts(losses: Amounts) -> Codes:
    """How often each outcome was, losses being cut into outcomes."""
    return np.bincount(np.rint((np.clip(losses, -_LARGEST, _LARGEST) + _LARGEST) * _STEPS).astype(np.int64))


def _auc(hits: Amounts, alarms: Amounts) -> float:
    scores = np.clip(np.concatenate([hits, alarms]), -1e6, 1e6)
    return auc(scores, np.arange(scores.size) < hits.size, np.ones(scores.size))


def power(hits: Amounts, alarms: Amounts, *, at: float = FALSE_ALARMS) -> float:
    """The share of hits when so large a share of the others raises a false alarm, by a coin where scores are the same.

    Args:
        hits: scores of people who are in; shape (n,).
        alarms: scores of people who aren't; shape (m,).
        at: the share of false alarms.
    """
    found = [(0.0, 0.0)]
    for score in np.unique(np.concatenate([hits, alarms]))[::-1].tolist():
        found.append((float(np.mean(alarms >= score)), float(np.mean(hits >= score))))
        if found[-1][0] > at:
            break
    (low, below), (high, above) = found[-2:]
    return above if high <= at else below + (above - below) * (at - low) / (high - low)


def gain(own: float, people: int, other: float, others: int) -> tuple[float, float, float]:
    """The difference of two shares and its 95% interval, by Wilson's limits (Newcombe 1998).

    Args:
        own: share of the people in the table for whom an attack succeeds.
        people: how many of them were attacked.
        other: share of the control people.
        others: how many of them.
    """
    (low, high), (least, most) = _wilson(own, people), _wilson(other, others)
    found = own - other
    return found, found - math.hypot(own - low, most - other), found + math.hypot(high - own, other - least)


def _wilson(share: float, number: int) -> tuple[float, float]:
    square = QUANTILE**2
    middle = (share + square / (2 * number)) / (1 + square / number)
    reach = QUANTILE / (1 + square / number) * math.sqrt(share * (1 - share) / number + square / (4 * number**2))
    return middle - reach, middle + reach


@dataclass(frozen=True, kw_only=True)
class OnPeople:
    """The attacks on people in the table and not in it.

    Args:
        table: the columns.
        records: those that are released, shape (columns, records).
        members: some of them.
        controls: people who were held out.
        secret: the place of the column that is guessed.
    """

    table: Table
    records: Codes
    members: Codes
    controls: Codes
    secret: int

    def measured(self, released: Released) -> dict[str, float]:
        """How much each attack reaches with a release."""
        mass = np.maximum(released.mass, 0.0)
        seen = [self._presence(released, mass, people) for people in (self.members, self.controls)]
        told = [self._inference(released, mass, people) for people in (self.members, self.controls)]
        return {
            "presence: auc": _auc(*seen),
            "presence: power": power(*seen),
            "inference: in": told[0],
            "inference: control": told[1],
            "groups of one": self._alone(released, mass),
        }

    def _presence(self, released: Released, mass: Amounts, people: Codes) -> Amounts:
        places = range(len(self.table.names))
        found = np.concatenate([mass @ _agreeing(released.shares, some, places) for some in _chunks(people)])
        total = max(float(mass.sum()), 1e-300)
        for own, values in zip(released.shares, people, strict=True):
            found = found / np.maximum((mass @ own)[values] / total, 1e-300)
        return np.asarray(found)

    def _inference(self, released: Released, mass: Amounts, people: Codes) -> float:
        labels = self.table.label_codes(USUAL_LEVEL)[self.secret]
        known = [place for place in range(len(self.table.names)) if place != self.secret]
        told = released.shares[self.secret] @ (labels[:, None] == np.arange(labels.max() + 1))
        overall = mass @ told
        right = 0
        for some in _chunks(people):
            scores = (_agreeing(released.shares, some, known) * mass[:, None]).T @ told
            guesses = np.argmax(np.where(scores.sum(axis=1, keepdims=True) > 0, scores, overall), axis=1)
            right += int((guesses == labels[some[self.secret]]).sum())
        return right / people.shape[1]

    def _alone(self, released: Released, mass: Amounts) -> float:
        shown = mass > 0
        if not shown.any():
            return 0.0
        values, counts = np.unique(self.records, axis=1, return_counts=True)
        fitting = np.zeros(int(shown.sum()))
        fits = [(own[shown] > 0).astype(np.float32) for own in released.shares]
        for some, number in zip(_chunks(values), _chunks(counts[None, :]), strict=True):
            fitting += _agreeing(fits, some, range(len(fits))) @ number[0]
        return float(np.mean(np.rint(fitting) == 1))


def _agreeing(shares: Sequence[NDArray[np.floating]], people: Codes, places: Sequence[int]) -> NDArray[np.floating]:
    """For each group and each of some people the chance that a record of the group has her values in some columns."""
    found = shares[places[0]][:, people[places[0]]]
    for place in places[1:]:
        found = found * shares[place][:, people[place]]
    return found


def _chunks(people: Codes) -> list[Codes]:
    return [people[:, start : start + _AT_ONCE] for start in range(0, people.shape[1], _AT_ONCE)]
