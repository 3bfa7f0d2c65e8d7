"""The pages tell of every kind of release, whatever it is, and none of them falls over one."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from crowdblend.accounting.kernel.prices.registry import paper_price, price
from crowdblend.accounting.ledger.ledger_writer import dataset_entry
from crowdblend.mechanisms.kinds.answers import CountAnswer
from crowdblend.mechanisms.kinds.biased_sampling import BiasedSampleCounts, UnequalRatesHistogram
from crowdblend.mechanisms.kinds.deletion import DeletionRelease
from crowdblend.mechanisms.kinds.deletion_noise import GaussianDeletion, OptimalDeletion
from crowdblend.mechanisms.kinds.histogram import NoisyHistogram, OutlierPrivateHistogram, SuppressedHistogram
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease
from crowdblend.mechanisms.kinds.paired_deletion import PairedDeletion
from crowdblend.mechanisms.kinds.points import SyntheticPoints
from crowdblend.mechanisms.kinds.synthetic_table import SyntheticTable
from support.charging import ReleaseCharge

RATE, HALF = Decimal("0.1"), Decimal("0.5")
COUNTED = GaussianDeletion(scale=Decimal(20), width=110)
SAFE = StronglySafeRelease(k=20, sampling_rate=RATE)
KINDS = {
    "suppressed-histogram/1": SuppressedHistogram(k=20, sampling_rate=RATE),
    "noisy-histogram/1": NoisyHistogram(k=20, epsilon=HALF, sampling_rate=RATE),
    "outlier-private-histogram/1": OutlierPrivateHistogram(epsilon=HALF, horizon=60, margin=40),
    "unequal-rates-histogram/1": UnequalRatesHistogram(k=20, sampling_rate=RATE, lowest_rate=Decimal("0.09")),
    "biased-sample-counts/1": BiasedSampleCounts(
        k=20, lowest_rate=RATE, highest_rate=RATE, largest_rate=RATE, exceptions=1
    ),
    "synthetic-points/1": SyntheticPoints(dimensions=2, cells_per_side=4, counts=SAFE),
    "synthetic-table/1": SyntheticTable(method="mst", rho=Decimal("0.02")),
    "deletion-release/1": DeletionRelease(stages=2, k=1, noise=OptimalDeletion(epsilon=HALF, delta=Decimal("5e-7"))),
    "paired-deletion-release/1": PairedDeletion(
        stages=2,
        k=1,
        noise=COUNTED,
        margins=3,
        margin_scale=COUNTED.scale,
        margin_width=COUNTED.width,
        pairs=2,
        pair_scale=COUNTED.scale,
        pair_width=COUNTED.width,
        pair_epsilon=Decimal("0.05"),
    ),
    "count-answer/1": CountAnswer(epsilon=HALF, groups=3, sampling_rate=None, relation="add/remove"),
}


@pytest.mark.slow
def test_every_kind_of_release_has_its_pages(serve, town, tmp_path) -> None:
    copy = town.copy(tmp_path / "kinds")
    today = datetime.now(UTC).date()
    with copy.writer() as writer:
        for name, survey_rate in (("kinds", None), ("survey", RATE)):
            writer.add_dataset(dataset_entry(
                name=name, epsilon=Decimal(9), delta=Decimal("0.001"), relation="add/remove", survey_rate=survey_rate,
                rows_per_person=1, by="steward", day=today,
            ))  # fmt: skip
        for number, mechanism in enumerate(KINDS.values()):
            delta = Decimal(0) if isinstance(mechanism, CountAnswer) else Decimal("1e-6")
            paper = paper_price(mechanism, delta=delta)
            writer.charge(
                ReleaseCharge(
                    release_id=f"kind-{number}",
                    label="kind",
                    dataset="survey" if isinstance(mechanism, BiasedSampleCounts) else "kinds",
                    sample_id=os.urandom(32).hex(),
                    mechanism=mechanism,
                    price=price(mechanism, delta=delta),
                    epsilon_paper=None if paper is None else paper.epsilon,
                    spec_digest="a" * 64,
                    map_digest="b" * 64,
                    code_version="0.1.0",
                    sampler_layout="chacha20-byte-first/1",
                    day=today,
                )
            )
    with serve(copy) as running:
        assert running.verified()["findings"] == []
        overview = {row["dataset"]: row for row in running.get("/api/v1/overview").json()["datasets"]}
        paths = [f"/datasets/{overview[name]['position']}" for name in ("kinds", "survey")]
        for path in [*paths, "/", "/overview", "/releases", "/samples", "/verification"]:
            assert running.get(path).status_code == 200, path
        for number, kind in enumerate(KINDS):
            page = running.get(f"/releases/kind-{number}")
            assert page.status_code == 200, kind
            assert kind in page.text
        assert "itself a sample" in running.get(paths[1]).text


@pytest.mark.slow
def test_every_kind_of_entry_is_told_in_a_sentence(opened, copied) -> None:
    today = datetime.now(UTC).date()
    with copied.writer() as writer:
        writer.record_look(dataset="people", what="what a release would lose", by="steward", day=today)
        writer.revoke_token(name="auditor", by="steward", day=today)
    with opened(copied.ledger) as pages:
        page = pages.get("/api/v1/verification").json()
        look, revoked = page["entries"][1], page["entries"][0]
        told = "Somebody looked at the records of 'people' outside any release: what a release would lose"
        assert look["what"] == told
        assert revoked["what"].startswith("The token ")
        assert revoked["what"].endswith(" was revoked.")
        people = pages.get("/api/v1/datasets/1").json()
        assert (people["private_looks"], people["private_looks_in_all"]) == ([look["position"]], 1)
        assert "look at the records outside any release." in pages.get("/datasets/1").text
        assert pages.get("/api/v1/datasets/2").json()["private_looks_in_all"] == 0


@pytest.mark.slow
def test_a_budget_of_no_delta_and_a_threshold_past_every_picture_have_their_pages(opened, copied) -> None:
    today = datetime.now(UTC).date()
    with copied.writer() as writer:
        writer.add_dataset(dataset_entry(
            name="nodelta", epsilon=Decimal(9), delta=Decimal(0), relation="add/remove", survey_rate=None,
            rows_per_person=1, by="steward", day=today,
        ))  # fmt: skip
    copied.charge("people-crowd", mechanism=StronglySafeRelease(k=10_001, sampling_rate=RATE))
    with opened(copied.ledger) as pages:
        rows = {row["dataset"]: row for row in pages.get("/api/v1/overview").json()["datasets"]}
        assert (rows["nodelta"]["delta_share"], rows["nodelta"]["delta_left"]["exact"]) == (0.0, "0")
        assert pages.get(f"/datasets/{rows['nodelta']['position']}").status_code == 200
        told = "No curve is drawn for a k above 10000."
        assert pages.get("/api/v1/releases/people-crowd").json()["curve"]["why_not"] == told
        assert told in pages.get("/releases/people-crowd").text
        assert told not in pages.get("/releases/people-spring").text
