"""The certificate of a release: what was done, what it guarantees and omits, what the files hash to, who says it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...mechanisms.generalization_map import GeneralizationMap
from ...mechanisms.kernel.amounts import amount_exact
from ...mechanisms.kernel.mechanism import REPLACEMENT, Mechanism
from ...mechanisms.map_selection.choice import MapChoice
from ...mechanisms.wording import share_shown
from ..descriptions.description_registry import description_of, description_of_record, has_parts
from ..given_files import open_given
from ..kernel.field_forms import Fields, amount_text
from ..kernel.keys.private_files import output_files
from ..kernel.keys.signing import ALGORITHM, SigningKey, canonical_bytes
from ..kernel.ledger.entries import Entry, FilterCharge, FilterDatasetAdded, ReleaseCharged
from ..kernel.ledger.ledger_state import enforced_unit
from ..kernel.prices.registry import kind_of, mechanism_of_record

if TYPE_CHECKING:
    from ...mechanisms.inclusion import InclusionColumn
    from ...mechanisms.unit_records import UnitRule
    from ..ledger.lookup import DatasetContext  # with the database's library, which a verification does without

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
    unit_rule: UnitRule | None = None,
    describe: Callable[[Mapping[str, Any]], None] | None = None,
) -> None:
    """Write `certificate.json` beside the files that it describes.

    PRIVACY: everything here is public before the records are read, or a function of the published files, or a
    signature over that, which the key and the signed bytes determine.

    The folder holds the complete release but for it. `chain_hash` is the chain's at the charge's `position`, and
    `choice` how the map was drawn, None where it was fixed beforehand. `code_sources` is the SHA-256 (hex) of the
    software's sources, by which an audit's report names them too. No more records of a person than the price covers
    count by the column `enforced_by`; None where it is believed that nobody has more. `inclusion` is the column of
    rates by which sampled records were kept, and `unit_rule` that by which each unit's records made one. `describe`
    writes more files from the fields but the files' digests.
    """
    days, place = context.look_days, charge.series
    series: dict[str, Any] | None = None
    if place is not None:
        series = {"name": place.name, "number": place.number, "releases": charge.price.releases}
        if context.registered is not None:
            series |= registered_fields(context.registered, number=place.number)
    certificate: dict[str, Any] = {
        "format": FORMAT,
        **charged_fields(charge),
        "code_sources": code_sources,
        "series": series,
        "guarantee": {
            **charged_guarantee(charge),
            "theorem": theorem_of(charge, context),
            "unit": unit_statement(charge.sampler_layout, context.rows_per_person),
            "rows_per_person": context.rows_per_person,
            "in_words": guarantee_statement(charge, context),
            "limits": limit_statements(charge, context),
        },
        "private_looks": {"count": len(days), "last_day": max(days).isoformat() if days else None},
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
    if unit_rule is not None:
        certificate["unit_records"] = unit_rule.facts()
    if describe is not None:
        describe(certificate)
    # Last but for the signature: `describe` has just written files (the card of a data set) that are hashed here too.
    certificate["files"] = {name: sha256_of_file(path) for name, path in output_files(folder).items()}
    certificate["signature"]["value"] = key.sign(domain=DOMAIN, message=signed_bytes(certificate)).hex()
    (folder / "certificate.json").write_bytes(certificate_bytes(certificate))


def charged_fields(charge: ReleaseCharged) -> dict[str, Any]:
    """Return what a certificate repeats of its charge."""
    return {
        "release_id": charge.release_id,
        "name": charge.label,
        "dataset": charge.dataset,
        "day": charge.day.isoformat(),
        "mechanism": dict(charge.mechanism),
        "sampler_layout": charge.sampler_layout,
        "sample_id": charge.sample_id,
        "code_version": charge.code_version,
    }


def charged_guarantee(charge: ReleaseCharged) -> dict[str, Any]:
    """Return what a certificate's guarantee repeats of its charge."""
    return {
        "epsilon": amount_text(charge.price.epsilon),
        "delta": amount_text(charge.price.delta),
        "rule": charge.price.rule,
        "epsilon_paper": None if charge.epsilon_paper is None else amount_text(charge.epsilon_paper),
        "neighbours": charge.price.relation,
    }


