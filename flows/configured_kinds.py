"""Switch on the kinds of mechanisms that `crowdblend.toml` names, from other distributions."""

from __future__ import annotations

from pathlib import Path

from .paths import settings_file


def switch_on_configured_kinds() -> None:
    """Let the kinds that the nearest `crowdblend.toml` names price, protect and be released in this process.

    Nothing is looked for where it names none: the scan of all installed distributions is paid by those who use it.

    Raises:
        InputRefused: the settings can't be used, or a kind isn't installed, can't be loaded or can't be added.
    """
    settings = settings_file(Path.cwd())
    if settings is not None and settings.kinds:
        from ..accounting.extensions import switch_on
        from .releases.release_kind import add_release_kind

        for module in switch_on(settings.kinds):
            add_release_kind(module)
