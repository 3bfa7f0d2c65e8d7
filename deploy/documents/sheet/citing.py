"""How a release is cited: in a sentence, and for BibTeX."""

from __future__ import annotations

import re

from .facts import SheetFacts

SPECIAL = re.compile(r"([&%$#_{}])")


def citation(facts: SheetFacts, *, publisher: str | None) -> str:
    """Return one sentence that names the release so that it can be told from any other."""
    certificate = facts.certificate
    who = f"{publisher.rstrip('.')}. " if publisher else ""
    return (
        f"{who}{certificate['name']} [data set]. Release {certificate['release_id']}, {certificate['day']}, made with "
        f"crowdblend {certificate['code_version']}; (ε, δ) = ({certificate['guarantee']['epsilon']}, "
        f"{certificate['guarantee']['delta']}); SHA-256 of {facts.digests}."
    )


def bibtex(facts: SheetFacts, *, publisher: str | None) -> str:
    """Return the citation for BibTeX."""
    certificate = facts.certificate
    year, month, day = certificate["day"].split("-")
    key = re.sub(r"[^A-Za-z0-9]+", "-", certificate["release_id"]).strip("-")
    note = (
        f"Release {certificate['release_id']}; crowdblend {certificate['code_version']}; "
        f"epsilon = {certificate['guarantee']['epsilon']}, delta = {certificate['guarantee']['delta']}; "
        f"SHA-256 of {facts.digests}"
    )
    fields = [("title", f"{{{_escaped(certificate['name'])}}}")]
    if publisher:
        fields.append(("author", f"{{{_escaped(publisher)}}}"))
    fields += [("year", year), ("month", month.lstrip("0")), ("day", day.lstrip("0")), ("note", _escaped(note))]
    lines = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields)
    return f"@misc{{{key},\n{lines}\n}}\n"


def _escaped(text: str) -> str:
    return SPECIAL.sub(r"\\\1", text)
