"""Reports of a failed release beside the terminal: a command, or a web address."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import urllib.error
import urllib.request
from dataclasses import asdict, dataclass, field

from ...mechanisms.kernel.errors import InputRefused

_WITHIN_SECONDS = 30
_OPERATORS = frozenset("();<>|&")


@dataclass(frozen=True, kw_only=True, slots=True)
class FailureFacts:
    """What a hook gets: public facts alone.

    PRIVACY: no message, no path and no text of an exception; of a failure only its class.

    Args:
        release_id: the release; empty where it is no release that failed.
        dataset: the data set's name.
        series: the series' name.
        exit_code: 1 failed, 2 wrong specification or source, 3 refused by the accountant.
        cause: class of the cause, such as "source-missing" or "series-changed".
    """

    release_id: str
    dataset: str
    series: str
    exit_code: int
    cause: str


@dataclass(frozen=True, kw_only=True, slots=True)
class FailureHook:
    """A command that is started, or a web address that is sent a JSON object.

    PRIVACY: an address may have a token in it, so neither is ever shown.

    Args:
        argv: the command and its arguments, or the one address.
        shown: what it is called.
    """

    argv: tuple[str, ...] = field(repr=False)
    shown: str

    def tell(self, facts: FailureFacts) -> str | None:
        """Tell of a failure; None, or why that did not succeed.

        A command gets the facts as JSON on its standard input and as CROWDBLEND_FAILED_… in its environment.

        Args:
            facts: what failed.
        """
        reported = {name: str(value) for name, value in asdict(facts).items()} | {"exit_code": facts.exit_code}
        body = json.dumps(reported, ensure_ascii=False).encode()
        try:
            if self.shown == "command":
                return self._started(
                    body, {f"CROWDBLEND_FAILED_{name.upper()}": str(reported[name]) for name in reported}
                )
            return self._sent(body)
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            return f"the {self.shown} of --on-failure failed ({type(error).__name__})"

    def _started(self, body: bytes, environment: dict[str, str]) -> str | None:
        done = subprocess.run(  # noqa: S603 - the steward's own command, and no shell is involved
            self.argv,
            input=body,
            env=os.environ | environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_WITHIN_SECONDS,
            check=False,
        )
        return f"the command of --on-failure ended with {done.returncode}" if done.returncode else None

    def _sent(self, body: bytes) -> str | None:
        request = urllib.request.Request(  # noqa: S310 - http or https, by `hook_of`
            self.argv[0], data=body, headers={"Content-Type": "application/json"}, method="POST"
        )
        try:
            with urllib.request.urlopen(request, timeout=_WITHIN_SECONDS):  # noqa: S310
                return None
        except urllib.error.HTTPError as error:
            return f"the webhook of --on-failure answered {error.code}"


def hook_of(text: str | None) -> FailureHook | None:
    """The hook that an option names; None for none.

    Args:
        text: a web address (http:// or https://), or a command with its arguments, split by a shell's rules of quoting.
            It is started without a shell, so an operator of a shell's would be a mere argument.

    Raises:
        InputRefused: a command that can't be split, has such an operator, or whose program isn't there.
    """
    if text is None:
        return None
    if text.startswith(("http://", "https://")):
        return FailureHook(argv=(text,), shown="webhook")
    try:
        argv = tuple(shlex.split(text))
        operator = _shell_operator(text)
    except ValueError:
        argv, operator = (), None
    if operator is not None:
        raise InputRefused(
            f"the command is started without a shell, so {operator!r} would be an argument.",
            where="--on-failure",
            remedy="Put the line into a script, or write: sh -c '…'",
        )
    if not argv or shutil.which(argv[0]) is None:
        raise InputRefused(
            "the command's program isn't there or may not be run.",
            where="--on-failure",
            remedy="Name a program with its arguments, or an address that begins with https://.",
        )
    return FailureHook(argv=argv, shown="command")


def _shell_operator(text: str) -> str | None:
    """The first operator that a shell would find in a command; None where there is none.

    Raises:
        ValueError: the command can't be split.
    """
    words = shlex.shlex(text, posix=True, punctuation_chars=True)
    words.commenters = ""
    return next((word for word in words if word and _OPERATORS.issuperset(word)), None)
