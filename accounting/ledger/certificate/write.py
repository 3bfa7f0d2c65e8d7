"""The certificate of a release: what was done, what it guarantees and omits, what the files hash to, who says it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....mechanisms.amounts import amount_exact, share_shown
from ....mechanisms.errors import InputRefused
from ....mechanisms.hierarchies.build import described_hierarchy
from ....mechanisms.map_selection.choice import MapChoice
from ....mechanisms.mechanism import REPLACEMENT
from ....mechanisms.mixed_series import MixedSeries
from ....mechanisms.recoding import GeneralizationMap
from ...theory.kinds.registry import kind_of, kind_of_record, mechanism_of_record
from ..charge import DatasetContext, enforced_unit
from ..entries.kinds import MIXED, Fields, ReleaseCharged
from ..entries.values import amount_text
from ..given_files import open_given
from ..private_store.signing import ALGORITHM, SigningKey, canonical_bytes

if TYPE_CHECKING:
    from ....mechanisms.biased_sampling import InclusionColumn

__all__ = [
    "DOMAIN",
    "FORMAT",
    "MOST_CARRIED",
    "VERIFY_PAGE",
    "certificate_bytes",
    "filter_statement",
    "guarantee_statement",
    "has_own_rates",
    "limit_statements",
    "map_fields",
    "map_findings",
    "output_files",
    "registered_fields",
    "sha256_of_file",
    "signed_bytes",
    "theorem_of",
    "write_certificate",
]

FORMAT = "crowdblend-certificate/5"
DOMAIN = b"crowdblend certificate 5\n"
VERIFY_PAGE = Path(__file__).with_name("verify.html")
"""The page that checks a certificate in a browser, without our code and without a network."""


def write_certificate(
    folder: Path,
    *,
    charge: ReleaseCharged,
    context: DatasetContext,
    position: int,
    chain_hash: str,
    generalization: GeneralizationMap,
    choice: MapChoice | None,
    published: Mapping[str, Any],
    code_sources: str,
    key: SigningKey,
    enforced_by: str | None = None,
    inclusion: InclusionColumn | None = None,
    describe: Callable[[Mapping[str, Any]], None] | None = None,
) -> None:
    """Write `certificate.json` beside the files that it describes.

    PRIVACY: everything here is public before the records are read, or a function of the published files, or a
    signature over that, which the key and the signed bytes determine.

    Args:
        folder: holds the complete release but for its certificate.
        charge: the release's charge, as the ledger has it.
        context: what the ledger said of the data set at the charge.
        position: the charge's place in the ledger's chain.
        chain_hash: the chain's hash there.
        generalization: the map.
        choice: how it was drawn; None where it was fixed beforehand.
        published: the form of what is published, its groups and its records.
        code_sources: SHA-256 (hex) of the software's sources, by which an audit's report names them too.
        key: signs it.
        enforced_by: the column by which no more records of a person count than the price covers; None where it is
            believed that nobody has more.
        inclusion: the column of rates by which sampled records were kept; None where there is none.
        describe: writes more files into the folder, from the certificate's fields but the files' digests.

    Raises:
        OSError: the folder can't be written.
    """
    certificate: dict[str, Any] = {
        "format": FORMAT,
        "release_id": charge.release_id,
        "name": charge.label,
        "dataset": charge.dataset,
        "day": charge.day.isoformat(),
        "mechanism": dict(charge.mechanism),
        "sampler_layout": charge.sampler_layout,
        "sample_id": charge.sample_id,
        "code_version": charge.code_version,
        "code_sources": code_sources,
        "series": _series(charge, context),
        "guarantee": {
            "epsilon": amount_text(charge.price.epsilon),
            "delta": amount_text(charge.price.delta),
            "rule": charge.price.rule,
            "theorem": theorem_of(charge, context),
            "epsilon_paper": None if charge.epsilon_paper is None else amount_text(charge.epsilon_paper),
            "unit": unit_statement(charge, context),
            "rows_per_person": context.rows_per_person,
            "neighbours": charge.price.relation,
            "in_words": guarantee_statement(charge, context),
            "limits": limit_statements(charge, context),
        },
        "private_looks": _looks(context),
        "map": map_fields(charge, generalization=generalization, choice=choice),
        "published": dict(published),
        "ledger": {"position": position, "hash": chain_hash},
        **_filter_budget(charge, context),
        "signature": {"algorithm": ALGORITHM, "key_id": key.public.key_id, "public_key": key.public.raw.hex()},
    }
    if enforced_by is not None:
        certificate["guarantee"]["enforced_by"] = enforced_by
    if inclusion is not None:
        certificate["inclusion"] = {"column": inclusion.column.name, "rates": [str(one) for one in inclusion.declared]}
    if describe is not None:
        describe(certificate)
    certificate["files"] = {name: sha256_of_file(path) for name, path in output_files(folder).items()}
    value = key.sign(domain=DOMAIN, message=signed_bytes(certificate))
    certificate["signature"] |= {"value": value.hex()}
    (folder / "certificate.json").write_bytes(certificate_bytes(certificate))


def _filter_budget(charge: ReleaseCharged, context: DatasetContext) -> dict[str, Any]:
    """The certificate's part about a filter budget, with all that it is computed from; none of an additive one."""
    added, taken = context.filter_budget, context.filter_charge
    if added is None or taken is None:
        return {}
    from ..filter_budget import share_of  # numerics that other certificates do without

    accounting = added.accounting
    return {
        "filter_budget": {
            "rule": accounting.rule,
            "epsilon": amount_text(added.epsilon),
            "delta": amount_text(added.delta),
            "order": amount_text(accounting.order),
            "tail_delta": amount_text(accounting.tail_delta),
            "tail_each": amount_text(accounting.tail_each),
            "allowance": amount_text(accounting.allowance),
            "charge": {
                "rule": taken.rule,
                "divergence": amount_text(taken.divergence),
                "tail": amount_text(taken.tail),
                "share": amount_text(share_of(taken, accounting)),
            },
            "in_words": filter_statement(charge, context),
        }
    }


