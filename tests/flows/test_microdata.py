"""A whole release, through the command line, Prefect and Dask, on real files."""

from __future__ import annotations

import csv
import json
import os
import stat
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from crowdblend.mechanisms.kernel.errors import AccountantRefused

LABELS = {
    "colour": {"blue", "green", "red", "*"},
    "age": {"[20, 30)", "[30, 40)", "*"},
    "town": {"North", "South", "*"},
}


def rows_of(folder: Path) -> list[dict]:
    if (folder / "data.parquet").exists():
        return pq.read_table(folder / "data.parquet").to_pylist()
    with (folder / "data.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def released(desk, **changes: str) -> tuple[dict, list[dict]]:
    spec = desk.write_spec(**changes)
    answer = desk.succeed("run", spec, "--json")
    return answer.json, rows_of(Path(answer.json["output"]))


def test_a_release_publishes_truthful_groups_of_at_least_k(desk) -> None:
    desk.add_dataset()
    result, rows = released(desk)

    groups = Counter(tuple(row.values()) for row in rows)
    assert groups
    assert min(groups.values()) >= 20
    for row in rows:
        assert set(row) == set(LABELS)
        for column, value in row.items():
            assert value in LABELS[column]
    assert result["published_records"] == len(rows)
    assert result["published_groups"] == len(groups)
    assert result["levels"] == {"colour": 0, "age": 1, "town": 1}
    assert result["mechanism"]["k"] == 20
    assert sorted(result["timings"]) == ["charge", "close", "count", "publish", "select", "start"]
    assert sorted(os.listdir(result["output"])) == ["certificate.json", "data.parquet"]


@pytest.mark.slow
def test_result_and_ledger_say_the_same(desk) -> None:
    desk.add_dataset()
    result, _ = released(desk)
    ledger = desk("ledger", "show", "--json").json
    [dataset] = ledger["datasets"]
    [release] = ledger["releases"]
    assert dataset["epsilon_spent"] == result["epsilon"]
    assert release["release_id"] == result["release_id"]
    assert release["sample_id"] == result["sample_id"]
    assert release["stage"] == "published"
    desk.succeed("ledger", "verify")
    desk.succeed("verify", result["certificate"])


@pytest.mark.slow
def test_every_form_and_format_tells_the_same(desk) -> None:
    """The same coins, injected here only, in four ledgers."""
    counted = []
    for form in ("microdata", "counts"):
        for file_format in ("parquet", "csv"):
            name = f"{form}-{file_format}"
            spec = desk.write_spec(form=form, file_format=file_format, output=name)
            result = desk.release(spec, ledger=name, coins=lambda size: b"\x07" * size)
            counts: Counter = Counter()
            for row in rows_of(Path(result["output"])):
                counts[tuple(row[column] for column in LABELS)] += int(row.get("count", 1))
            counted.append(counts)
    assert counted[0]
    assert all(counts == counted[0] for counts in counted)


def test_the_same_key_again_is_refused_as_a_used_sample(desk) -> None:
    desk.add_dataset()
    spec = desk.write_spec()

    def again(output: str) -> None:
        desk.release(spec, output=output, coins=lambda size: b"\x07" * size)

    again("one")
    with pytest.raises(AccountantRefused, match="sample"):
        again("two")
    assert not (desk.folder / "two").exists()
    assert not list(desk.home.rglob("sampling.key*"))


@pytest.mark.slow
def test_two_releases_have_two_samples(desk) -> None:
    desk.add_dataset()
    first, one = released(desk, output="one")
    second, two = released(desk, output="two")
    assert first["sample_id"] != second["sample_id"]
    assert first["release_id"] != second["release_id"]
    assert Counter(map(str, one)) != Counter(map(str, two))


@pytest.mark.slow
def test_the_order_of_the_output_is_its_own(desk) -> None:
    desk.add_dataset()
    _, rows = released(desk)
    keys = [tuple(row.values()) for row in rows]
    assert keys == sorted(keys)


@pytest.mark.slow
def test_files_tell_only_the_day(desk) -> None:
    desk.add_dataset()
    result, _ = released(desk)
    for path in Path(result["output"]).iterdir():
        assert path.stat().st_mtime % 86_400 == 0


@pytest.mark.slow
def test_no_records_is_a_valid_empty_release(desk) -> None:
    (desk.folder / "people.csv").write_text("colour;age;town\n")
    desk.add_dataset()
    result, rows = released(desk)
    assert rows == []
    assert result["published_records"] == 0


@pytest.mark.slow
def test_bad_rows_go_through_and_change_nothing_else(desk) -> None:
    """Ragged, quoted, undecodable and unknown rows become `*`; the others' values are untouched."""
    good = "".join(f"red;25;Lyon;{i}\n" for i in range(3_000)).encode()
    bad = b"".join(
        [
            b"red;25\n" * 300,
            b'red;"25;Lyon;1\n' * 300,
            b"r\xffd;25;Lyon;1\n" * 300,
            b"purple;twenty;Nice;1\n" * 300,
            b"red;25;Lyon;1;2;3\r\n" * 300,
        ]
    )
    (desk.folder / "people.csv").write_bytes(b"colour;age;town;secret\n" + good + bad)
    desk.add_dataset()
    _, rows = released(desk, rate="0.5")
    groups = set(map(str, rows))
    assert groups == {
        str(dict(zip(LABELS, values, strict=True)))
        for values in [("red", "[20, 30)", "South"), ("*", "*", "*"), ("*", "[20, 30)", "South")]
    }


def test_an_unreadable_page_is_1_charged_and_nothing_is_published(desk) -> None:
    import pyarrow as pa

    table = pa.table({"colour": ["red"] * 5_000, "age": list(range(5_000)), "town": ["Lyon"] * 5_000})
    path = desk.folder / "people.parquet"
    pq.write_table(table, path, use_dictionary=False, compression="zstd")
    damaged = bytearray(path.read_bytes())
    damaged[64:2_000] = b"\xaa" * (2_000 - 64)
    path.write_bytes(damaged)
    desk.add_dataset()
    answer = desk("run", desk.write_spec(source="people.parquet"), "--json")
    assert answer.code == 1, answer
    assert "Traceback" not in answer.err
    assert not (desk.folder / "out").exists()
    [dataset] = desk("ledger", "show", "--json").json["datasets"]
    assert dataset["epsilon_spent"] > 0


def test_over_budget_is_3_and_the_source_is_never_opened(desk) -> None:
    """The source is a pipe that nobody writes to: opening it would hang."""
    desk.add_dataset(epsilon="0.01")
    (desk.folder / "people.csv").unlink()
    os.mkfifo(desk.folder / "people.csv")
    answer = desk("run", desk.write_spec(), "--json")
    assert answer.code == 3
    assert "0.01" in answer.err
    assert not (desk.folder / "out").exists()


def test_a_published_id_answers_again_without_reading(desk) -> None:
    desk.add_dataset()
    spec = desk.write_spec()
    first = desk("run", spec, "--release-id", "census-1", "--json")
    (desk.folder / "people.csv").unlink()
    again = desk.succeed("run", spec, "--release-id", "census-1", "--json")
    for key in ("release_id", "sample_id", "epsilon", "delta", "published_records", "output", "certificate"):
        assert again.json[key] == first.json[key]
    [dataset] = desk("ledger", "show", "--json").json["datasets"]
    assert dataset["epsilon_spent"] == first.json["epsilon"]


@pytest.mark.slow
def test_a_published_id_with_another_spec_is_3(desk) -> None:
    desk.add_dataset()
    desk("run", desk.write_spec(), "--release-id", "census-1")
    answer = desk("run", desk.write_spec(k="25", output="two"), "--release-id", "census-1")
    assert answer.code == 3
    assert not (desk.folder / "two").exists()


def test_the_private_store_is_private_and_the_key_is_gone(desk) -> None:
    desk.add_dataset()
    released(desk)
    assert stat.S_IMODE(desk.home.stat().st_mode) == 0o700
    assert not list(desk.home.rglob("sampling.key*"))


@pytest.mark.slow
def test_persisted_results_do_not_repeat_a_sample(desk) -> None:
    from prefect.settings import PREFECT_RESULTS_PERSIST_BY_DEFAULT, temporary_settings

    desk.add_dataset()
    with temporary_settings({PREFECT_RESULTS_PERSIST_BY_DEFAULT: True}):
        first, one = released(desk, output="one")
        second, two = released(desk, output="two")
    assert first["sample_id"] != second["sample_id"]
    assert Counter(map(str, one)) != Counter(map(str, two))


def test_certificate_is_signed_and_holds_nothing_private(desk) -> None:
    desk.add_dataset()
    result, _ = released(desk)
    certificate = json.loads(Path(result["certificate"]).read_text(encoding="utf-8"))
    key = desk("key", "show", "--json").json["current"]
    assert certificate["signature"]["key_id"] == key
    assert desk("verify", result["certificate"], "--json").json["signed_by"] == key
    text = json.dumps(certificate)
    assert "people.csv" not in text
