"""The contract that every kind of mechanism keeps: its record lasts, its price is a price, and enough is said of it."""

from __future__ import annotations

import importlib
import json
import pkgutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import fields, replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from crowdblend import mechanisms
from crowdblend.accounting.descriptions.description_registry import description_of
from crowdblend.accounting.kernel.prices.mechanism_kind import MechanismKind, Price
from crowdblend.accounting.kernel.prices.registry import (
    MECHANISM_KINDS,
    RegisteredKind,
    add_kind,
    kind_of,
    load_kind,
    mechanism_of_record,
    mechanism_record,
    paper_price,
    price,
)
from crowdblend.accounting.kinds.composition.amplification import Concentrated, Guarantee
from crowdblend.accounting.kinds.composition.bounded_range import BoundedRange
from crowdblend.accounting.kinds.composition.composed import epsilon_composed
from crowdblend.accounting.kinds.composition.finite_losses import FiniteLosses
from crowdblend.accounting.kinds.composition.renyi_filter import (
    RULE,
    RULE_WITHOUT_LOSSES,
    FilterCost,
    filter_cost,
    tail_of,
)
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kernel.mechanism import ADD_REMOVE, REPLACEMENT, Mechanism
from crowdblend.mechanisms.kinds.answers import CountAnswer, MeanAnswer, SumAnswer
from crowdblend.mechanisms.kinds.biased_sampling import BiasedSampleCounts, UnequalRatesHistogram
from crowdblend.mechanisms.kinds.calibrated_sample import CalibratedSample
from crowdblend.mechanisms.kinds.deletion import (
    CalibratedDeletion,
    DeletionRelease,
    ExponentialDeletion,
    SelectedDeletion,
)
from crowdblend.mechanisms.kinds.deletion_noise import GaussianDeletion, GeometricDeletion, OptimalDeletion
from crowdblend.mechanisms.kinds.histogram import NoisyHistogram, OutlierPrivateHistogram, SuppressedHistogram
from crowdblend.mechanisms.kinds.krandomization import KRandomization, OutcomeCounts
from crowdblend.mechanisms.kinds.member_deletion import (
    CalibratedMembersDeletion,
    MemberRows,
    MembersDeletion,
    PairedMembersDeletion,
)
from crowdblend.mechanisms.kinds.microdata import EpsilonSafeRelease, ExponentialSafeRelease, StronglySafeRelease
from crowdblend.mechanisms.kinds.mixed_series import MixedSeries
from crowdblend.mechanisms.kinds.moments import MomentsAnswer
from crowdblend.mechanisms.kinds.paired_deletion import BlockedDeletion, PairedDeletion
from crowdblend.mechanisms.kinds.points import SyntheticPoints
from crowdblend.mechanisms.kinds.sketch import CountMeanSketch
from crowdblend.mechanisms.kinds.synthetic_table import SyntheticTable

RATE, HALF, DELTA = Decimal("0.1"), Decimal("0.5"), Decimal("1e-4")
NOISY = NoisyHistogram(k=5, epsilon=Decimal(1), sampling_rate=Decimal("0.3"))
SAFE = StronglySafeRelease(k=20, sampling_rate=RATE)
FLIPS = KRandomization(bits=2, flip_probability=Decimal("0.25"))
ONE = KRandomization(bits=1, flip_probability=Decimal("0.25"))
ANSWER = {"epsilon": HALF, "groups": 3, "sampling_rate": RATE, "relation": ADD_REMOVE}
DRAWN = EpsilonSafeRelease(k=20, sampling_rate=RATE, selection_epsilon=Decimal("0.05"), selection_rate=None)
RANGED = ExponentialSafeRelease(
    k=20, sampling_rate=RATE, selection_epsilon=Decimal("0.05"), selection_rate=None, selection_draws=1
)
SURVEY = BiasedSampleCounts(k=20, lowest_rate=RATE, highest_rate=RATE, largest_rate=Decimal("0.103"), exceptions=1)