def certificate_bytes(certificate: Mapping[str, Any]) -> bytes:
    """The one form in which a certificate is written, for people to read.

    Raises:
        ValueError: a text that has no form in UTF-8.
    """
    return (json.dumps(certificate, ensure_ascii=False, indent=2, sort_keys=True) + "\n").encode("utf-8")


def signed_bytes(certificate: Mapping[str, Any]) -> bytes:
    """What the signature is over: all of the certificate, the signature's algorithm and key too, but its value.

    Raises:
        ValueError: a number that JSON has no form for.
    """
    signature = {name: part for name, part in certificate["signature"].items() if name != "value"}
    return canonical_bytes({**certificate, "signature": signature})


def sha256_of_file(path: Path) -> str:
    """SHA-256 (hex) of a file."""
    with open_given(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def output_files(folder: Path) -> dict[str, Path]:
    """The files of a release's folder by their names, those in a folder of it as FOLDER/NAME, sorted by name.

    A link, an empty folder and a folder in a folder stand there themselves, so that they are told from files.
    """
    found: dict[str, Path] = {}
    for path in folder.iterdir():
        inside = list(path.iterdir()) if path.is_dir() and not path.is_symlink() else []
        found |= {f"{path.name}/{one.name}": one for one in inside} or {path.name: path}
    return dict(sorted(found.items()))


def _series(charge: ReleaseCharged, context: DatasetContext) -> dict[str, Any] | None:
    """The place in a series; where its columns are free, also the mechanism that it was registered with and priced."""
    if charge.series is None:
        return None
    place = {"name": charge.series.name, "number": charge.series.number, "releases": charge.price.releases}
    if context.registered is None:
        return place
    return place | registered_fields(context.registered, number=charge.series.number)


def registered_fields(registered: Fields, *, number: int) -> dict[str, Any]:
    """What a certificate says of a series with free columns beside a release's place: what the price is of.

    Args:
        registered: record of the mechanism that it was registered with.
        number: the release's place, which says its part where the series' mechanisms differ.

    Raises:
        InputRefused: the record can't be read.
        ValueError: no part has this number.
    """
    fields: dict[str, Any] = {"registered": dict(registered)}
    if dict(registered).get("kind") != MIXED:
        return fields
    mixed = mechanism_of_record(dict(registered))
    return fields | {"part": mixed.part_of(number)} if isinstance(mixed, MixedSeries) else fields


def _looks(context: DatasetContext) -> dict[str, Any]:
    """How many private looks came before the charge, and when; what was looked at stays in the ledger."""
    days = context.look_days
    return {"count": len(days), "last_day": max(days).isoformat() if days else None}


MOST_CARRIED = 1 << 16
"""Bytes of hierarchies that a certificate carries, in canonical form and over all columns."""

CHOICE_IN_WORDS = {
    "permute-and-flip": "One of the candidates was drawn by permute-and-flip (McKenna and Sheldon, "
    "arXiv:2010.12603v1), which is epsilon-private at the epsilon given here.",
    "exponential": "One of the candidates was drawn by the exponential mechanism, which is epsilon-private at the "
    "epsilon given here.",
    "walk": "The map is the last draw of a walk whose steps are exponential mechanisms with equal shares of the "
    "epsilon given here.",
}
CHAINS = "chains/1"
"""The kind of a lattice whose candidates are chains of maps, in its description."""
LARGEST_EXACT = (1 << 53) - 1
MAP_FIELDS = frozenset({"sha256", "columns"})
COLUMN_FIELDS = frozenset({"column", "hierarchy", "hierarchy_sha256", "level"})
SELECTION_FIELDS = frozenset(
    {
        "draw",
        "epsilon",
        "in_words",
        "lattice",
        "lattice_sha256",
        "maps",
        "quality",
        "rate",
        "sample_id",
        "steps",
        "threshold",
    }
)


def map_fields(
    charge: ReleaseCharged, *, generalization: GeneralizationMap, choice: MapChoice | None
) -> dict[str, Any]:
    """The certificate's part about the map.

    PRIVACY: candidates, bounds, weights and draw are public before the records are read; the levels are the draw
    that is published. No quality of any map is here. The hierarchies are as they were declared, with the values that
    no record has, and nothing tells which those are.

    Hierarchies are carried whole, in the order of the columns, as long as all that are carried have no more than
    `MOST_CARRIED` bytes; one that doesn't fit is left out and named by its digest alone. So is one with a number that
    readers of JSON who know doubles alone, `jq` for one, would read as another: RFC 8259, section 6.

    Args:
        charge: the release's charge, as the ledger has it.
        generalization: the map that the records were recoded with.
        choice: how it was chosen; None where it was fixed beforehand.

    Raises:
        ValueError: a choice that the charge has not paid for.
    """
    columns = list(_columns(generalization))
    fields: dict[str, Any] = {"sha256": generalization.digest(), "columns": columns}
    if choice is None:
        return fields
    mechanism = mechanism_of_record(dict(charge.mechanism))
    kind = kind_of(mechanism)
    if kind.selection is None:
        raise ValueError("the charge has paid for no choice of the map")
    epsilon, rate, threshold, quality, draws = kind.selection(mechanism)
    if not _pays_for(draws, choice.draw, choice.steps):
        raise ValueError("the charge has paid for another draw of the map")
    where = "all records" if rate is None else "a fresh sample of the records that served nothing else"
    read = "records were counted" if kind.sampling_rate(mechanism) is None else "release's sample was read"
    fields["selection"] = {
        "epsilon": str(epsilon),
        "draw": choice.draw,
        "steps": choice.steps,
        "rate": None if rate is None else str(rate),
        "sample_id": dict(charge.samples).get("selection"),
        "maps": choice.lattice.size,
        "lattice": choice.lattice.description(),
        "lattice_sha256": charge.map_digest,
        "quality": quality,
        "threshold": threshold,
        "in_words": f"{CHOICE_IN_WORDS[choice.draw]} The draw was made on {where}, with coins of its own, before the "
        f"{read}; it is {'the map' if choice.lattice.stages == 1 else 'the chain of maps'} that is published.",
    }
    return fields


def _columns(generalization: GeneralizationMap) -> Iterator[dict[str, Any]]:
    room = MOST_CARRIED
    for column in generalization.columns:
        description = column.hierarchy.description()
        raw_bytes = canonical_bytes(description)
        carried = len(raw_bytes) <= room and _is_exact_everywhere(description)
        room -= len(raw_bytes) if carried else 0
        yield {
            "column": column.name,
            "level": column.level,
            "hierarchy_sha256": hashlib.sha256(raw_bytes).hexdigest(),
            "hierarchy": description if carried else None,
        }


def _is_exact_everywhere(description: Mapping[str, Any]) -> bool:
    numbers = (*description.values(), *description.get("widths", ()))
    return all(abs(number) <= LARGEST_EXACT for number in numbers if type(number) is int)


def map_findings(certificate: Mapping[str, Any]) -> tuple[str, ...]:
    """What does not hold of a certificate's map: nothing here needs the ledger."""
    try:
        findings = _column_findings(certificate["map"]["columns"])
        return tuple(
            findings + _findings(certificate["map"], certificate["mechanism"], certificate.get("published", {}))
        )
    except (ArithmeticError, AttributeError, InputRefused, KeyError, TypeError, ValueError):
        return ("its map can't be read",)


def _column_findings(columns: Sequence[Mapping[str, Any]]) -> list[str]:
    findings = []
    for number, column in enumerate(columns, start=1):
        if column.keys() != COLUMN_FIELDS:
            findings.append(f"column {number} of its map has other fields than its format")
        elif column["hierarchy"] is not None and not _is_carried(column):
            findings.append(f"the hierarchy of column {number} of its map is not the one that digest and level name")
    return findings


def _is_carried(column: Mapping[str, Any]) -> bool:
    """Whether a column's hierarchy has the digest that is named, in its one form, and the level."""
    description, named, level = column["hierarchy"], column["hierarchy_sha256"], column["level"]
    if _digest(description) != named:
        return False
    hierarchy = described_hierarchy(description)
    return hierarchy.digest() == named and type(level) is int and 0 <= level < hierarchy.levels


def _findings(stated: Mapping[str, Any], record: Mapping[str, object], published: Mapping[str, Any]) -> list[str]:
    columns = [(column["column"], column["hierarchy_sha256"], column["level"]) for column in stated["columns"]]
    digest = _digest({"kind": "map/1", "columns": [list(column) for column in columns]})
    findings = [] if digest == stated["sha256"] else ["its map's digest is not that of the levels and hierarchies"]
    mechanism = mechanism_of_record(record)
    selection = kind_of(mechanism).selection
    if stated.keys() != (MAP_FIELDS if selection is None else MAP_FIELDS | {"selection"}):
        return [*findings, "it names a choice of the map exactly where its mechanism has one, and here it does not"]
    if selection is None:
        return findings
    chosen, lattice = stated["selection"], stated["selection"]["lattice"]
    if chosen.keys() != SELECTION_FIELDS:
        return [*findings, "its choice of the map has other fields than its format"]
    if _digest(lattice) != chosen["lattice_sha256"]:
        findings.append("its lattice's digest is not that of its candidates")
    if not _is_candidate(columns, lattice, published) or chosen["maps"] != _size(lattice):
        findings.append("its map is none of the candidates that it names")
    epsilon, rate, threshold, quality, draws = selection(mechanism)
    stated_choice = (chosen["epsilon"], chosen["rate"], chosen["threshold"], chosen["quality"])
    if stated_choice != (str(epsilon), None if rate is None else str(rate), threshold, quality):
        findings.append("its choice of the map is not the one of its mechanism")
    if (rate is None) is not (chosen["sample_id"] is None):
        findings.append("it names a sample for the choice exactly where its mechanism reads one, and here it does not")
    if chosen["draw"] not in CHOICE_IN_WORDS or (chosen["draw"] == "walk") is not (type(chosen["steps"]) is int):
        findings.append("its draw is none that this version knows")
    elif not _pays_for(draws, chosen["draw"], chosen["steps"]):
        findings.append("its map was drawn otherwise than its mechanism was priced for")
    return findings


def _pays_for(draws: int | None, draw: str, steps: int | None) -> bool:
    """Return whether a mechanism that is priced for so many exponential draws, or for any private one, pays for it."""
    return draws is None or (draw != "permute-and-flip" and draws == (1 if steps is None else steps))


def _is_candidate(
    columns: Sequence[tuple[str, str, int]], lattice: Mapping[str, Any], published: Mapping[str, Any]
) -> bool:
    """Whether a map's columns are the lattice's, at levels that one of its candidates has; and so for each stage."""
    bounds = lattice["columns"]
    if [(name, hierarchy) for name, hierarchy, _ in columns] != [(one["name"], one["hierarchy"]) for one in bounds]:
        return False
    levels = [level for _, _, level in columns]
    if any(type(level) is not int for level in levels) or any(Decimal(one["weight"]) < 0 for one in bounds):
        return False
    if lattice["kind"] == CHAINS:
        names = [name for name, _, _ in columns]
        chain = [[stage["levels"][name] for name in names] for stage in published["stages"]]
        return chain[0] == levels and chain in lattice["candidates"]
    if lattice["candidates"] is not None:
        return levels in lattice["candidates"]
    return all(one["min_level"] <= level <= one["max_level"] for one, level in zip(bounds, levels, strict=True))


def _size(lattice: Mapping[str, Any]) -> int:
    if lattice["candidates"] is not None:
        return len(lattice["candidates"])
    size = 1
    for one in lattice["columns"]:
        size *= one["max_level"] - one["min_level"] + 1
    return size


def _digest(description: Mapping[str, object]) -> str:
    return hashlib.sha256(canonical_bytes(description)).hexdigest()


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
    "them: every event's probability differs by a factor of at most e^epsilon, plus at most delta. {fixed} "
)
FIXED = "The series' parameters were fixed before its first release."
MIXED_SERIES = (
    "The series' parts, which are named in this certificate, were fixed before its first release; what each release "
    "is within its part could be chosen by what was published before. In this release: "
)
FREE_COLUMNS = (
    "The series' mechanism was fixed before its first release; columns, hierarchies and levels of each, a higher k and "
    "a lower sampling rate could be chosen by what was published before."
)
LIMITS = (
    "The guarantee is for {records} a {unit} and for this release alone; what other releases of the "
    "data set cost adds up in the ledger. It doesn't cover {chosen} made by "
    "looking at the records."
)
SERIES_LIMITS = (
    "The guarantee is for {records} a {unit} in each release and for this series alone; what other releases of the "
    "data set cost adds up in the ledger. It doesn't cover {chosen} made by looking at the records."
)
BEYOND_THE_FILES = (
    " It is about what the release's files say: not about what else can be seen of the machines and people that hold "
    "the records, such as durations, memory and logs, and not about what is published of the same records without this "
    "ledger."
)
UNNAMED = (
    " {Unit}s are told apart by their ids alone: a record without an id counts as a {unit} of its own, and so does "
    "each other id that a {unit} bears."
)
LOOKED = (
    " Before this release was charged, {looks} at this data set's records, the last on {day}: parameters may "
    "have been chosen after private inspection, which the guarantee doesn't cover."
)
OWN_RATES = (
    " Each sampled record was kept by a coin of its own, so that it is included at the rate that it names itself, of "
    "rates that were declared beforehand; none is above the sampling rate."
)
FILTER_BUDGET = (
    "The data set has a filter budget: all its releases together, each of which may be chosen after seeing the earlier "
    "ones, keep epsilon = {epsilon} and delta = {delta} for {unit}. {payer} took {share} of it, by its divergence of "
    "order {order}, which was fixed with the budget before the first release."
)
GROUP_THEOREM = "carried over to several records of a person by group privacy, proved in docs/proofs"