def differing_from_charge(certificate: Mapping[str, Any], charge: Entry) -> list[str]:
    """Return the names of a certificate's fields that are other ones than its charge's; it may have any form."""
    if not isinstance(charge, ReleaseCharged):
        return ["ledger"]
    guarantee, series = (
        part if isinstance(part := certificate.get(name), Mapping) else {} for name in ("guarantee", "series")
    )
    place = None if charge.series is None else charge.series.name, charge.series and charge.series.number
    return [
        *(name for name, value in charged_fields(charge).items() if certificate.get(name) != value),
        *(f"guarantee.{name}" for name, value in charged_guarantee(charge).items() if guarantee.get(name) != value),
        *(["series"] if (series.get("name"), series.get("number")) != place else []),
    ]


ACCOUNTING_AMOUNTS = ("order", "tail_delta", "tail_each", "allowance")


def _filter_budget(charge: ReleaseCharged, context: DatasetContext) -> dict[str, Any]:
    """Return the certificate's part on a filter budget, with all that it is computed from; empty of an additive one."""
    filtered = _filtered(context)
    if filtered is None:
        return {}
    added, taken, share = filtered
    amounts = {name: getattr(added.accounting, name) for name in ACCOUNTING_AMOUNTS}
    amounts |= {"epsilon": added.epsilon, "delta": added.delta}
    used = {"divergence": taken.divergence, "tail": taken.tail, "share": share}
    return {
        "filter_budget": {
            "rule": added.accounting.rule,
            **{name: amount_text(amount) for name, amount in amounts.items()},
            "charge": {"rule": taken.rule, **{name: amount_text(amount) for name, amount in used.items()}},
            "in_words": filter_statement(charge, context),
        }
    }


def _filtered(context: DatasetContext) -> tuple[FilterDatasetAdded, FilterCharge, Decimal] | None:
    """Return a filter budget, what was taken of it, and which share of it that is; None of an additive budget."""
    added, taken = context.filter_budget, context.filter_charge
    if added is None or taken is None:
        return None
    from ..ledger.filter_accounting import share_of  # numerics that other certificates do without

    return added, taken, share_of(taken, added.accounting)


def certificate_bytes(certificate: Mapping[str, Any]) -> bytes:
    """Return the one form in which a certificate is written, for people to read; ValueError where UTF-8 has none."""
    return (json.dumps(certificate, ensure_ascii=False, indent=2, sort_keys=True) + "\n").encode("utf-8")


def signed_bytes(certificate: Mapping[str, Any]) -> bytes:
    """Return what is signed: all but the signature's value; ValueError where JSON can't hold a number."""
    signature = {name: part for name, part in certificate["signature"].items() if name != "value"}
    return canonical_bytes({**certificate, "signature": signature})