MEMBERS = MemberRows(most_members=3, member_stages=2, member_scale=Decimal(24), member_width=122)

STRANGER = Path(__file__).parents[1] / "support" / "stranger"
STRANGERS_KIND = RegisteredKind("acme_coins.prices", "acme_coins.description", ("acme-coins:coin-flip-count/1",))

EXAMPLES: dict[str, tuple[Mechanism, ...]] = {
    "strongly_safe": (SAFE,),
    "epsilon_safe": (DRAWN, replace(DRAWN, selection_rate=HALF), RANGED, replace(RANGED, selection_draws=4)),
    "suppressed_histogram": (SuppressedHistogram(k=20, sampling_rate=RATE),),
    "noisy_histogram": (NOISY,),
    "outlier_histogram": (OutlierPrivateHistogram(epsilon=HALF, horizon=30, margin=20),),
    "survey_counts": (SURVEY,),
    "unequal_rates": (UnequalRatesHistogram(k=20, sampling_rate=RATE, lowest_rate=RATE),),
    "points": (
        SyntheticPoints(dimensions=2, cells_per_side=4, counts=SAFE),
        SyntheticPoints(dimensions=1, cells_per_side=9, counts=NOISY),
    ),
    "answers": (
        CountAnswer(**ANSWER),
        CountAnswer(**ANSWER | {"sampling_rate": None, "relation": REPLACEMENT}),
        SumAnswer(**ANSWER, lower=-3, upper=9),
        MeanAnswer(**ANSWER | {"sampling_rate": None}, lower=0, upper=9, least_records=4),
    ),
    "moments": (
        MomentsAnswer(epsilon=HALF, relation=ADD_REMOVE, columns="18 to 90; 4 labels"),
        MomentsAnswer(epsilon=HALF, relation=REPLACEMENT, columns="-7 to 0"),
    ),
    "local_reports": (CountMeanSketch(epsilon=Decimal(4), hashes=8, bits=64, seed=b"seed"), FLIPS, ONE),
    "outcome_counts": (
        OutcomeCounts(randomizer=FLIPS, least_people=10**6),
        OutcomeCounts(randomizer=ONE, least_people=900),
    ),
    "mixed_series": (MixedSeries(parts="2 x k=20,rate=0.1; 3 x k=50,rate=0.05; 1 x epsilon=0.05"),),
    "selected_deletion": (
        SelectedDeletion(
            stages=1, k=2, noise=OptimalDeletion(epsilon=HALF, delta=DELTA / 10), selection_epsilon=Decimal("0.05")
        ),
        SelectedDeletion(
            stages=2, k=5, noise=GeometricDeletion(epsilon=HALF, width=30), selection_epsilon=Decimal("0.2")
        ),
        ExponentialDeletion(
            stages=2,
            k=5,
            noise=GeometricDeletion(epsilon=HALF, width=30),
            selection_epsilon=Decimal("0.2"),
            selection_draws=3,
        ),
    ),
    "deletion": (
        DeletionRelease(stages=1, k=2, noise=OptimalDeletion(epsilon=HALF, delta=DELTA / 10)),
        DeletionRelease(stages=2, k=5, noise=GeometricDeletion(epsilon=HALF, width=30)),
        DeletionRelease(stages=3, k=9, noise=GaussianDeletion(scale=Decimal("7.8"), width=39)),
        CalibratedDeletion(
            stages=2,
            k=3,
            noise=GeometricDeletion(epsilon=HALF, width=30),
            margins=4,
            margin_scale=Decimal("20.5"),
            margin_width=90,
        ),
    ),
    "calibrated_sample": (
        CalibratedSample(k=20, sampling_rate=RATE, margins=4, margin_scale=Decimal("40.5"), margin_width=210),
        CalibratedSample(k=30, sampling_rate=RATE, margins=1, margin_scale=Decimal(20), margin_width=104),
    ),
    "paired_deletion": (
        PairedDeletion(
            stages=2,
            k=3,
            noise=GaussianDeletion(scale=Decimal("7.8"), width=39),
            margins=4,
            margin_scale=Decimal("20.5"),
            margin_width=110,
            pairs=3,
            pair_scale=Decimal(16),
            pair_width=90,
            pair_epsilon=Decimal("0.05"),
        ),
        BlockedDeletion(
            stages=2,
            k=3,
            noise=GaussianDeletion(scale=Decimal("9.5"), width=48),
            margins=4,
            margin_scale=Decimal("20.5"),
            margin_width=110,
            pairs=3,
            pair_scale=Decimal(16),
            pair_width=90,
            pair_epsilon=Decimal("0.05"),
            blocks=2,
        ),
    ),
    "members_deletion": (
        MembersDeletion(stages=2, k=3, noise=GaussianDeletion(scale=Decimal("7.8"), width=39), members=MEMBERS),
        CalibratedMembersDeletion(
            stages=1,
            k=3,
            noise=GaussianDeletion(scale=Decimal("7.8"), width=39),
            margins=4,
            margin_scale=Decimal("20.5"),
            margin_width=110,
            members=MEMBERS,
        ),
        PairedMembersDeletion(
            stages=2,
            k=3,
            noise=GaussianDeletion(scale=Decimal("9.5"), width=48),
            margins=4,
            margin_scale=Decimal("20.5"),
            margin_width=110,
            pairs=3,
            pair_scale=Decimal(16),
            pair_width=90,
            pair_epsilon=Decimal("0.05"),
            members=MEMBERS,
        ),
    ),
    "synthetic_table": (
        SyntheticTable(method="mst", rho=Decimal("0.02")),
        SyntheticTable(method="aim", rho=Decimal("0.5")),
    ),
}
"""Mechanisms of every kind: each law is tried on all of them."""