def theorem_of(charge: ReleaseCharged, context: DatasetContext) -> str:
    """Where the price's theorem is proved; a rule for several records names the one for a single record after a +."""
    theorems = kind_of_record(dict(context.registered or charge.mechanism).get("kind")).theorems
    group, plus, inner = charge.price.rule.rpartition("+")
    proved = theorems.get(inner, inner)
    return f"{proved}; {GROUP_THEOREM} ({group})" if plus else proved


def records_statement(context: DatasetContext) -> str:
    """The most records of a person, as a noun."""
    count = context.rows_per_person
    return "one record" if count == 1 else f"{count} records"


def unit_statement(charge: ReleaseCharged, context: DatasetContext) -> str:
    """Whose presence the release hides, and with how many records."""
    return f"one {enforced_unit(charge.sampler_layout) or 'person'}, at most {records_statement(context)}"


def has_own_rates(sampler_layout: object) -> bool:
    """Whether sampled records were kept at rates that they name themselves, by a sampler's layout."""
    return "-inclusion/" in str(sampler_layout)


def guarantee_statement(charge: ReleaseCharged, context: DatasetContext) -> str:
    """The guarantee and what was done for it.

    Args:
        charge: the release's charge, as the ledger has it.
        context: what the ledger said of the data set at the charge.
    """
    return f"{_guaranteed(charge, context)}{OWN_RATES if has_own_rates(charge.sampler_layout) else ''}"


