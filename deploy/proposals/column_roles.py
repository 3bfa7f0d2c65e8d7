"""What a column seems to be, by its name and its type alone: an identifier, a free text, a weight, an age, a code."""

from __future__ import annotations

import re
from typing import Literal

from ...tasks.readers.file_formats import ColumnKind

Role = Literal["person", "household", "identifier", "contact", "place", "free text", "weight", "age", "code", "other"]

NOT_RELEASED: dict[Role, str] = {
    "person": "It seems to name persons, so it isn't released: [data] asks about it.",
    "household": "It seems to name households, so it isn't released: [data] asks about it.",
    "identifier": "It seems to be an identifier, which names single records: it isn't released.",
    "contact": "It seems to be a name, an address or a number by which people are reached: it isn't released.",
    "place": "It seems to be an exact place, where few people live: it isn't released. Regions can be.",
    "free text": "It seems to be a free text, in which anything may stand: it isn't released.",
    "weight": "It seems to be a survey weight, which is no value of a person: it isn't released. [data] asks about it.",
}
"""Why a column of a role is left out of a proposal."""

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_PART = re.compile(r"[^\W\d_]+|[0-9]+")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Whole names, with nothing between their parts; a number behind them is passed over.
_WHOLE: dict[Role, frozenset[str]] = {
    "household": _words(
        "household householdid hhid hhno hhnr familyid famid serialno haushalt haushaltid menage idmenage"
    ),
    "person": _words(
        "person personid pid personno pnr personnr patient patientid subject subjectid subjid participantid "
        "respondentid respid memberid customerid studentid employeeid caseid idpersonne"
    ),
    "weight": _words(
        "weight weights wgt wt pwgtp wgtp pwgt fnlwgt finalweight finalwgt finalwt perwt hhwt hhwgt pweight hweight "
        "personweight samplingweight designweight surveyweight baseweight repwt repwtp gewicht poids pond"
    ),
    "age": _words("age agep ageyears ageinyears alter"),
    "contact": _words(
        "name fullname firstname lastname surname forename givenname familyname middlename maidenname nickname "
        "vorname nachname nom prenom username login email mail emailaddress courriel phone phoneno phonenumber "
        "telephone telefon tel mobile mobilephone cell fax address street streetaddress adresse strasse rue ip "
        "ipaddress url website"
    ),
    "identifier": _words(
        "id ids uid uuid guid rowid recordid recid index serial serialnumber ssn nin sin nhs nhsnumber nir ahv bsn "
        "cpf passport passportno licence license licenceplate licenseplate iban account accountno accountnumber "
        "cardnumber creditcard mrn hash token key imei mac deviceid"
    ),
    "place": _words("latitude longitude lat lon lng long gps coordinates geolocation geohash"),
    "free text": _words(
        "comment comments remark remarks note notes memo text freetext description narrative message feedback "
        "bemerkung kommentar commentaire"
    ),
    "code": _words(
        "puma zip zipcode postcode postalcode plz nace naics indp ind industry isco soc occp occupation occ icd icd9 "
        "icd10 diagnosis nuts nuts3 fips cpv atc hs cip tract county"
    ),
}

# Parts of a name that decide it wherever they stand.
_PARTS: dict[Role, frozenset[str]] = {
    "contact": _words(
        "email mail phone telephone telefon fax firstname lastname surname forename vorname nachname prenom"
    ),
    "identifier": _words("id uuid guid ssn passport iban"),
    "place": _words("latitude longitude gps geohash"),
    "free text": _words("comment comments remark remarks freetext narrative memo"),
    "weight": _words("wgt fnlwgt wgtp pwgtp"),
    "age": _words("age"),
    "code": _words("puma zip zipcode postcode plz nace naics isco icd nuts fips indp"),
}
_NUMBERED = _words("no nr num number")
_PERSONS = _words("person patient subject participant respondent member customer client student employee pupil")
_HOUSEHOLDS = _words("household family hh haushalt menage")
_TEXTS: frozenset[ColumnKind] = frozenset(["text", "unknown"])
_NUMBERS: frozenset[ColumnKind] = frozenset(["integer", "number", "unknown"])

SEX = _words("sex gender geschlecht sexe")
LINE = _words(
    "line lineno linenr linenumber sporder pernum personno personnr pnr membernumber memberno membernr hhmember ordnum"
)
"""Whole names of columns that number the members of a household."""
WAVE = _words("wave year quarter month round period welle jahr quartal vague annee trimestre surveyyear syear")
"""Whole names of columns that name the waves of a panel."""
REGION = _words("region state province county district puma nuts canton kanton bundesland departement municipality")


def parts_of_name(name: str) -> tuple[str, ...]:
    """Return a name's words and numbers in lower case: `homePhone_2` is home, phone, 2."""
    return tuple(part.lower() for part in _PART.findall(_CAMEL.sub(" ", name)))


def column_role(name: str, kind: ColumnKind) -> Role:
    """Return what a column seems to be.

    A role that keeps a column out of a proposal is preferred to one that doesn't: who knows better says so.
    """
    parts = parts_of_name(name)
    words = [part for part in parts if not part.isdigit()]
    whole = "".join(words)
    if "id" in words or {*words[1:][-1:]} & _NUMBERED:  # "number of persons" numbers nobody
        if _PERSONS & {*words}:
            return "person"
        if _HOUSEHOLDS & {*words}:
            return "household"
    for table in (_WHOLE, _PARTS):
        for role, names in table.items():
            found = whole in names or "".join(parts) in names if table is _WHOLE else bool(names & {*words})
            if found and _fits(role, kind):
                return role
    return "other"


def _fits(role: Role, kind: ColumnKind) -> bool:
    """Return whether a column of a kind can have a role."""
    match role:
        case "free text":
            return kind in _TEXTS
        case "weight" | "age" | "place":
            return kind in _NUMBERS
        case "contact":
            return kind not in ("boolean", "date")
        case "identifier" | "person" | "household":
            return kind not in ("boolean", "date", "number")
        case _:
            return kind not in ("boolean", "date", "unmapped")


def may_be_pinned(name: str, role: Role) -> bool:
    """Return whether a column is one by which most questions are asked: age, sex or region."""
    return role == "age" or bool({*parts_of_name(name)} & (SEX | REGION))