DEARER: dict[str, Callable[[Any], Any]] = {
    "k": lambda k: k - 1,
    "sampling_rate": lambda rate: None if rate is None else rate + Decimal("0.003"),
    "epsilon": lambda epsilon: epsilon + Decimal("0.1"),
    "selection_epsilon": lambda epsilon: epsilon + Decimal("0.1"),
    "selection_rate": lambda rate: None if rate is None else rate + Decimal("0.1"),
    "lowest_rate": lambda rate: rate - Decimal("0.002"),
    "highest_rate": lambda rate: rate + Decimal("0.002"),
    "largest_rate": lambda rate: rate + Decimal("0.002"),
    "exceptions": lambda few: few + 1,
    "flip_probability": lambda q: q - Decimal("0.01"),
    "least_people": lambda people: people // 2,
    "rho": lambda rho: rho * 2,
    "pairs": lambda pairs: pairs + 1,
    "pair_epsilon": lambda epsilon: epsilon + Decimal("0.1"),
}
"""Field → a value with which nobody is protected better; what isn't here has no one direction."""


def delta_of(kind: MechanismKind[Any]) -> Decimal:
    return Decimal(0) if kind.pure else DELTA


def runs_of(mechanism: Mechanism) -> int:
    """How many releases a price is for where nothing is said: one, or all that a series of different ones has."""
    return mechanism.releases if isinstance(mechanism, MixedSeries) else 1


@cache
def charged(mechanism: Mechanism, **more: Any) -> Price:
    return price(mechanism, delta=delta_of(kind_of(mechanism)), **({"releases": runs_of(mechanism)} | more))


def refused(call: Callable[[], object]) -> bool:
    try:
        call()
    except InputRefused:
        return True
    return False


