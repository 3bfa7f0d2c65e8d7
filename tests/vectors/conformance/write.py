# ruff: noqa: E501 - a case stands on one line, so that the list can be looked over
"""Run as a program: writes the conformance cases anew, beside itself, from fixed keys; the same bytes each time.

    python tests/vectors/conformance/write.py

A case is made from a sound release or ledger by one change. Unless its name says otherwise the change is signed, or
hashed and anchored, by the publisher's own keys: so the signature holds, and the change itself must be found.
"""

from __future__ import annotations

import copy
import hashlib
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import date
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from crowdblend.accounting.certificate.write_certificate import (
    DOMAIN,
    certificate_bytes,
    signed_bytes,
    write_certificate,
)
from crowdblend.accounting.kernel.keys.signing import SigningKey, canonical_bytes
from crowdblend.accounting.kernel.ledger.entries import (
    GENESIS,
    BudgetRaised,
    DataAccess,
    DatasetAdded,
    DatasetUnit,
    Entry,
    Head,
    LedgerCreated,
    ReleaseAbandoned,
    ReleasePublished,
    ReleaseReading,
    ReleaseRefused,
    TokenAdded,
    TokenRevoked,
    UnitDatasetAdded,
    bytes_of_entry,
    link_hash,
)
from crowdblend.accounting.kernel.prices.registry import paper_price, price
from crowdblend.accounting.keys.anchor import line_of_head
from crowdblend.accounting.keys.signing_upkeep import pem_of
from crowdblend.accounting.ledger.charge_request import SeriesRegistration
from crowdblend.accounting.ledger.checkpoint import (
    PLAIN,
    TIMED,
    MerkleTree,
    NoteKey,
    NoteSignature,
    checkpoint_text,
    note,
    origin_of,
)
from crowdblend.accounting.ledger.lookup import DatasetContext
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.build import DateHierarchy
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy, ValueHierarchy
from crowdblend.mechanisms.kernel.contributions import LAYOUTS
from crowdblend.mechanisms.kernel.mechanism import Mechanism
from crowdblend.mechanisms.kernel.sampling import sample_commitment
from crowdblend.mechanisms.kinds.answers import CountAnswer
from crowdblend.mechanisms.kinds.biased_sampling import BiasedSampleCounts
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease

sys.path.append(str(Path(__file__).parents[2]))  # this is run as a program, and what tests share lies there
from support.charging import ReleaseCharge

HERE = Path(__file__).parent
PUBLISHER, NEXT, STRANGER = (SigningKey(seed=bytes([byte]) * 32) for byte in (0x2A, 0x2B, 0x2C))
WITNESSES = tuple(SigningKey(seed=bytes([byte]) * 32) for byte in (0x31, 0x32, 0x33))
WITNESSED = 1_772_625_600  # 2026-03-04 12:00 UTC
LEDGER, OTHER_LEDGER = "1e" * 32, "2e" * 32
DAY, DELTA = date(2026, 3, 4), Decimal("1e-6")
SAFE = StronglySafeRelease(k=20, sampling_rate=Decimal("0.1"))
TABLE = b"sex,count\nFemale,21\nMale,34\n"
ORDER = 2**252 + 27742317777372353535851937790883648493
"""Of the group of Ed25519: RFC 8032, section 5.1."""

Document = dict[str, Any]
Change = Callable[[Document], object]


def sample(name: str) -> str:
    """The id of a sample whose key is the digest of a name."""
    return sample_commitment(hashlib.sha256(name.encode()).digest())


def hierarchy_of(*values: str) -> GeneralizationMap:
    return GeneralizationMap(
        columns=(MappedColumn(name="sex", hierarchy=ValueHierarchy.from_values(list(values)), level=0),)
    )


MAP = hierarchy_of("Female", "Male")


def charge_of(
    name: str, *, mechanism: Mechanism = SAFE, delta: Decimal = DELTA, releases: int = 1, **changes: Any
) -> ReleaseCharge:
    paper = paper_price(mechanism, delta=delta, releases=releases)
    values: dict[str, Any] = {
        "release_id": name,
        "label": "census",
        "dataset": "census",
        "sample_id": sample(name),
        "mechanism": mechanism,
        "price": price(mechanism, delta=delta, releases=releases),
        "epsilon_paper": None if paper is None else paper.epsilon,
        "spec_digest": "a" * 64,
        "map_digest": MAP.digest(),
        "code_version": "0.1.0",
        "sampler_layout": "chacha20-byte-first/1 csv-records/2",
        "day": DAY,
    }
    return ReleaseCharge(**(values | changes))


@dataclass(kw_only=True)
class Release:
    """A release's folder before it is written."""

    document: Document
    files: dict[str, bytes] = field(default_factory=lambda: {"data.csv": TABLE})
    content: bytes | None = None

    def seal(self, key: SigningKey = PUBLISHER, *, domain: bytes = DOMAIN) -> Release:
        public = key.public
        self.document["signature"] = {
            "algorithm": "Ed25519",
            "key_id": public.key_id,
            "public_key": public.raw.hex(),
        }
        self.resign(key, domain=domain)
        return self

    def resign(self, key: SigningKey = PUBLISHER, *, domain: bytes = DOMAIN) -> None:
        """Sign what stands there, with what it says of the key."""
        value = key.sign(domain=domain, message=signed_bytes(self.document))
        self.document["signature"]["value"] = value.hex()

    @property
    def bytes(self) -> bytes:
        return certificate_bytes(self.document) if self.content is None else self.content


def sound(
    name: str = "one",
    *,
    generalization: GeneralizationMap = MAP,
    context: DatasetContext | None = None,
    charge: Any = None,
    number: int | None = None,
    table: bytes = TABLE,
    key: SigningKey = PUBLISHER,
) -> Release:
    """A release as it is published."""
    with TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "data.csv").write_bytes(table)
        write_certificate(
            folder,
            charge=(charge or charge_of(name, map_digest=generalization.digest())).entry_at(number),
            context=context or DatasetContext(rows_per_person=1, look_days=()),
            position=4,
            chain_hash="f" * 64,
            generalization=generalization,
            choice=None,
            published={"form": "counts", "groups": 2, "records": 55},
            code_sources="c" * 64,
            key=key,
        )
        return Release(document=json.loads((folder / "certificate.json").read_bytes()), files={"data.csv": table})


def put(*path: str, to: Any) -> Change:
    """A change of one member."""

    def change(document: Document) -> None:
        for name in path[:-1]:
            document = document[name]
        document[path[-1]] = to

    return change


def drop(*path: str) -> Change:
    def change(document: Document) -> None:
        for name in path[:-1]:
            document = document[name]
        del document[path[-1]]

    return change


def column(**changes: Any) -> Change:
    """A change of the map's one column, with the map's digest computed again."""

    def change(document: Document) -> None:
        stated = document["map"]
        stated["columns"][0].update(changes)
        columns = [[one["column"], one["hierarchy_sha256"], one["level"]] for one in stated["columns"]]
        stated["sha256"] = hashlib.sha256(canonical_bytes({"kind": "map/1", "columns": columns})).hexdigest()

    return change


def with_hierarchy(hierarchy: Document) -> Change:
    digest = hashlib.sha256(canonical_bytes(hierarchy)).hexdigest()
    return column(hierarchy=hierarchy, hierarchy_sha256=digest)


SERIES = charge_of("third", releases=3, series="monthly", series_digest="c" * 64)

