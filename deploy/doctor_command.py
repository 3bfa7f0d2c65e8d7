"""`crowdblend doctor`: whether releases can run here, by looking alone."""

from __future__ import annotations

import dataclasses
import json

import click

from .options import AS_JSON, LEDGER

__all__ = ["doctor"]


@click.command()
@LEDGER
@AS_JSON
def doctor(ledger_url: str | None, as_json: bool) -> int:
    """Check the installation, permissions, keys, ledger, anchor, Prefect, Dask and the clock; nothing is changed.

    Each line says ok, or what is wrong and what to do. Leaves with 1 where anything is wrong.
    """
    from .doctor_checks import doctor_checks

    checks = doctor_checks(ledger_url=ledger_url)
    ok = all(check.ok for check in checks)
    if as_json:
        listed = [dataclasses.asdict(check) for check in checks]
        click.echo(json.dumps({"ok": ok, "checks": listed}, ensure_ascii=False))
        return 0 if ok else 1
    for check in checks:
        click.echo(f"{'ok   ' if check.ok else 'wrong'}  {check.name}: {check.what}")
        if check.remedy:
            click.echo(f"       {check.remedy}")
    return 0 if ok else 1