def check_records(name: str, kind: MechanismKind[Any], mechanism: Mechanism) -> None:
    """What is written is flat and exact, says everything, is read back, and anything else is refused."""
    assert set(kind.records) == set(MECHANISM_KINDS[name].records), (
        f"{name}: its line in MECHANISM_KINDS names other records than its `records`"
    )
    forms = [form for form in kind.records.values() if form.describes(mechanism)]
    assert len(forms) == 1, f"{name}: `records` has {len(forms)} forms for {mechanism}"
    record = mechanism_record(mechanism)
    assert all(type(value) in (str, int) for value in record.values()), f"{name}: `records` writes other than texts"
    stated = {one.name for one in fields(mechanism)}  # type: ignore[arg-type]
    for held in forms[0].nested:
        stated |= {one.name for one in fields(getattr(mechanism, held))} - {held}
    for held in forms[0].shapes:
        stated |= {one.name for one in fields(getattr(mechanism, held))}
    assert stated - set(forms[0].nested) | {"kind"} == set(record), f"{name}: `records` doesn't say all of it"
    assert mechanism_of_record(json.loads(json.dumps(record))) == mechanism, f"{name}: `records` doesn't read it back"
    for field in record:
        assert refused(lambda: mechanism_of_record({key: record[key] for key in record if key != field})), field  # noqa: B023
        assert refused(lambda: mechanism_of_record(record | {field: [1]})), field  # noqa: B023
    for wrong, told in (({"more": 1}, "has the fields"), ({"kind": "no/9"}, "unknown kind")):
        with pytest.raises(InputRefused, match=told):
            mechanism_of_record(record | wrong)


def theorems_of(name: str) -> Any:
    return description_of(EXAMPLES[name][0]).theorems


def check_price(name: str, kind: MechanismKind[Any], mechanism: Mechanism) -> None:
    """A price has a rule with a theorem, no more digits than are compared, and rises where protection falls."""
    found, delta = charged(mechanism), delta_of(kind)
    assert found.epsilon > 0, f"{name}: `price`"
    assert (found.delta, found.releases, found.rows_per_person) == (delta, runs_of(mechanism), 1), f"{name}: `price`"
    assert found.relation in (ADD_REMOVE, REPLACEMENT), f"{name}: `price`"
    assert len(found.epsilon.as_tuple().digits) <= 12, f"{name}: `price` isn't rounded up"
    assert found.rule in theorems_of(name), f"{name}: `theorems` lacks {found.rule}"
    if kind.pure:
        with pytest.raises(InputRefused, match="delta 0"):
            price(mechanism, delta=DELTA)
    elif not kind.exclusive:
        less = price(mechanism, delta=DELTA / 10, releases=found.releases)
        assert less.epsilon >= found.epsilon, f"{name}: `price` falls with delta"
    for field in [one.name for one in fields(mechanism) if one.name in DEARER]:  # type: ignore[arg-type]
        if (value := DEARER[field](getattr(mechanism, field))) is None:
            continue
        worse = replace(mechanism, **{field: value})  # type: ignore[type-var]
        assert charged(worse).epsilon >= found.epsilon, f"{name}: `price` falls where {field} is {value}"


def check_earlier_rules(name: str, kind: MechanismKind[Any], mechanism: Mechanism) -> None:
    """What earlier versions charged has a theorem, is priced by its own rule, and never below what is charged now."""
    for rule, by_rule in kind.earlier.items():
        assert rule in theorems_of(name), f"{name}: `theorems` lacks {rule}, which is in `earlier`"
        releases = 2 if kind.series else 1
        found, now = by_rule(mechanism, DELTA, releases, 1), charged(mechanism, releases=releases)
        assert found.epsilon >= now.epsilon, f"{name}: `earlier` has a price below today's"
        assert (found.releases, found.delta, found.relation) == (now.releases, now.delta, now.relation), name
        assert found.rule in kind.earlier, f"{name}: `earlier` gives the rule {found.rule}"