SIGNED: Mapping[str, tuple[str, Change]] = {
    "format-before": ("The certificate is of a format that is not read any more.", put("format", to="crowdblend-certificate/4")),
    "format-unknown": ("The certificate is of a format that is not known yet.", put("format", to="crowdblend-certificate/6")),
    "format-missing": ("Without its format nothing says what the fields mean.", drop("format")),
    "field-missing": ("A field of the format is missing.", drop("release_id")),
    "field-unknown": ("A field that the format doesn't have could mean anything.", put("note", to="checked twice")),
    "private-looks-missing": ("Looks at the records may not be left unsaid.", drop("private_looks")),
    "private-looks-negative": ("A number of looks is not below 0.", put("private_looks", to={"count": -1, "last_day": None})),
    "private-looks-without-day": ("Where there was a look, its day is told.", put("private_looks", to={"count": 2, "last_day": None})),
    "private-looks-day-alone": ("A day of a look without a look.", put("private_looks", to={"count": 0, "last_day": "2026-03-01"})),
    "published-missing": ("Nothing says what is published.", put("published", to=None)),
    "day-impossible": ("There is no such day.", put("day", to="2026-02-30")),
    "day-of-another-form": ("A day has one form: year, month and day with dashes.", put("day", to="20260304")),
    "day-is-a-number": ("A day is a text.", put("day", to=20260304)),
    "release-id-of-another-form": ("A release's id has letters, digits, dots, dashes and underscores alone.", put("release_id", to="../one")),
    "dataset-empty": ("A data set has a name.", put("dataset", to="")),
    "name-with-a-line-break": ("A name is printable and on one line.", put("name", to="census\nverified")),
    "sample-id-short": ("A sample's id has 64 hexadecimal digits.", put("sample_id", to="ab")),
    "sample-id-upper-case": ("Hexadecimal digits are lower-case.", put("sample_id", to="AB" * 32)),
    "code-sources-short": ("The digest of the software's sources has 64 digits.", put("code_sources", to="c0ffee")),
    "ledger-position-negative": ("The charge has a place in the ledger, from 0.", put("ledger", "position", to=-1)),
    "ledger-position-a-text": ("A place in the ledger is a whole number.", put("ledger", "position", to="4")),
    "ledger-hash-short": ("The chain's hash has 64 hexadecimal digits.", put("ledger", "hash", to="ff")),
    "ledger-missing": ("The charge's place in the ledger is missing.", put("ledger", to={})),
    "epsilon-lower": ("ε is lower than its mechanism's.", put("guarantee", "epsilon", to="0.1")),
    "epsilon-a-little-lower": ("ε is lower by a ten-millionth: more than what rounding explains.", put("guarantee", "epsilon", to="0.1829885")),
    "epsilon-higher": ("ε is another than its mechanism's, though higher.", put("guarantee", "epsilon", to="0.2")),
    "epsilon-zero": ("ε = 0 would say that nothing is told of anybody.", put("guarantee", "epsilon", to="0")),
    "epsilon-a-number": ("Amounts are texts: readers of JSON disagree about numbers.", put("guarantee", "epsilon", to=0.18298860992)),
    "epsilon-with-an-exponent": ("An amount has one text, without exponent.", put("guarantee", "epsilon", to="18298860992E-11")),
    "epsilon-with-a-trailing-zero": ("An amount has one text, without trailing zeros.", put("guarantee", "epsilon", to="0.182988609920")),
    "epsilon-negative": ("An amount is not negative.", put("guarantee", "epsilon", to="-0.18298860992")),
    "delta-lower": ("At this δ the mechanism has a higher ε.", put("guarantee", "delta", to="0.0000000001")),
    "delta-zero": ("A release of sampled records has no guarantee with δ = 0.", put("guarantee", "delta", to="0")),
    "delta-one": ("δ is below 1.", put("guarantee", "delta", to="1")),
    "delta-below-rate-to-the-k": ("At this δ no ε is enough: k of k records sampled betray each of them.", put("guarantee", "delta", to="0.000000000000000000001")),
    "paper-epsilon-lower": ("The published bound's ε is lower than it is.", put("guarantee", "epsilon_paper", to="0.29")),
    "paper-epsilon-left-out": ("The published bound gives a guarantee here, and it is said to give none.", put("guarantee", "epsilon_paper", to=None)),
    "rule-of-another-theorem": ("The rule is not the one of its mechanism.", put("guarantee", "rule", to="pld/1")),
    "rule-unknown": ("No theorem has this name.", put("guarantee", "rule", to="guess/1")),
    "neighbours-replacement": ("The price is for a person's presence, not for another person's values.", put("guarantee", "neighbours", to="replacement")),
    "records-of-a-person-more": ("Two records of a person cost more than one.", lambda document: document["guarantee"].update(rows_per_person=2, unit="one person, at most 2 records")),
    "records-of-a-person-true": ("A number of records is a whole number, and `true` is none.", put("guarantee", "rows_per_person", to=True)),
    "records-of-a-person-a-fraction": ("A number of records is a whole number, and 1.0 is none.", put("guarantee", "rows_per_person", to=1.0)),
    "records-of-a-person-none": ("A person has at least one record.", put("guarantee", "rows_per_person", to=0)),
    "unit-of-a-household": ("Nothing limited the records of a household.", put("guarantee", "unit", to="one household, at most one record")),
    "unit-with-more-records": ("The unit has more records than the price is for.", put("guarantee", "unit", to="one person, at most 5 records")),
    "unit-enforced-by-nothing": ("A column is said to limit a person's records, and the sampler had no limit.", put("guarantee", "enforced_by", to="person_id")),
    "rates-of-their-own-without-sampler": ("Records are said to have rates of their own, and the sampler had one rate.", put("inclusion", to={"column": "rate", "rates": ["0.05", "0.1"]})),
    "rates-of-their-own-without-column": ("The sampler draws by a column of rates, and none is named.", put("sampler_layout", to="chacha20-inclusion/1 csv-records/2")),
    "guarantee-missing": ("Nothing is guaranteed.", put("guarantee", to=None)),
    "mechanism-k-higher": ("The mechanism is said to have a higher k than was priced.", put("mechanism", "k", to=25)),
    "mechanism-k-lower": ("With a lower k the price is higher.", put("mechanism", "k", to=5)),
    "mechanism-k-zero": ("k is at least 1.", put("mechanism", "k", to=0)),
    "mechanism-k-true": ("k is a whole number, and `true` is none.", put("mechanism", "k", to=True)),
    "mechanism-k-a-text": ("k is a whole number, not a text.", put("mechanism", "k", to="20")),
    "mechanism-k-huge": ("A k beyond all counting has no price.", put("mechanism", "k", to=10**30)),
    "mechanism-rate-lower": ("At a lower rate the price is lower.", put("mechanism", "sampling_rate", to="0.05")),
    "mechanism-rate-higher": ("At a higher rate the price is higher.", put("mechanism", "sampling_rate", to="0.2")),
    "mechanism-rate-one": ("A sample at rate 1 is no sample.", put("mechanism", "sampling_rate", to="1")),
    "mechanism-rate-a-number": ("A rate is a text.", put("mechanism", "sampling_rate", to=0.1)),
    "mechanism-rate-missing": ("The mechanism's record lacks a field.", drop("mechanism", "sampling_rate")),
    "mechanism-field-unknown": ("The mechanism's record has a field that its kind doesn't have.", put("mechanism", "epsilon", to="0.01")),
    "mechanism-kind-unknown": ("There is no mechanism of this kind.", put("mechanism", "kind", to="perfectly-safe-release/1")),
    "mechanism-kind-of-another-version": ("The kind is of a version that is not known.", put("mechanism", "kind", to="strongly-safe-release/2")),
    "mechanism-a-list": ("A mechanism's record is an object.", put("mechanism", to=["strongly-safe-release/1", 20, "0.1"])),
    "series-invented": ("The price of one release is said to be that of a series.", put("series", to={"name": "monthly", "number": 1, "releases": 3})),
    "series-a-text": ("A place in a series is an object.", put("series", to="monthly")),
    "map-digest-other": ("The map's digest is not that of its columns.", put("map", "sha256", to="0" * 64)),
    "map-missing": ("Nothing says how the records were recoded.", put("map", to=None)),
    "map-level-other": ("The level is another one than the map's digest names.", lambda document: document["map"]["columns"][0].update(level=1)),
    "map-level-beyond": ("The hierarchy has no such level.", column(level=2)),
    "map-level-a-text": ("A level is a whole number.", column(level="0")),
    "map-hierarchy-other": ("The hierarchy is another one than its digest names.", column(hierarchy={"kind": "values/1", "levels": 2, "rows": [["Female", "*"], ["Other", "*"]]})),
    "map-hierarchy-digest-other": ("The hierarchy's digest is not that of the hierarchy.", column(hierarchy_sha256="0" * 64)),
    "map-hierarchy-unsorted": ("A hierarchy's rows have one order, that of their values' bytes.", with_hierarchy({"kind": "values/1", "levels": 2, "rows": [["Male", "*"], ["Female", "*"]]})),
    "map-hierarchy-parts-again": ("Equal labels of a level stay equal at the levels above it.", with_hierarchy({"kind": "values/1", "levels": 3, "rows": [["Female", "adult", "a"], ["Male", "adult", "b"]]})),
    "map-hierarchy-value-twice": ("A value is declared once.", with_hierarchy({"kind": "values/1", "levels": 2, "rows": [["Female", "*"], ["Female", "*"]]})),
    "map-hierarchy-unknown": ("The hierarchy is of a kind that is not known.", with_hierarchy({"kind": "guess/1", "levels": 2})),
    "map-dates-upside-down": ("The first day of a hierarchy is not after its last.", with_hierarchy({"kind": "dates/1", "from": "2000-01-02", "to": "2000-01-01", "levels": []})),
    "map-dates-impossible": ("A hierarchy's bounds are days.", with_hierarchy({"kind": "dates/1", "from": "1999-02-29", "to": "2000-01-01", "levels": []})),
    "map-dates-coarse-first": ("Levels of days go from fine to coarse.", with_hierarchy({"kind": "dates/1", "from": "2000-01-01", "to": "2000-12-31", "levels": ["year", "month"]})),
    "map-dates-too-many": ("A hierarchy has at most 200,000 days.", with_hierarchy({"kind": "dates/1", "from": "0001-01-01", "to": "9999-12-31", "levels": []})),
    "map-column-field-unknown": ("A column of the map has a field that the format doesn't have.", lambda document: document["map"]["columns"][0].update(rows=2)),
    "map-selection-invented": ("A choice of the map is named, and the mechanism pays for none.", put("map", "selection", to={"epsilon": "0.1"})),
    "files-none": ("The certificate names no files.", put("files", to={})),
    "files-a-list": ("Files are named with their digests.", put("files", to=["data.csv"])),
    "files-digest-a-number": ("A digest is a text.", put("files", "data.csv", to=7)),
    "files-digest-upper-case": ("Hexadecimal digits are lower-case.", lambda document: document["files"].update({"data.csv": document["files"]["data.csv"].upper()})),
    "files-missing": ("A file that the certificate names is missing.", put("files", "more.csv", to="0" * 64)),
    "files-outside": ("A file is named that lies outside of the folder.", put("files", "../publisher.pem", to="0" * 64)),
    "files-margins-unpaid": ("Margins are stated, and the mechanism pays for none.", put("published", "margins", to={"columns": [["sex"]]})),
    "filter-budget-invented": ("A filter budget is stated without its figures.", put("filter_budget", to={"rule": "renyi-filter/1"})),
}  # fmt: skip


