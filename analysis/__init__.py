"""The researcher's kit: what a published release says of its records, with intervals.

It needs a release's folder and nothing else.

>>> from crowdblend.analysis import load
>>> release = load("out/my-survey-2026")            # doctest: +SKIP
>>> release.count({"sex": "Female", "age": range(20, 40)})  # doctest: +SKIP
"""

from .completed_copies import CompletedCopies, rubin
from .figures import Figure
from .loaded_answer import LoadedAnswer, load_answer
from .loaded_release import LoadedRelease, load

__all__ = ["CompletedCopies", "Figure", "LoadedAnswer", "LoadedRelease", "load", "load_answer", "rubin"]