def check_more_releases_and_records(name: str, kind: MechanismKind[Any], mechanism: Mechanism) -> None:
    """Two releases, or a person's two records, cost more than one, or have no price."""
    one, delta = charged(mechanism), delta_of(kind)
    if not kind.series or isinstance(mechanism, MixedSeries):
        with pytest.raises(InputRefused, match="as a series"):
            charged(mechanism, releases=runs_of(mechanism) + 1)
    else:
        two = charged(mechanism, releases=2)
        assert (two.releases, two.rule in theorems_of(name)) == (2, True), f"{name}: `price` or `theorems` of a series"
        assert one.epsilon < two.epsilon, f"{name}: `price` of two releases"
    if not refused(lambda: charged(mechanism, rows_per_person=2)):
        pair = charged(mechanism, rows_per_person=2)
        assert (pair.rows_per_person, pair.delta, pair.relation) == (2, delta, one.relation), f"{name}: `price`"
        assert pair.epsilon > one.epsilon, f"{name}: `price`"
        group, plus, inner = pair.rule.partition("+")
        assert (bool(plus), inner in theorems_of(name)) == (True, True), f"{name}: `price` has the rule {group}"
    paper = paper_price(mechanism, delta=delta, releases=runs_of(mechanism))
    assert paper is None or paper.epsilon >= one.epsilon, f"{name}: `paper_price` is below the exact one"
    assert paper_price(mechanism, delta=delta, rows_per_person=2) is None, f"{name}: `paper_price`"
    if not kind.pure:
        assert refused(lambda: paper_price(mechanism, delta=Decimal(2), releases=runs_of(mechanism))), name


def check_losses(name: str, kind: MechanismKind[Any], mechanism: Mechanism) -> None:
    """What it is in a composition costs what it costs by itself, as far as the grid tells, or is refused."""
    losses = description_of(mechanism).losses
    assert not kind.exclusive or refused(lambda: losses(mechanism)), f"{name}: `losses` of what stands alone"
    if refused(lambda: losses(mechanism)):
        return
    parts = losses(mechanism)
    assert all(isinstance(part, StronglySafeRelease | Guarantee | BoundedRange | FiniteLosses) for part in parts), (
        f"{name}: `losses`"
    )
    composed = epsilon_composed(Counter(parts), delta=float(DELTA))
    assert composed is not None, f"{name}: `losses`"
    # A game is up to some per cent below what it composes to.
    near = 0.03 if "game" in charged(mechanism).rule else 0.01
    assert composed == pytest.approx(float(charged(mechanism).epsilon), rel=near), f"{name}: `losses` aren't its own"


def check_filter_parts(name: str, kind: MechanismKind[Any], mechanism: Mechanism) -> None:
    """It has a divergence, which falls as more is cut off, or is refused by name; what stands alone has none."""
    order, tail = Decimal(8), DELTA

    def cost(**more: Any) -> FilterCost:
        return filter_cost(mechanism, order=order, **({"tail": tail} | more))

    if refused(cost):
        with pytest.raises(InputRefused, match="in a filter budget"):
            cost()
        return
    assert not kind.exclusive, f"{name}: `filter_parts` of what stands alone"
    assert kind.survey_rate is None, f"{name}: `filter_parts` of what leans on a sample that is drawn once"
    found = cost()
    assert (found.divergence > 0, found.relation) == (True, charged(mechanism).relation), name
    known = all(not isinstance(part, BoundedRange | Concentrated) for part in kind.filter_parts(mechanism, 1))
    assert found.rule == (RULE if known else RULE_WITHOUT_LOSSES), f"{name}: `filter_parts`"
    assert len(found.divergence.as_tuple().digits) <= 12, f"{name}: a divergence isn't rounded up"
    assert found.tail == (0 if tail_of(mechanism, DELTA) == 0 else tail), f"{name}: `filter_parts`"
    assert cost(tail=5 * tail).divergence <= found.divergence <= charged(mechanism).epsilon, f"{name}: `filter_parts`"
    assert cost(releases=3, tail=3 * tail).divergence >= 2 * found.divergence, f"{name}: `filter_parts`"
    if not refused(lambda: cost(rows_per_person=2)):
        assert cost(rows_per_person=2).divergence > found.divergence, f"{name}: `filter_parts` of two records"