def certificates() -> Iterator[tuple[str, str, bool, Release, tuple[SigningKey, ...]]]:
    """Name, reason, whether it holds, the release, and the publisher's public keys."""
    own = (PUBLISHER,)
    yield "sound", "A release as it is published.", True, sound(), own
    several = {"number": 3, "charge": SERIES}
    yield "sound-of-a-series", "The third release of a series of three.", True, sound(**several), own
    names = charge_of("one", label="Zählung \U0001f600", dataset="Ünïcode “census”\uff5e")
    yield "sound-beyond-ascii", "Names beyond ASCII, and beyond 16 bits.", True, sound(charge=names), own
    told = DatasetContext(rows_per_person=1, look_days=(date(2026, 3, 1), date(2026, 3, 2)))
    yield "sound-with-private-looks", "Two private looks came before the charge.", True, sound(context=told), own
    ages = b'age,count\n< 0,25\n"[0, 50)",31\n"[50, 100)",40\n>= 100,22\n*,23\n'
    for name, why, holds, table in (
        ("sound-intervals", "Intervals of 50, numbers beyond both bounds, and others.", True, ages),
        (
            "label-across-intervals",
            "An interval of 50 that begins where none does.",
            False,
            ages.replace(b"[0, 50)", b"[25, 75)"),
        ),
        (
            "label-of-a-finer-interval",
            "An interval of 10 at the level whose intervals have 50.",
            False,
            ages.replace(b"[0, 50)", b"[0, 10)"),
        ),
    ):
        yield name, why, holds, sound(generalization=AGES, table=table), own
    quarters = b"born,count\n1999-Q4,25\n2000-Q1,31\n2010-Q2,40\n*,23\n"
    for name, why, holds, table in (
        (
            "sound-dates",
            "Quarters of days by their bounds, the first and the last cut off, and others.",
            True,
            quarters,
        ),
        ("label-of-days-outside", "A quarter after the last day.", False, quarters.replace(b"2010-Q2", b"2010-Q3")),
        ("label-of-no-quarter", "A fifth quarter.", False, quarters.replace(b"2000-Q1", b"2000-Q5")),
        ("label-of-a-finer-part-of-days", "A month at the level of quarters.", False, quarters.replace(b"-Q1", b"-01")),
    ):
        yield name, why, holds, sound(generalization=BORN, table=table), own
    described = {"data.csv": TABLE, "metadata/README.md": b"# census\n"}
    for name, why, holds, files in (
        ("sound-with-a-folder", "Metadata lie in a folder of the release, and are certified.", True, described),
        (
            "folder-file-changed",
            "A file in a folder was changed.",
            False,
            described | {"metadata/README.md": b"# verified\n"},
        ),
        ("folder-file-gone", "A file in a folder is missing, and so is the folder.", False, {"data.csv": TABLE}),
        (
            "folder-file-more",
            "A file lies in a folder that the certificate doesn't name.",
            False,
            described | {"metadata/more.md": b"x\n"},
        ),
        (
            "folder-file-moved",
            "A file lies beside the folder that it is certified in.",
            False,
            {"data.csv": TABLE, "README.md": b"# census\n"},
        ),
    ):
        release = sound()
        release.document["files"] = {file: hashlib.sha256(content).hexdigest() for file, content in described.items()}
        release.files = files
        yield name, why, holds, release.seal(), own
    ahead = DatasetContext(rows_per_person=1, look_days=(date(2026, 3, 5),))
    why = (
        "The look was recorded before the charge by a machine whose day is ahead: the chain has the order, days don't."
    )
    yield "sound-look-on-a-later-day", why, True, sound(context=ahead), own
    answer = CountAnswer(epsilon=Decimal("0.5"), relation="add/remove", sampling_rate=None, groups=2)
    counted = charge_of("one", mechanism=answer, delta=Decimal(0), epsilon_paper=None)
    yield "sound-answer", "A noisy count, whose price is its ε alone.", True, sound(charge=counted), own
    large = GeneralizationMap(columns=(MappedColumn(name="sex", hierarchy=LARGE, level=0),))
    apart = sound(generalization=large)
    apart.document["map"]["columns"][0]["hierarchy"] = None
    yield (
        "sound-hierarchy-apart",
        "A hierarchy too large to be carried is named by its digest.",
        True,
        apart.seal(),
        own,
    )
    coarse = GeneralizationMap(columns=(MappedColumn(name="sex", hierarchy=MAP.columns[0].hierarchy, level=1),))
    yield (
        "sound-other-level",
        "All labels are those of the second level.",
        True,
        sound(generalization=coarse, table=b"sex,count\n*,55\n"),
        own,
    )
    yield (
        "sound-key-before",
        "Signed by the key before the present one; both are the publisher's.",
        True,
        sound(),
        (NEXT, PUBLISHER),
    )
    rounded = sound()
    rounded.document["guarantee"]["epsilon"] = "0.182988609921"
    yield (
        "sound-rounded-otherwise",
        "ε differs by less than a billionth, as another processor's rounding may.",
        True,
        rounded.seal(),
        own,
    )
    quoted = b'"sex","count"\r\n"Female","21"\r\n"Male","34"\r\n'
    yield "sound-quoted", "The table's fields are quoted, its lines end in CR LF.", True, sound(table=quoted), own

    for name, (why, change) in SIGNED.items():
        release = sound()
        change(release.document)
        yield name, why, False, release.seal(), own
    for name, why, changes in (
        ("series-number-beyond", "The series has three releases, and this is said to be the fourth.", {"number": 4}),
        ("series-number-zero", "A series counts its releases from 1.", {"number": 0}),
        ("series-fewer-releases", "The price of three releases is said to be that of two.", {"releases": 2}),
        ("series-more-releases", "A price for three releases is said to cover twelve.", {"releases": 12}),
        ("series-part-without-parts", "A series of one mechanism has no parts.", {"part": 1}),
    ):
        release = sound(**several)
        release.document["series"].update(changes)
        yield name, why, False, release.seal(), own
    release = sound(**several)
    release.document["series"] = None
    yield "series-left-out", "The price of a series is said to be that of one release.", False, release.seal(), own
    release = sound(charge=counted)
    release.document["mechanism"]["epsilon"] = "0.25"
    yield (
        "answer-epsilon-of-mechanism",
        "The noise is said to be that of another ε than is guaranteed.",
        False,
        release.seal(),
        own,
    )
    release = sound(charge=counted)
    release.document["guarantee"]["delta"] = "0.000001"
    yield "answer-delta", "The price of an answer has no δ.", False, release.seal(), own

    yield from unsigned(own)
    yield from of_bytes(own)
    yield from of_files(own)