def _guaranteed(charge: ReleaseCharged, context: DatasetContext) -> str:
    enforced, each = enforced_unit(charge.sampler_layout), "" if charge.series is None else " in each release"
    if enforced is not None:
        counted = f"of which at most {context.rows_per_person} counted{each}"
        unit = f"all records that name any one {enforced}, {counted},"
    elif context.rows_per_person == 1:
        unit = "any one person's record" if charge.series is None else "any one person's records"
    else:
        unit = f"all of any one person's records, at most {context.rows_per_person}{each},"
    mechanism = mechanism_of_record(dict(charge.mechanism))
    kind = kind_of(mechanism)
    if charge.series is not None:
        fixed = FIXED if context.registered is None else FREE_COLUMNS
        if dict(context.registered or ()).get("kind") == MIXED:
            return f"{_mixed_guarantee(charge, unit)}{kind.statements.done(mechanism)}"
        whole = SERIES_GUARANTEE.format(unit=unit, releases=charge.price.releases, fixed=fixed)
        return f"{whole}{kind.statements.series or ''}"
    template = VALUES_GUARANTEE if charge.price.relation == REPLACEMENT else GUARANTEE
    if kind.survey_rate is not None:
        template = SURVEY_GUARANTEE
    # What is proved besides is of records that are counted whoever else is there; where a column limits them, another
    # record of the unit is counted in the place of one that is missing.
    alone = context.rows_per_person == 1 and enforced is None
    proved = kind.statements.proved(mechanism, charge.price.rule) if alone else ""
    return f"{template.format(unit=unit)}{kind.statements.done(mechanism)}{proved and ' '}{proved}"