def check_samples(name: str, kind: MechanismKind[Any], mechanism: Mechanism) -> None:
    """A charge takes the sample that is drawn, and one more for a choice on a sample; what is drawn is said."""
    choice = getattr(mechanism, "selection_rate", None)
    own = 0 if name == "mixed_series" else 1
    assert kind.samples(mechanism) == (own if choice is None else 2), f"{name}: `samples`"
    rate = kind.sampling_rate(mechanism)
    assert rate is None or 0 < rate < 1, f"{name}: `sampling_rate`"
    done = description_of(mechanism).done(mechanism)
    assert ("no sample was drawn" in done) is (rate is None), f"{name}: `sampling_rate` and `done` differ"
    assert kind.survey_rate is None or rate is None, f"{name}: `survey_rate` beside coins of its own"


def check_statements(name: str, kind: MechanismKind[Any], mechanism: Mechanism) -> None:
    """Whole sentences, and nouns for what is published."""
    said = description_of(mechanism)
    assert (said.series is not None) is kind.series, f"{name}: `series` of the kind and of its description differ"
    sentences = {"done": said.done(mechanism), "proved": said.proved(mechanism, charged(mechanism).rule)}
    sentences["series"] = said.series or ""
    assert sentences["done"], f"{name}: `done`"
    for field, text in sentences.items():
        whole = text == text.strip() and (not text or text.endswith(".")) and "{" not in text
        assert whole, f"{name}: `{field}`"
    assert said.chosen.startswith("a choice of "), f"{name}: `chosen`"
    assert said.published.group, f"{name}: `published`"
    assert said.published.groups, f"{name}: `published`"


LAWS = (
    check_records,
    check_price,
    check_earlier_rules,
    check_more_releases_and_records,
    check_losses,
    check_filter_parts,
    check_samples,
    check_statements,
)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("name", list(MECHANISM_KINDS))
def test_every_kind_keeps_the_contract(name: str, law: Callable[[str, MechanismKind[Any], Mechanism], None]) -> None:
    kind = load_kind(name)
    assert EXAMPLES.get(name), f"{name}: EXAMPLES lacks a mechanism of this kind"
    for mechanism in EXAMPLES[name]:
        assert mechanism.kind == name, f"{name}: {type(mechanism).__name__} says that its kind is {mechanism.kind}"
        law(name, kind, mechanism)
    described = {record for record, form in kind.records.items() if any(map(form.describes, EXAMPLES[name]))}
    assert described == set(kind.records), f"{name}: EXAMPLES lacks one of {set(kind.records) - described}"


def test_every_mechanism_has_a_kind() -> None:
    for module in pkgutil.walk_packages(mechanisms.__path__, f"{mechanisms.__name__}."):
        importlib.import_module(module.name)

    def all_of(mechanism: type[Mechanism]) -> set[str]:
        own = {mechanism.__name__} if mechanism.__module__.startswith(mechanisms.__name__) else set()
        return own.union(*map(all_of, mechanism.__subclasses__()))

    exemplified = {type(one).__name__ for examples in EXAMPLES.values() for one in examples}
    assert all_of(Mechanism) == exemplified | {"Mechanism", "_Answer"}


def test_a_kind_that_lacks_what_has_no_strictest_value_is_none() -> None:
    kind = load_kind("strongly_safe")
    whole = {one.name: getattr(kind, one.name) for one in fields(MechanismKind)}
    assert MechanismKind(**whole) == kind
    for field in whole.keys() - {"selection", "paper_price", "earlier", "not_covered"}:
        with pytest.raises(TypeError, match=f"'{field}'"):
            MechanismKind(**{name: value for name, value in whole.items() if name != field})