AGES = GeneralizationMap(
    columns=(MappedColumn(name="age", hierarchy=IntervalHierarchy(lower=0, upper=100, widths=(10, 50)), level=2),)
)
BORN = GeneralizationMap(
    columns=(
        MappedColumn(
            name="born",
            hierarchy=DateHierarchy.of(first="1999-11-30", last="2010-04-01", merged=["month", "quarter", "decade"]),
            level=2,
        ),
    )
)
LARGE = ValueHierarchy.from_values(["Female", "Male", "Not said"])


def unsigned(own: tuple[SigningKey, ...]) -> Iterator[tuple[str, str, bool, Release, tuple[SigningKey, ...]]]:
    """What a forger does who hasn't the publisher's key."""
    for name, why, change in (
        ("unsigned-epsilon", "ε was changed after the signature.", put("guarantee", "epsilon", to="0.01")),
        ("unsigned-words", "The words were changed after the signature.", put("guarantee", "in_words", to="Nothing can be learnt.")),
        ("unsigned-day", "The day was changed after the signature.", put("day", to="2025-03-04")),
        ("signature-missing", "There is no signature.", drop("signature")),
        ("signature-empty", "There is no signature.", put("signature", to={})),
        ("signature-without-value", "The signature has no value.", drop("signature", "value")),
        ("signature-field-unknown", "The signature has a field that the format doesn't have.", put("signature", "by", to="us")),
        ("signature-truncated", "The signature lacks its last byte.", lambda document: put("signature", "value", to=document["signature"]["value"][:-2])(document)),
        ("signature-upper-case", "The signature's digits are in upper case.", lambda document: put("signature", "value", to=document["signature"]["value"].upper())(document)),
        ("signature-zero", "The signature is 64 bytes of 0.", put("signature", "value", to="00" * 64)),
        ("signature-high-s", "The same signature with S + L for S, which RFC 8032 refuses.", lambda document: put("signature", "value", to=high(document["signature"]["value"]))(document)),
    ):  # fmt: skip
        release = sound()
        change(release.document)
        yield name, why, False, release, own
    yield (
        "key-of-a-stranger",
        "Signed by a key that is not the publisher's, and says so.",
        False,
        sound(key=STRANGER),
        own,
    )
    yield (
        "key-not-told",
        "Signed by the publisher's next key, which the reader doesn't have.",
        False,
        sound(key=NEXT),
        own,
    )
    for name, why, stated in (
        ("key-id-of-another", "The key's id is not that of the key.", {"key_id": STRANGER.public.key_id}),
        ("key-borrowed", "A stranger's signature with the publisher's public key beside it.", {}),
        ("algorithm-other", "The signature is said to be of another algorithm.", {"algorithm": "none"}),
        ("key-zero", "The public key is 32 bytes of 0, a point of small order.", {"public_key": "00" * 32, "key_id": hashlib.sha256(bytes(32)).hexdigest()[:16]}),
    ):  # fmt: skip
        release = sound()
        release.document["signature"].update(stated)
        release.resign(STRANGER if name == "key-borrowed" else PUBLISHER)
        yield name, why, False, release, own
    for name, why, domain in (
        ("domain-of-an-anchor", "The same bytes, signed as a line of an anchor.", b"crowdblend ledger anchor 1\n"),
        ("domain-of-another-format", "The same bytes, signed as a certificate of the format before.", b"crowdblend certificate 4\n"),
        ("domain-none", "The bytes were signed without the line that says what they are.", b""),
    ):  # fmt: skip
        yield name, why, False, sound().seal(domain=domain), own


def high(value: str) -> str:
    """A signature with S + L for S."""
    scalar = int.from_bytes(bytes.fromhex(value[64:]), "little") + ORDER
    return value[:64] + scalar.to_bytes(32, "little").hex()


