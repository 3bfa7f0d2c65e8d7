"""Every command by its name, each loaded from its module when it is asked for; the top level's sections."""

from __future__ import annotations

import importlib

import click

SECTIONS = {
    "Begin": {
        "demo": "crowdblend.deploy.commands.release:demo",
        "doctor": "crowdblend.deploy.commands.doctor:doctor",
    },
    "Plan a release": {
        "spec": "crowdblend.deploy.commands.spec:spec",
        "hierarchy": "crowdblend.deploy.commands.hierarchy:hierarchy",
        "plan": "crowdblend.deploy.commands.plan:plan",
        "explain": "crowdblend.deploy.commands.plan:explain",
        "preview": "crowdblend.deploy.commands.documents:preview",
        "schema": "crowdblend.deploy.commands.spec:schema",
    },
    "Publish": {
        "run": "crowdblend.deploy.commands.release:run",
        "submit": "crowdblend.deploy.commands.jobs:submit",
        "status": "crowdblend.deploy.commands.jobs:status",
        "cancel": "crowdblend.deploy.commands.jobs:cancel",
        "release": "crowdblend.deploy.commands.release:release",
        "serve": "crowdblend.deploy.commands.series:serve",
        "abandon": "crowdblend.deploy.commands.release:abandon",
    },
    "Budgets and what was spent": {
        "dataset": "crowdblend.deploy.commands.ledger:dataset",
        "series": "crowdblend.deploy.commands.series:series",
        "ledger": "crowdblend.deploy.commands.ledger:ledger",
    },
    "Published releases": {
        "verify": "crowdblend.deploy.commands.release:verify",
        "sheet": "crowdblend.deploy.commands.documents:sheet",
        "registry": "crowdblend.deploy.commands.documents:registry",
        "report": "crowdblend.deploy.commands.documents:report",
    },
    "Keys and auditors": {
        "key": "crowdblend.deploy.commands.auditors:key",
        "token": "crowdblend.deploy.commands.auditors:token",
        "dashboard": "crowdblend.deploy.commands.auditors:dashboard",
        "witness": "crowdblend.deploy.commands.auditors:witness",
    },
}
"""Title of a section of `--help` → name of a command → its `module:function`, as an entry point has it."""

COMMANDS = {name: place for section in SECTIONS.values() for name, place in section.items()}
"""Name of a command → its `module:function`."""

MAY_CHARGE = frozenset({"demo", "run", "serve", "series", "submit"})
"""Commands that may have charged something before they broke off."""


def load_command(name: str) -> click.Command | None:
    """Return the command of a name, imported from its module; None where there is none."""
    if name not in COMMANDS:
        return None
    module, _, function = COMMANDS[name].partition(":")
    command: click.Command = getattr(importlib.import_module(module), function)
    return command