def test_a_kind_of_another_distribution_holds_every_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """It lies elsewhere, and nothing in accounting is touched: the kernel is told where it is."""
    monkeypatch.syspath_prepend(STRANGER)
    before = dict(MECHANISM_KINDS)
    try:
        add_kind("coin_flip_count", STRANGERS_KIND, package="acme-coins")
        toy = mechanism_of_record({"kind": "acme-coins:coin-flip-count/1", "least_count": 3})
        monkeypatch.setitem(EXAMPLES, "coin_flip_count", (toy,))
        for law in LAWS:
            law("coin_flip_count", kind_of(toy), toy)
        assert charged(toy).rule == "coin-flip-noise/1"
    finally:
        MECHANISM_KINDS.clear()
        MECHANISM_KINDS.update(before)


@pytest.mark.parametrize(
    ("name", "registered", "message"),
    [
        ("strongly_safe", STRANGERS_KIND, "another kind of mechanism 'strongly_safe'"),
        ("coins", STRANGERS_KIND._replace(records=("strongly-safe-release/1",)), "names such as 'acme-coins:name/1'"),
        ("coins", STRANGERS_KIND._replace(records=("other:coins/1",)), "names such as 'acme-coins:name/1'"),
        ("coins", STRANGERS_KIND._replace(records=()), "names such as 'acme-coins:name/1'"),
    ],
)
def test_a_kind_that_takes_the_place_of_another_is_refused(name: str, registered: RegisteredKind, message: str) -> None:
    before = dict(MECHANISM_KINDS)
    with pytest.raises(InputRefused, match=message):
        add_kind(name, registered, package="acme-coins")
    assert before == MECHANISM_KINDS


def test_a_record_of_a_missing_kind_names_its_package() -> None:
    with pytest.raises(InputRefused, match="install acme-coins, and name its kind"):
        mechanism_of_record({"kind": "acme-coins:coin-flip-count/1", "least_count": 3})


def test_a_kind_is_loaded_when_it_is_asked_for() -> None:
    program = """
import json, sys
from decimal import Decimal
from crowdblend.accounting.kernel.prices.registry import mechanism_of_record
from crowdblend.accounting.kernel.prices.registry import price
def loaded():
    modules = [name for name in sys.modules if ".kinds." in name]
    return sorted(name for name in modules if name.endswith("_prices") or ".descriptions." in name)
before = loaded()
mechanism = mechanism_of_record({"kind": "strongly-safe-release/1", "k": 20, "sampling_rate": "0.1"})
price(mechanism, delta=Decimal("1e-6"))
print(json.dumps([before, loaded()]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [[], ["crowdblend.accounting.kinds.microdata_prices"]]


def test_the_price_of_points_and_of_suppressed_counts_is_that_of_a_release() -> None:
    safe, noisy = EXAMPLES["points"]
    assert charged(safe) == charged(EXAMPLES["suppressed_histogram"][0]) == charged(SAFE)
    assert charged(noisy) == charged(NOISY)


@pytest.mark.parametrize("event", [SuppressedHistogram(k=20, sampling_rate=None), replace(NOISY, sampling_rate=None)])
def test_crowd_blending_alone_has_no_price(event: Mechanism) -> None:
    with pytest.raises(InputRefused, match="not differentially private without sampling"):
        price(event, delta=DELTA)
    assert paper_price(event, delta=DELTA) is None
    with pytest.raises(InputRefused, match="not composed"):
        description_of(event).losses(event)


def test_what_leans_on_the_data_sets_own_sampling_says_so() -> None:
    surveys = [name for name in MECHANISM_KINDS if load_kind(name).survey_rate is not None]
    assert surveys == ["survey_counts"]
    assert [name for name in MECHANISM_KINDS if load_kind(name).exclusive] == ["outcome_counts"]
