"""Every command by its name, each loaded from its module when it is asked for; the top level's sections."""

from __future__ import annotations

import importlib

import click

OTHERS = "Of other distributions"
SECTIONS = {
    "Begin": {
        "demo": "crowdblend.deploy.commands.release_commands:demo",
        "studio": "crowdblend.deploy.commands.studio_command:studio",
        "doctor": "crowdblend.deploy.commands.doctor:doctor",
    },
    "Plan a release": {
        "spec": "crowdblend.deploy.commands.spec_commands:spec",
        "hierarchy": "crowdblend.deploy.commands.hierarchy:hierarchy",
        "plan": "crowdblend.deploy.commands.plan_commands:plan",
        "explain": "crowdblend.deploy.commands.plan_commands:explain",
        "approve": "crowdblend.deploy.commands.plan_commands:approve",
        "preview": "crowdblend.deploy.commands.document_commands:preview",
        "schema": "crowdblend.deploy.commands.spec_commands:schema",
    },
    "Publish": {
        "run": "crowdblend.deploy.commands.release_commands:run",
        "submit": "crowdblend.deploy.commands.jobs:submit",
        "status": "crowdblend.deploy.commands.jobs:status",
        "cancel": "crowdblend.deploy.commands.jobs:cancel",
        "release": "crowdblend.deploy.commands.release_commands:release",
        "serve": "crowdblend.deploy.commands.series:serve",
        "abandon": "crowdblend.deploy.commands.release_commands:abandon",
        "answer": "crowdblend.deploy.commands.request_commands:answer",
    },
    "Budgets and what was spent": {
        "dataset": "crowdblend.deploy.commands.ledger_commands:dataset",
        "series": "crowdblend.deploy.commands.series:series",
        "ledger": "crowdblend.deploy.commands.ledger_commands:ledger",
    },
    "Published releases": {
        "verify": "crowdblend.deploy.commands.release_commands:verify",
        "sheet": "crowdblend.deploy.commands.document_commands:sheet",
        "registry": "crowdblend.deploy.commands.document_commands:registry",
        "report": "crowdblend.deploy.commands.document_commands:report",
        "request": "crowdblend.deploy.commands.request_commands:request",
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

MAY_CHARGE = frozenset({"answer", "demo", "run", "serve", "series", "submit"})
"""Commands that may have charged something before they broke off."""

LOOKS = {
    **dict.fromkeys(
        ("abandon", "answer", "cancel", "release", "run", "serve", "submit"),
        "`crowdblend ledger show`, or `crowdblend status` with the release's id",
    ),
    "dataset": "`crowdblend dataset list`",
    "key": "`crowdblend key show`",
    "ledger": "`crowdblend ledger show`",
    "series": "`crowdblend series list`",
    "token": "`crowdblend token list`",
}
"""Command that changes what is kept → the commands that show it."""


def sections() -> dict[str, tuple[str, ...]]:
    """Return the names of all commands by the sections of the help, those of other distributions in the last."""
    from ...accounting.extensions import names_of

    added = tuple(name for name in names_of("commands") if name not in COMMANDS)
    return {title: tuple(section) for title, section in SECTIONS.items()} | ({OTHERS: added} if added else {})


def load_command(name: str) -> click.Command | None:
    """Return the command of a name, ours or one that another distribution adds; None where there is none.

    Raises:
        InputRefused: what a distribution adds is no command, or can't be loaded.
    """
    if name not in COMMANDS:
        from ...accounting.extensions import load

        added = load("commands", name)
        if added is not None and not isinstance(added, click.Command):
            from ...mechanisms.kernel.errors import InputRefused

            raise InputRefused(f"what a distribution adds as {name!r} is no command.", where="crowdblend.commands")
        return added
    module, _, function = COMMANDS[name].partition(":")
    command: click.Command = getattr(importlib.import_module(module), function)
    return command