def filter_statement(charge: ReleaseCharged, context: DatasetContext) -> str:
    """What a filter budget promises, and the share of it that a release or its series took; "" for an additive one."""
    added, taken = context.filter_budget, context.filter_charge
    if added is None or taken is None:
        return ""
    from ..filter_budget import share_of  # numerics that other certificates do without

    return FILTER_BUDGET.format(
        epsilon=amount_exact(added.epsilon),
        delta=amount_exact(added.delta),
        unit=f"{unit_statement(charge, context)}{_shared_unit(context)}",
        order=f"{taken.order:f}",
        payer="This release" if charge.series is None else f"The series '{charge.series.name}' as a whole",
        share=share_shown(share_of(taken, added.accounting)),
    )


def _shared_unit(context: DatasetContext) -> str:
    """Why all releases of the data set hide one unit, after the unit."""
    if context.unit is None:
        return ", provided that all of them hide this unit"
    return "" if context.unit.column is None else f", told by the column {context.unit.column!r} in all of them"


def _mixed_guarantee(charge: ReleaseCharged, unit: str) -> str:
    return SERIES_GUARANTEE.format(unit=unit, releases=charge.price.releases, fixed=MIXED_SERIES)


def limit_statements(charge: ReleaseCharged, context: DatasetContext) -> str:
    """What the guarantee doesn't cover; arguments as of `guarantee_statement`."""
    chosen = kind_of_record(dict(charge.mechanism).get("kind")).statements.chosen
    words = LIMITS if charge.series is None else SERIES_LIMITS
    few = records_statement(context)
    unit = enforced_unit(charge.sampler_layout)
    limits = words.format(
        records=few if context.rows_per_person == 1 else f"at most {few}", unit=unit or "person", chosen=chosen
    )
    limits += BEYOND_THE_FILES
    if unit is not None:
        limits += UNNAMED.format(Unit=unit.capitalize(), unit=unit)
    days = context.look_days
    if not days:
        return limits
    looks = "1 private look was recorded" if len(days) == 1 else f"{len(days)} private looks were recorded"
    return limits + LOOKED.format(looks=looks, day=max(days).isoformat())