def sha256_of_file(path: Path) -> str:
    """Return the SHA-256 (hex) of a file."""
    with open_given(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def registered_fields(registered: Fields, *, number: int) -> dict[str, Any]:
    """Return what a certificate says of the mechanism by which a series with free columns was registered and priced.

    Where the series' mechanisms differ, that is also the part that a release's number is in. InputRefused where the
    mechanism can't be read, ValueError where no part has this number.
    """
    mechanism = mechanism_of_record(dict(registered))
    of_part = description_of(mechanism).part
    part = {} if of_part is None else {"part": of_part(mechanism, number).number}
    return {"registered": dict(registered), **part}


MOST_CARRIED = 1 << 23
"""Bytes of hierarchies that a certificate carries, in canonical form and over all columns.

Readers need them: without its hierarchy a column's counts can't be told apart, nor its levels be found again. The towns
of a country, a classification of diseases or a century of days in another form have one to four million bytes.
"""

CHOICE_IN_WORDS = {
    "permute-and-flip": "One of the candidates was drawn by permute-and-flip (McKenna and Sheldon, "
    "arXiv:2010.12603v1), which is epsilon-private at the epsilon given here.",
    "exponential": "One of the candidates was drawn by the exponential mechanism, which is epsilon-private at the "
    "epsilon given here.",
    "walk": "The map is the last draw of a walk whose steps are exponential mechanisms with equal shares of the "
    "epsilon given here.",
}
LARGEST_EXACT = (1 << 53) - 1


def certified_map(generalization: GeneralizationMap) -> dict[str, Any]:
    """Return a fixed map as a certificate has it."""
    return {"sha256": generalization.digest(), "columns": list(_columns(generalization))}


def map_fields(
    charge: ReleaseCharged, *, generalization: GeneralizationMap, choice: MapChoice | None
) -> dict[str, Any]:
    """Return the certificate's part about the map.

    PRIVACY: candidates, bounds, weights and draw are public before the records are read; the levels are the draw
    that is published. No quality of any map is here. The hierarchies are as they were declared, with the values that
    no record has, and nothing tells which those are.

    Hierarchies are carried whole, in the order of the columns, as long as all that are carried have no more than
    `MOST_CARRIED` bytes; one that doesn't fit is left out and named by its digest alone. So is one with a number that
    readers of JSON who know doubles alone, `jq` for one, would read as another: RFC 8259, section 6.
    A choice that the charge has not paid for is a ValueError.
    """
    fields = certified_map(generalization)
    if choice is None:
        return fields
    mechanism = charge.decoded_mechanism
    priced = priced_choice(mechanism)
    if priced is None:
        raise ValueError("the charge has paid for no choice of the map")
    stated, draws = priced
    if not pays_for(draws, choice.draw, choice.steps):
        raise ValueError("the charge has paid for another draw of the map")
    where = "all records" if stated["rate"] is None else "a fresh sample of the records that served nothing else"
    counted = kind_of(mechanism).sampling_rate(mechanism) is None
    read = "records were counted" if counted else "release's sample was read"
    drawn = "the map" if choice.lattice.stages == 1 else "the chain of maps"
    fields["selection"] = {
        **stated,
        "draw": choice.draw,
        "steps": choice.steps,
        "sample_id": dict(charge.samples).get("selection"),
        "maps": choice.lattice.size,
        "lattice": choice.lattice.description(),
        "lattice_sha256": charge.map_digest,
        "in_words": f"{CHOICE_IN_WORDS[choice.draw]} The draw was made on {where}, with coins of its own, before the "
        f"{read}; it is {drawn} that is published.",
    }
    return fields


def priced_choice(mechanism: Mechanism) -> tuple[dict[str, Any], int | None] | None:
    """Return what a certificate says of the choice of the map that a price is for, and for how many draws."""
    selection = kind_of(mechanism).selection
    if selection is None:
        return None
    epsilon, rate, threshold, quality, draws = selection(mechanism)
    stated = {"epsilon": str(epsilon), "rate": None if rate is None else str(rate)}
    return {**stated, "threshold": threshold, "quality": quality}, draws


def pays_for(draws: int | None, draw: str, steps: int | None) -> bool:
    """Return whether a mechanism that is priced for so many exponential draws, or for any private one, pays for one."""
    return draws is None or (draw != "permute-and-flip" and draws == (1 if steps is None else steps))


def _columns(generalization: GeneralizationMap) -> Iterator[dict[str, Any]]:
    left = MOST_CARRIED
    for column in generalization.columns:
        description: Mapping[str, Any] = column.hierarchy.description()
        raw_bytes = canonical_bytes(description)
        numbers = (*description.values(), *description.get("widths", ()))
        exact = all(abs(number) <= LARGEST_EXACT for number in numbers if type(number) is int)
        carried = len(raw_bytes) <= left and exact
        left -= len(raw_bytes) if carried else 0
        yield {
            "column": column.name,
            "level": column.level,
            "hierarchy_sha256": hashlib.sha256(raw_bytes).hexdigest(),
            "hierarchy": description if carried else None,
        }


GUARANTEE = (
    " sees {all}, whatever else they know{but}, has almost the same chance of seeing {it} had {unit} {otherwise}: "
    "every event's probability differs by a factor of at most e^epsilon, plus at most delta. "
)
IN_SERIES = "This is one release of a series, and the guarantee is for the whole series: whoever"
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
    "The guarantee is for {records} a {unit}{each} and for this {paid} alone; what other releases of the data set cost "
    "adds up in the ledger. It doesn't cover {chosen} made by looking at the records."
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
    """Return where the price's theorem is proved; a rule for several records names a single record's after a +."""
    theorems = description_of_record(dict(context.registered or charge.mechanism).get("kind")).theorems
    group, plus, inner = charge.price.rule.rpartition("+")
    proved = theorems.get(inner, inner)
    return f"{proved}; {GROUP_THEOREM} ({group})" if plus else proved


def _records(count: object) -> str:
    return "one record" if count == 1 else f"{count} records"


def unit_statement(sampler_layout: str, rows_per_person: object) -> str:
    """Return whose presence a release hides, and with how many records."""
    return f"one {enforced_unit(sampler_layout) or 'person'}, at most {_records(rows_per_person)}"


def has_own_rates(sampler_layout: object) -> bool:
    """Return whether sampled records were kept at rates that they name themselves, by a sampler's layout."""
    return "-inclusion/" in str(sampler_layout)


def makes_records(sampler_layout: object) -> bool:
    """Return whether all records of a unit made one record, by a sampler's layout."""
    return str(sampler_layout).startswith("aes-units-")


def guarantee_statement(charge: ReleaseCharged, context: DatasetContext) -> str:
    """Return the guarantee and what was done for it."""
    enforced, each = enforced_unit(charge.sampler_layout), "" if charge.series is None else " in each release"
    count = context.rows_per_person
    if enforced is not None and makes_records(charge.sampler_layout):
        unit = f"all records that name any one {enforced}, which together made one record{each},"
    elif enforced is not None:
        unit = f"all records that name any one {enforced}, of which at most {count} counted{each},"
    elif count == 1:
        unit = "any one person's record" if charge.series is None else "any one person's records"
    else:
        unit = f"all of any one person's records, at most {count}{each},"
    mechanism = charge.decoded_mechanism
    described = description_of(mechanism)
    done, rates = described.done(mechanism), OWN_RATES if has_own_rates(charge.sampler_layout) else ""
    if charge.series is not None:
        mixed = has_parts(dict(context.registered or ()).get("kind"))
        fixed = FIXED if context.registered is None else MIXED_SERIES if mixed else FREE_COLUMNS
        releases, absent = f"all its {charge.price.releases} releases", "been absent from all of them"
        whole = GUARANTEE.format(all=releases, but="", it="them", unit=unit, otherwise=absent)
        return f"{IN_SERIES}{whole}{fixed} {done if mixed else described.series or ''}{rates}"
    but, otherwise = "", "been absent"
    if kind_of(mechanism).survey_rate is not None:
        but, otherwise = " but who was sampled", "been absent from the population that was sampled"
    elif charge.price.relation == REPLACEMENT:
        # The price of several records is for as many with other values, and not for more or fewer of them.
        several = count > 1 and not makes_records(charge.sampler_layout)
        units = "people" if enforced in (None, "person") else f"{enforced}s"
        public = f"records of each {enforced or 'person'}" if several else units
        otherwise = f"had any other values, the number of {public} being public"
    alike = GUARANTEE.format(all="this release", but=but, it="it", unit=unit, otherwise=otherwise)
    # What is proved besides is of records that are counted whoever else is there; where a column limits them, another
    # record of the unit is counted in the place of one that is missing.
    proved = described.proved(mechanism, charge.price.rule) if count == 1 and enforced is None else ""
    return f"Whoever{alike}{done}{proved and ' '}{proved}{rates}"


def filter_statement(charge: ReleaseCharged, context: DatasetContext) -> str:
    """Return what a filter budget promises and which share of it a release or series took; "" for an additive one."""
    filtered = _filtered(context)
    if filtered is None:
        return ""
    added, taken, share = filtered
    unit = unit_statement(charge.sampler_layout, context.rows_per_person)
    if context.unit is None:
        unit += ", provided that all of them hide this unit"
    elif context.unit.column is not None:
        unit += f", told by the column {context.unit.column!r} in all of them"
    return FILTER_BUDGET.format(
        epsilon=amount_exact(added.epsilon),
        delta=amount_exact(added.delta),
        unit=unit,
        order=f"{taken.order:f}",
        payer="This release" if charge.series is None else f"The series '{charge.series.name}' as a whole",
        share=share_shown(share),
    )


def limit_statements(charge: ReleaseCharged, context: DatasetContext) -> str:
    """Return what the guarantee doesn't cover."""
    few, unit = _records(context.rows_per_person), enforced_unit(charge.sampler_layout)
    limits = LIMITS.format(
        records=few if context.rows_per_person == 1 else f"at most {few}",
        unit=unit or "person",
        each="" if charge.series is None else " in each release",
        paid="release" if charge.series is None else "series",
        chosen=description_of_record(dict(charge.mechanism).get("kind")).chosen,
    )
    limits += BEYOND_THE_FILES
    if unit is not None:
        limits += UNNAMED.format(Unit=unit.capitalize(), unit=unit)
    days = context.look_days
    if not days:
        return limits
    looks = "1 private look was recorded" if len(days) == 1 else f"{len(days)} private looks were recorded"
    return limits + LOOKED.format(looks=looks, day=max(days).isoformat())