def of_bytes(own: tuple[SigningKey, ...]) -> Iterator[tuple[str, str, bool, Release, tuple[SigningKey, ...]]]:
    """The same fields, and so the same signature, in other bytes."""
    document = sound().document
    plain = certificate_bytes(document)
    text = plain.decode()
    named = sound(charge=charge_of("one", label="Zählung")).document
    turned = json.dumps(dict(reversed(document.items())), indent=2, ensure_ascii=False) + "\n"
    before = {"format": "x", "guarantee": {**document["guarantee"], "epsilon": "0.01"}, "signature": "s"}
    other = certificate_bytes({**{name: document[name] for name in document if name != "files"}, **before})
    value = f'"value": "{document["signature"]["value"]}"'
    algorithm = '"algorithm": "Ed25519"'
    moved = text.replace(f",\n    {value}", "").replace(algorithm, f"{algorithm},\n    {value}")
    for name, why, content in (
        ("bytes-without-last-line-feed", "The line feed at the end is missing.", plain[:-1]),
        ("bytes-with-more-line-feeds", "There is one line feed more.", plain + b"\n"),
        ("bytes-compact", "The fields stand there without spaces.", canonical_bytes(document) + b"\n"),
        ("bytes-of-another-order", "The fields stand there in another order.", turned.encode()),
        ("bytes-escaped", "Letters beyond ASCII are escaped.", json.dumps(named, indent=2, sort_keys=True).encode() + b"\n"),
        ("bytes-with-a-mark", "A byte order mark stands before the fields.", b"\xef\xbb\xbf" + plain),
        ("bytes-in-utf-16", "The text is in UTF-16.", text.encode("utf-16")),
        ("bytes-cr-lf", "The lines end in CR LF.", plain.replace(b"\n", b"\r\n")),
        ("bytes-truncated", "The end was cut off.", plain[: len(plain) // 2]),
        ("bytes-none", "The certificate is empty.", b""),
        ("bytes-a-list", "The certificate is JSON, and no object.", b"[]\n"),
        ("bytes-nested-deeply", "The certificate is nested beyond reading.", b"[" * 20_000 + b"]" * 20_000 + b"\n"),
        ("bytes-name-twice", "ε stands there twice; readers of JSON differ in which one they take.", text.replace('    "epsilon": ', '    "epsilon": "0.01",\n    "epsilon": ', 1).encode()),
        ("bytes-not-utf-8", "A byte is no UTF-8.", plain.replace(b"census", b"c\xffnsus", 1)),
        ("bytes-another-document-before", "Another document with a lower ε stands before the certificate.", other + plain),
        ("bytes-value-in-another-place", "The signature's value stands in another place of its object.", moved.encode()),
        ("bytes-line-feed-after-value", "A line feed stands at the end of the signature's value.", text.replace(value, value[:-1] + '\\n"').encode()),
    ):  # fmt: skip
        yield name, why, False, Release(document=document, content=content), own


def of_files(own: tuple[SigningKey, ...]) -> Iterator[tuple[str, str, bool, Release, tuple[SigningKey, ...]]]:
    """The files beside the certificate."""
    for name, why, files in (
        ("file-changed", "A count in the table was changed.", {"data.csv": TABLE.replace(b"21", b"22")}),
        ("file-cut", "The table's last line was cut off.", {"data.csv": TABLE[:-8]}),
        ("file-gone", "The table is missing.", {}),
        ("file-more", "A file lies there that the certificate doesn't name.", {"data.csv": TABLE, "notes.txt": b"x\n"}),
        ("file-renamed", "The table has another name.", {"table.csv": TABLE}),
    ):
        release = sound()
        release.files = files
        yield name, why, False, release, own
    for name, why, table in (
        ("label-unknown", "The certified table has a label that its hierarchy doesn't have.", b"sex,count\nFemale,21\nOther,34\n"),
        ("label-of-a-finer-level", "The labels are finer than the level that the certificate states.", TABLE),
    ):  # fmt: skip
        coarse = GeneralizationMap(columns=(MappedColumn(name="sex", hierarchy=MAP.columns[0].hierarchy, level=1),))
        yield name, why, False, sound(table=table, generalization=MAP if name == "label-unknown" else coarse), own


def added(name: str, **changes: Any) -> DatasetAdded:
    values: dict[str, Any] = {
        "dataset": name,
        "epsilon": Decimal("1"),
        "delta": Decimal("0.001"),
        "relation": "add/remove",
        "survey_rate": None,
        "rows_per_person": 1,
        "by": "steward",
        "day": DAY,
    }
    return DatasetAdded(**(values | changes))


def published(name: str) -> ReleasePublished:
    return ReleasePublished(release_id=name, output_hashes=(("data.csv", hashlib.sha256(TABLE).hexdigest()),))


def abandoned(name: str, *, refunded: bool) -> ReleaseAbandoned:
    return ReleaseAbandoned(release_id=name, reason="a test", refunded=refunded, by="operator", day=DAY)


REGISTERED = SeriesRegistration(
    series="monthly",
    dataset="census",
    mechanism=SAFE,
    price=SERIES.price,
    epsilon_paper=SERIES.epsilon_paper,
    spec_digest="c" * 64,
    map_digest=MAP.digest(),
    day=DAY,
).entry
TOKEN = TokenAdded(
    token_id="3c" * 8, name="auditors", secret_digest="d" * 64, expires=date(2026, 6, 2), by="steward", day=DAY
)
SOUND: Mapping[str, Entry] = {
    "created": LedgerCreated(ledger_id=LEDGER),
    "census": added("census"),
    "survey": added("survey", survey_rate=Decimal("0.05")),
    "charge": charge_of("one").entry,
    "reading": ReleaseReading(release_id="one"),
    "published": published("one"),
    "refused": ReleaseRefused(
        release_id="one", dataset="census", cause="release-known", reason="A second time.", day=DAY
    ),
    "unread": charge_of("unread").entry,
    "refund": abandoned("unread", refunded=True),
    "raise": BudgetRaised(
        dataset="census", epsilon=Decimal(2), delta=Decimal("0.001"), reason="a second year", by="steward", day=DAY
    ),
    "look": DataAccess(dataset="census", what="a utility report", by="steward", day=DAY),
    "of-survey": charge_of("of-survey", dataset="survey").entry,
    "series": REGISTERED,
    "first": charge_of("first", releases=3, series="monthly", series_digest="c" * 64).entry_at(1),
    "first-reading": ReleaseReading(release_id="first"),
    "token": TOKEN,
    "revoked": TokenRevoked(token_id=TOKEN.token_id, by="steward", day=DAY),
}


def documents() -> dict[str, Document]:
    """The sound ledger's entries by name, as JSON."""
    return {name: json.loads(bytes_of_entry(entry)) for name, entry in SOUND.items()}


@dataclass(kw_only=True)
class Ledger:
    """A ledger's lines before they are written."""

    links: list[Document]
    anchor: list[bytes] | None
    tail: bytes = b""
    checkpoint: bytes | None = None
    witnesses: bytes | None = None

    @property
    def bytes(self) -> bytes:
        return b"".join(canonical_bytes(link) + b"\n" for link in self.links) + self.tail


def chained(bodies: list[bytes]) -> list[Document]:
    """Entries as they are stored, each hashed to the one before."""
    links, previous = [], GENESIS
    for position, body in enumerate(bodies):
        own = link_hash(previous=previous, position=position, body=body)
        text = body.decode("ascii")
        kind = json.loads(text).get("kind", "")
        links.append({"position": position, "previous": previous, "hash": own, "kind": kind, "body": text})
        previous = own
    return links


def anchored(links: list[Document], *places: int, key: SigningKey = PUBLISHER, ledger: str = LEDGER) -> list[bytes]:
    """The anchor's lines for some places of a chain."""
    return [
        line_of_head(Head(ledger_id=ledger, position=place, hash=links[place]["hash"]), key)
        for place in sorted({place % len(links) for place in places})
    ]


def ledger_of(entries: Mapping[str, Document]) -> Ledger:
    """A ledger of these entries that is hashed and anchored as a whole, by who holds the keys."""
    links = chained([canonical_bytes(entry) for entry in entries.values()])
    return Ledger(links=links, anchor=anchored(links, -1))


def until(name: str, *more: Document) -> dict[str, Document]:
    """The sound entries up to one, then others."""
    whole = documents()
    kept = list(whole)[: list(whole).index(name) + 1]
    return {one: whole[one] for one in kept} | {f"more {number}": one for number, one in enumerate(more)}


def changed(name: str, change: Change) -> dict[str, Document]:
    """The sound entries up to one, which is changed."""
    entries = until(name)
    change(entries[name])
    return entries


def of(entry: Entry, **changes: Any) -> Document:
    return json.loads(bytes_of_entry(entry)) | changes


UNIT_LAYOUTS = {
    "record": "chacha20-byte-first/1",
    "person:who": LAYOUTS["person"],
    "household:home": LAYOUTS["household"],
}


def visits(unit: str) -> Document:
    """A data set all of whose releases hide a unit."""
    return of(UnitDatasetAdded(**asdict(added("visits")), unit=DatasetUnit.of_text(unit)))


def visit(name: str, unit: str) -> Document:
    """A release of it that hides a unit."""
    return of(charge_of(name, dataset="visits", sampler_layout=f"{UNIT_LAYOUTS[unit]} csv-records/2").entry)


def ledgers() -> Iterator[tuple[str, str, bool, Ledger, tuple[SigningKey, ...]]]:
    """Name, reason, whether it holds, the ledger, and the public keys that may have signed its anchor."""
    own = (PUBLISHER,)
    whole = ledger_of(documents())
    yield "sound", "A ledger of entries of many kinds, and its anchor.", True, whole, own
    yield (
        "sound-without-anchor",
        "The same without an anchor: what was cut off can't be seen.",
        True,
        Ledger(links=whole.links, anchor=None),
        own,
    )
    behind = Ledger(links=whole.links, anchor=anchored(whole.links, 2, 5))
    yield "sound-anchor-behind", "The last entries are not anchored yet.", True, behind, own
    turned = anchored(whole.links, 2) + anchored(whole.links, 8, -1, key=NEXT)
    yield (
        "sound-key-changed",
        "Another key of the publisher signs from entry 8 on.",
        True,
        Ledger(links=whole.links, anchor=turned),
        (PUBLISHER, NEXT),
    )
    broken = anchored(whole.links, 2, -1)
    crashed = Ledger(links=whole.links, anchor=[broken[0], broken[1][:100]])
    yield (
        "sound-anchor-after-a-crash",
        "The anchor's last line is incomplete, as a crash leaves it.",
        True,
        crashed,
        own,
    )
    yield "sound-one-entry", "A ledger that was just created.", True, ledger_of(until("created")), own

    counted = BiasedSampleCounts(
        k=20, lowest_rate=Decimal(0), highest_rate=Decimal("0.05"), largest_rate=Decimal("0.05"), exceptions=0
    )
    surveyed = until("survey", of(charge_of("one", dataset="survey", mechanism=counted).entry))
    yield (
        "sound-survey",
        "A price that leans on the data set's own sampling, which is registered.",
        True,
        ledger_of(surveyed),
        own,
    )
    for unit in UNIT_LAYOUTS:
        yield (
            f"sound-unit-{unit.partition(':')[0]}",
            "A data set with a unit, and two releases of it.",
            True,
            ledger_of(until("census", visits(unit), visit("one", unit), visit("two", unit))),
            own,
        )
    yield from of_chain(whole, own)
    yield from of_anchor(whole, own)
    yield from of_checkpoint(whole, own)
    for name, why, entries in of_rules():
        yield name, why, False, ledger_of(entries), own


def of_chain(
    whole: Ledger, own: tuple[SigningKey, ...]
) -> Iterator[tuple[str, str, bool, Ledger, tuple[SigningKey, ...]]]:
    """Stored entries that were changed by who hasn't the keys; the anchor is the sound one."""

    def stored(change: Callable[[list[Document]], object]) -> Ledger:
        links = copy.deepcopy(whole.links)
        change(links)
        return Ledger(links=links, anchor=whole.anchor)

    body = whole.links[3]["body"]
    for name, why, change in (
        ("chain-body-changed", "An entry's content was changed, its hash was not.", lambda links: links[3].update(body=body.replace('"k":20', '"k":50'))),
        ("chain-hash-changed", "An entry's hash is another one.", lambda links: links[3].update(hash="0" * 64)),
        ("chain-previous-changed", "An entry names another one before it.", lambda links: links[3].update(previous="0" * 64)),
        ("chain-previous-short", "A hash of the entry before has 64 digits.", lambda links: links[3].update(previous="00")),
        ("chain-kind-differs", "The kind beside an entry is not the entry's.", lambda links: links[3].update(kind="release-charged/2")),
        ("chain-entry-removed", "An entry is missing.", lambda links: links.pop(4)),
        ("chain-first-removed", "The first entry is missing.", lambda links: links.pop(0)),
        ("chain-entry-twice", "An entry stands there twice.", lambda links: links.insert(4, dict(links[4]))),
        ("chain-order", "Two entries have changed their places in the file.", lambda links: links.__setitem__(slice(4, 6), [links[5], links[4]])),
        ("chain-position-changed", "An entry has the place of another one.", lambda links: links[4].update(position=7)),
        ("chain-position-a-text", "A place is a whole number.", lambda links: links[4].update(position="4")),
        ("chain-field-missing", "An entry is stored without its hash.", lambda links: links[4].pop("hash")),
        ("chain-cut", "The last entries were cut off: the anchor vouches for them.", lambda links: links.__delitem__(slice(10, None))),
        ("chain-none", "All entries were cut off.", lambda links: links.clear()),
    ):  # fmt: skip
        yield name, why, False, stored(change), own
    yield (
        "chain-line-truncated",
        "The last line is incomplete.",
        False,
        Ledger(links=whole.links[:-1], anchor=whole.anchor, tail=canonical_bytes(whole.links[-1])[:80]),
        own,
    )
    rewritten = documents()
    rewritten["look"]["what"] = "nothing of note"
    yield (
        "chain-written-anew",
        "The chain was hashed anew after a change: the anchor vouches for another one.",
        False,
        Ledger(links=chained([canonical_bytes(one) for one in rewritten.values()]), anchor=whole.anchor),
        own,
    )
    shortened = {name: entry for name, entry in documents().items() if name != "look"}
    yield (
        "chain-without-the-look",
        "The record of a private look was taken out, and the chain hashed anew.",
        False,
        Ledger(links=chained([canonical_bytes(one) for one in shortened.values()]), anchor=anchored(whole.links, 12)),
        own,
    )
    spliced = [canonical_bytes(one) for one in documents().values()]
    for name, why, at, bytes_ in (
        ("entry-with-spaces", "An entry is JSON of another form than the canonical one.", 4, json.dumps(documents()["reading"]).encode()),
        ("entry-of-another-order", "An entry's fields are not sorted.", 4, b'{"release_id":"one","kind":"release-reading/1"}'),
        ("entry-name-twice", "A field of an entry stands there twice.", 4, b'{"kind":"release-reading/1","release_id":"one","release_id":"one"}'),
        ("entry-no-json", "An entry is no JSON.", 4, b"release one is read"),
    ):  # fmt: skip
        bodies = [*spliced[:at], bytes_]
        links, previous = chained(spliced[:at]), ""
        previous = links[-1]["hash"]
        own_hash = link_hash(previous=previous, position=at, body=bodies[at])
        links.append(
            {
                "position": at,
                "previous": previous,
                "hash": own_hash,
                "kind": "release-reading/1",
                "body": bytes_.decode("ascii"),
            }
        )
        yield name, why, False, Ledger(links=links, anchor=anchored(links, -1)), own


def of_anchor(
    whole: Ledger, own: tuple[SigningKey, ...]
) -> Iterator[tuple[str, str, bool, Ledger, tuple[SigningKey, ...]]]:
    """Anchors that don't hold, beside the sound chain."""
    links, last = whole.links, len(whole.links) - 1
    sound_line = anchored(links, -1)[0]
    stated = json.loads(sound_line)
    other = [dict(link) for link in links]
    other[last]["hash"] = "ab" * 32

    def line(**changes: Any) -> bytes:
        return canonical_bytes(stated | changes) + b"\n"

    for name, why, anchor in (
        ("anchor-of-another-ledger", "The anchor is of another ledger.", anchored(links, -1, ledger=OTHER_LEDGER)),
        ("anchor-of-another-chain", "The anchor vouches for another entry at this place.", anchored(other, -1)),
        ("anchor-beyond-the-chain", "The anchor vouches for an entry that the ledger doesn't have.", [line_of_head(Head(ledger_id=LEDGER, position=last + 1, hash="ab" * 32), PUBLISHER)]),
        ("anchor-of-a-stranger", "The anchor is signed by a key that isn't trusted.", anchored(links, -1, key=STRANGER)),
        ("anchor-goes-back", "The anchor's lines don't rise.", [*anchored(links, -1), *anchored(links, 2)]),
        ("anchor-line-twice", "A line of the anchor stands there twice.", [sound_line, sound_line]),
        ("anchor-signature-of-another-line", "The signature is that of another head.", [line(signature=json.loads(anchored(links, 2)[0])["signature"])]),
        ("anchor-position-changed", "The place was changed after the signature.", [line(position=last - 1)]),
        ("anchor-key-id-of-another", "The key's id is not that of the key.", [line(key_id=STRANGER.public.key_id)]),
        ("anchor-field-unknown", "A line has a field that the format doesn't have.", [line(day="2026-03-04")]),
        ("anchor-with-spaces", "A line is JSON of another form than the canonical one.", [json.dumps(stated, sort_keys=True).encode() + b"\n"]),
        ("anchor-cr-lf", "A line ends in CR LF.", [sound_line[:-1] + b"\r\n"]),
        ("anchor-empty", "The anchor is empty, and vouches for nothing.", []),
        ("anchor-no-json", "A line is no JSON.", [b"entry 16 is right\n"]),
    ):  # fmt: skip
        yield name, why, False, Ledger(links=links, anchor=anchor), own


def witness(number: int, kind: int = TIMED) -> NoteKey:
    return NoteKey(name=f"witness.example/{number + 1}", kind=kind, public=WITNESSES[number].public)


def policy(*lines: str) -> bytes:
    """Three witnesses, of whom two are enough unless other lines say otherwise."""
    named = [f"witness w{number + 1} {witness(number).text}" for number in range(3)]
    return "".join(f"{line}\n" for line in (*named, *(lines or ("group enough 2 w1 w2 w3", "quorum enough")))).encode()


def seen(number: int, text: bytes, *, by: SigningKey | None = None, at: int = WITNESSED) -> NoteSignature:
    """A witness's cosignature."""
    return witness(number).sign(text, by or WITNESSES[number], seconds=at + number)


def text_of(leaves: list[bytes], *, ledger: str = LEDGER) -> bytes:
    return checkpoint_text(origin=origin_of(ledger), size=len(leaves), root=MerkleTree(leaves).root())


def of_log(text: bytes, *, key: SigningKey = PUBLISHER, ledger: str = LEDGER) -> NoteSignature:
    return NoteKey(name=origin_of(ledger), kind=PLAIN, public=key.public).sign(text, key)


def of_checkpoint(
    whole: Ledger, own: tuple[SigningKey, ...]
) -> Iterator[tuple[str, str, bool, Ledger, tuple[SigningKey, ...]]]:
    """Checkpoints and their witnesses beside the sound chain and its anchor."""
    leaves = [bytes.fromhex(link["hash"]) for link in whole.links]
    text, early = text_of(leaves), text_of(leaves[:9])
    rewritten = text_of([*leaves[:3], b"x" * 32, *leaves[4:]])
    bodies = text_of([link["body"].encode() for link in whole.links])
    other = text_of(leaves, ledger=OTHER_LEDGER)
    sound = note(text, [of_log(text), seen(0, text), seen(2, text)])

    def cosigned(text: bytes) -> bytes:
        return note(text, [of_log(text), seen(0, text), seen(2, text)])

    first = seen(0, text)
    later = NoteSignature(
        name=first.name, key_id=first.key_id, content=(WITNESSED + 60).to_bytes(8, "big") + first.content[8:]
    )
    plain = witness(0, PLAIN).sign(text, WITNESSES[0])
    for name, why, checkpoint, witnesses in (
        ("sound-witnessed", "Two of three witnesses cosigned the last head, which is enough.", sound, policy()),
        ("sound-witnessed-behind", "The last entries are not witnessed yet.", cosigned(early), policy()),
        ("sound-witnessed-by-groups", "The quorum asks for one witness and for a group of two, of whom one is enough.", sound, policy("group two any w1 w2", "group both all two w3", "quorum both")),
        ("sound-witnessed-with-a-stranger", "A signature by a key that nobody named is passed over.", note(text, [of_log(text), of_log(text, key=STRANGER), seen(0, text), seen(2, text)]), policy()),
        ("checkpoint-missing", "Witnesses are named, and there is no checkpoint.", None, policy()),
        ("checkpoint-cosigned-by-one", "One witness cosigned where two are needed.", note(text, [of_log(text), seen(0, text)]), policy()),
        ("checkpoint-cosigned-by-one-twice", "One witness cosigned two times, and counts once.", note(text, [of_log(text), seen(0, text), seen(0, text, at=WITNESSED + 9)]), policy()),
        ("checkpoint-cosigned-for-another-group", "Two witnesses cosigned, and the quorum asks for the third.", sound, policy("quorum w2")),
        ("checkpoint-cosignature-of-another-head", "A witness cosigned an earlier head.", note(text, [of_log(text), seen(0, text), seen(2, early)]), policy()),
        ("checkpoint-cosignature-by-another-key", "A cosignature names a witness, and another key made it.", note(text, [of_log(text), seen(0, text), seen(2, text, by=STRANGER)]), policy()),
        ("checkpoint-cosignature-that-fails-beside-enough", "Two cosignatures hold, and one of a known witness doesn't.", note(text, [of_log(text), seen(0, text), seen(1, text, by=STRANGER), seen(2, text)]), policy()),
        ("checkpoint-cosignature-of-another-time", "A cosignature's time was changed.", note(text, [of_log(text), later, seen(2, text)]), policy()),
        ("checkpoint-cosignature-without-time", "A witness signed the text as a log would, without the time.", note(text, [of_log(text), plain, seen(2, text)]), policy()),
        ("checkpoint-not-signed-by-the-publisher", "Witnesses alone signed it.", note(text, [seen(0, text), seen(2, text)]), policy()),
        ("checkpoint-of-a-stranger", "A key that isn't the publisher's signed it.", note(text, [of_log(text, key=STRANGER), seen(0, text), seen(2, text)]), policy()),
        ("checkpoint-of-another-ledger", "It is another ledger's.", note(other, [of_log(other, ledger=OTHER_LEDGER), seen(0, other), seen(2, other)]), policy()),
        ("checkpoint-of-another-chain", "The ledger was written anew after it was witnessed, with its anchor.", cosigned(rewritten), policy()),
        ("checkpoint-beyond-the-chain", "It is of an entry more than the ledger has.", cosigned(text_of([*leaves, b"x" * 32])), policy()),
        ("checkpoint-over-bodies", "The leaves are the entries' bytes and not their hashes.", cosigned(bodies), policy()),
        ("checkpoint-size-with-a-zero", "The number of entries has a leading zero.", cosigned(text.replace(b"\n%d\n" % len(leaves), b"\n0%d\n" % len(leaves))), policy()),
        ("checkpoint-without-last-line-feed", "The last line has no end.", sound[:-1], policy()),
        ("checkpoint-cr-lf", "Lines end in CR LF.", sound.replace(b"\n", b"\r\n"), policy()),
        ("witnesses-quorum-of-nobody", "The policy's quorum is a name that no line defines.", sound, policy("quorum w4")),
        ("witnesses-one-key-twice", "One key stands in the policy under two names.", sound, policy(f"witness w4 {witness(0).text}", "quorum w1")),
    ):  # fmt: skip
        ledger = Ledger(links=whole.links, anchor=whole.anchor, checkpoint=checkpoint, witnesses=witnesses)
        yield name, why, name.startswith("sound"), ledger, own


def of_rules() -> Iterator[tuple[str, str, dict[str, Document]]]:
    """Ledgers that are hashed and anchored soundly, whose last entries break a rule."""
    price_of = put
    yield (
        "first-entry-missing",
        "The first entry doesn't create the ledger.",
        {name: one for name, one in documents().items() if name != "created"},
    )
    yield "created-twice", "A ledger is created once.", until("census", of(LedgerCreated(ledger_id=OTHER_LEDGER)))
    yield (
        "ledger-id-short",
        "A ledger's id has 64 digits.",
        {"created": {"kind": "ledger-created/1", "ledger_id": "1e"}},
    )
    yield (
        "sample-used-again",
        "A sample serves one release, and this one served another.",
        until("published", of(charge_of("two", sample_id=sample("one")).entry)),
    )
    yield (
        "sample-used-again-after-refund",
        "A sample serves one release, also where that was given back.",
        until("refund", of(charge_of("two", sample_id=sample("unread")).entry)),
    )
    yield (
        "release-charged-again",
        "A release's id is used once.",
        until("published", of(charge_of("one", sample_id=sample("two")).entry)),
    )
    yield (
        "release-unknown",
        "Nothing was charged for the release that is read.",
        until("census", of(ReleaseReading(release_id="one"))),
    )
    yield (
        "published-without-reading",
        "A release is published whose records were never read.",
        until("charge", of(published("one"))),
    )
    yield (
        "reading-twice",
        "Records are read once for a release.",
        until("reading", of(ReleaseReading(release_id="one"))),
    )
    yield "published-twice", "A release is published once.", until("published", of(published("one")))
    yield (
        "reading-after-publication",
        "A published release is closed.",
        until("published", of(ReleaseReading(release_id="one"))),
    )
    yield (
        "refund-after-reading",
        "What was read is spent for ever.",
        until("reading", of(abandoned("one", refunded=True))),
    )
    yield (
        "no-refund-unread",
        "Nothing was read, and the cost is kept.",
        until("charge", of(abandoned("one", refunded=False))),
    )
    yield (
        "refund-after-publication",
        "A published release is closed.",
        until("published", of(abandoned("one", refunded=True))),
    )
    yield "refund-twice", "A cost is given back once.", until("refund", of(abandoned("unread", refunded=True)))
    yield (
        "price-epsilon-lower",
        "ε is lower than its mechanism's.",
        changed("charge", price_of("price", "epsilon", to="0.1")),
    )
    yield (
        "price-epsilon-higher",
        "ε is another than its mechanism's.",
        changed("charge", price_of("price", "epsilon", to="0.2")),
    )
    yield "price-epsilon-a-number", "An amount is a text.", changed("charge", price_of("price", "epsilon", to=1))
    yield (
        "price-epsilon-trailing-zero",
        "An amount has one text.",
        changed("charge", price_of("price", "epsilon", to="0.182988609920")),
    )
    yield (
        "price-delta-lower",
        "At this δ the mechanism has a higher ε.",
        changed("charge", price_of("price", "delta", to="0.0000000001")),
    )
    yield "price-rule", "The rule is not its mechanism's.", changed("charge", price_of("price", "rule", to="pld/1"))
    yield (
        "price-relation",
        "The price holds for another relation.",
        changed("charge", price_of("price", "relation", to="replacement")),
    )
    yield (
        "price-of-paper",
        "The published bound's ε is another one.",
        changed("charge", price_of("epsilon_paper", to="0.29")),
    )
    yield (
        "price-of-several",
        "A release that pays for itself is one.",
        changed("charge", price_of("price", "releases", to=3)),
    )
    yield (
        "price-of-another-k",
        "The mechanism has another k than was priced.",
        changed("charge", price_of("mechanism", "k", to=50)),
    )
    yield (
        "price-of-another-rate",
        "The mechanism has another rate than was priced.",
        changed("charge", price_of("mechanism", "sampling_rate", to="0.2")),
    )
    yield (
        "mechanism-unknown",
        "There is no mechanism of this kind.",
        changed("charge", price_of("mechanism", "kind", to="perfectly-safe-release/1")),
    )
    yield (
        "budget-exceeded",
        "Seven releases of 0.183 don't fit into ε = 1.",
        until("census", *(of(charge_of(f"r{number}").entry) for number in range(7))),
    )
    yield "budget-lowered", "A budget only rises.", until("look", of(SOUND["raise"], epsilon="1.5"))
    yield "budget-raised-to-the-same", "A budget is raised to what it was.", until("look", of(SOUND["raise"]))
    yield "budget-delta-one", "A budget's δ is below 1.", changed("census", put("delta", to="1"))
    yield (
        "budget-of-nobody",
        "The budget of a data set that isn't there is raised.",
        until("census", of(SOUND["raise"], dataset="nobody")),
    )
    yield "dataset-twice", "A data set is added once.", until("census", of(added("census", epsilon=Decimal(9))))
    yield (
        "dataset-unknown",
        "Charged to a data set that isn't there.",
        until("census", of(charge_of("one", dataset="nobody").entry)),
    )
    yield (
        "dataset-of-another-relation",
        "The budget is for another neighbouring relation.",
        until("census", of(added("values", relation="replacement")), of(charge_of("one", dataset="values").entry)),
    )
    yield (
        "dataset-with-more-records",
        "A person has up to two records, and one was priced.",
        until("census", of(added("double", rows_per_person=2)), of(charge_of("one", dataset="double").entry)),
    )
    for other in ("record", "household:home"):
        yield (
            f"unit-{other.partition(':')[0]}-beside-persons",
            "The data set's releases hide persons, and this one another unit.",
            until("census", visits("person:who"), visit("one", "person:who"), visit("two", other)),
        )
    yield (
        "look-at-nothing",
        "A look at a data set that isn't there.",
        until("census", of(SOUND["look"], dataset="nobody")),
    )
    yield (
        "survey-released-twice",
        "A data set that is itself a sample is released once.",
        until("of-survey", of(charge_of("again", dataset="survey").entry)),
    )
    once = charge_of("once", dataset="survey", series="once", series_digest="c" * 64)
    paid = {"price": once.price, "epsilon_paper": once.epsilon_paper, "spec_digest": "c" * 64}
    registered = SeriesRegistration(
        series="once", dataset="survey", mechanism=SAFE, map_digest=MAP.digest(), day=DAY, **paid
    )
    yield (
        "survey-released-twice-by-a-series",
        "A data set that is itself a sample is released once, also where a series of one release has paid.",
        until("survey", of(registered.entry), of(charge_of("before", dataset="survey").entry), of(once.entry_at(1))),
    )
    counted = BiasedSampleCounts(
        k=20, lowest_rate=Decimal("0"), highest_rate=Decimal("0.05"), largest_rate=Decimal("0.05"), exceptions=0
    )
    leaning = {name: of(charge_of("one", dataset=name, mechanism=counted).entry) for name in ("survey", "census")}
    yield (
        "survey-price-of-no-sample",
        "The price leans on the data having been sampled, and the data set is no sample.",
        until("survey", leaning["census"]),
    )
    lower = of(added("sparse", survey_rate=Decimal("0.2")))
    yield (
        "survey-price-of-a-higher-rate",
        "The data set was sampled at a higher rate than the price leans on.",
        until("survey", lower, leaning["survey"] | {"dataset": "sparse"}),
    )
    yield "series-twice", "A series is registered once.", until("series", of(REGISTERED))
    yield "series-unknown", "No series of this name has paid.", until("census", of(SOUND["first"]))
    yield (
        "series-place-twice",
        "A place of a series is taken once.",
        until(
            "first-reading", of(charge_of("other", releases=3, series="monthly", series_digest="c" * 64).entry_at(1))
        ),
    )
    yield (
        "series-place-beyond",
        "The series has paid for three releases, and this is the fourth.",
        until("series", of(charge_of("fourth", releases=3, series="monthly", series_digest="c" * 64).entry_at(4))),
    )
    yield (
        "series-other-mechanism",
        "The release has another mechanism than the series.",
        changed("first", put("mechanism", "k", to=50)),
    )
    yield (
        "series-other-map",
        "The release has another map than the series.",
        changed("first", put("map_digest", to="0" * 64)),
    )
    yield (
        "series-other-specification",
        "The release's specification is not the series'.",
        changed("first", put("series", "spec_digest", to="0" * 64)),
    )
    yield (
        "series-other-dataset",
        "The release is of another data set than the series.",
        changed("first", put("dataset", to="survey")),
    )
    yield (
        "series-price-lower",
        "The price of a series of three is that of one.",
        changed("series", put("price", "epsilon", to="0.18298860992")),
    )
    yield (
        "token-expired-when-added",
        "A token expires after the day on which it is added.",
        changed("token", put("expires", to="2026-03-04")),
    )
    yield "token-added-twice", "A token is added once.", until("token", of(TOKEN))
    yield "token-revoked-twice", "A token is revoked once.", until("revoked", of(SOUND["revoked"]))
    yield "token-unknown", "A token is revoked that was never added.", until("census", of(SOUND["revoked"]))
    yield "day-impossible", "There is no such day.", changed("census", put("day", to="2026-02-30"))
    yield "day-of-another-form", "A day has one form.", changed("census", put("day", to="20260304"))
    yield (
        "entry-kind-unknown",
        "An entry of a kind that is not known could mean anything.",
        until("census", {"kind": "budget-forgiven/1", "dataset": "census"}),
    )
    yield (
        "entry-kind-of-another-version",
        "An entry is of a version that is not known.",
        until("charge", {"kind": "release-reading/2", "release_id": "one"}),
    )
    yield (
        "entry-field-unknown",
        "An entry has a field that its kind doesn't have.",
        changed("census", put("note", to="x")),
    )
    yield "entry-field-missing", "An entry lacks a field.", changed("census", drop("by"))
    yield "entry-field-true", "A number is no `true`.", changed("census", put("rows_per_person", to=True))
    yield "entry-name-with-spaces", "A name has no spaces at its ends.", changed("census", put("dataset", to="census "))
    yield (
        "entry-two-samples-of-one",
        "The mechanism reads one sample, and two are taken.",
        changed("charge", lambda entry: entry.update(kind="release-charged/2", selection_sample_id=sample("other"))),
    )
    yield "entry-output-none", "A publication has at least one file.", changed("published", put("output_hashes", to={}))


def write_case(folder: Path, *, why: str, holds: bool, keys: tuple[SigningKey, ...]) -> None:
    folder.mkdir(parents=True)
    (folder / "case.json").write_bytes(canonical_bytes({"holds": holds, "why": why}) + b"\n")
    (folder / "publisher.pem").write_bytes(b"".join(pem_of(key.public) for key in keys))


def write_all(target: Path) -> int:
    """Write every case below a folder; gives their number."""
    count = 0
    for name, why, holds, release, keys in certificates():
        folder = target / "certificate" / name
        write_case(folder, why=why, holds=holds, keys=keys)
        (folder / "release").mkdir()
        (folder / "release" / "certificate.json").write_bytes(release.bytes)
        for file, content in release.files.items():
            (folder / "release" / file).parent.mkdir(exist_ok=True)
            (folder / "release" / file).write_bytes(content)
        count += 1
    for name, why, holds, ledger, keys in ledgers():
        folder = target / "ledger" / name
        write_case(folder, why=why, holds=holds, keys=keys)
        (folder / "ledger.jsonl").write_bytes(ledger.bytes)
        if ledger.anchor is not None:
            (folder / "anchor.jsonl").write_bytes(b"".join(ledger.anchor))
        for file, content in (("checkpoint", ledger.checkpoint), ("witnesses", ledger.witnesses)):
            if content is not None:
                (folder / file).write_bytes(content)
        count += 1
    return count


if __name__ == "__main__":
    for group in ("certificate", "ledger"):
        shutil.rmtree(HERE / group, ignore_errors=True)
    print(f"{write_all(HERE)} cases")
