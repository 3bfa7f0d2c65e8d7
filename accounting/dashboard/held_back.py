"""How new a state of the ledger pages may show: who watches entries appear could time a release."""

from __future__ import annotations

import threading
import time

from ..ledger.append import Place

__all__ = ["HeldBack"]


class HeldBack:
    """Lets pages see the head as it was when the present interval began.

    PRIVACY: how long a release reads follows its input. Entries that appear at the ends of intervals alone tell no
    more of that than which interval it ended in.

    Args:
        minutes: the interval's length; 0 to show the ledger as it is.
    """

    def __init__(self, *, minutes: float) -> None:
        self._seconds = 60.0 * minutes
        self._lock = threading.Lock()
        self._place: Place | None = None
        self._until = 0.0

    def head(self, now: Place) -> Place:
        """The last entry that pages may show.

        Args:
            now: the ledger's head.
        """
        if not self._seconds:
            return now
        with self._lock:
            clock = time.time()
            if self._place is None or clock >= self._until or now.position < self._place.position:
                self._place = now
                self._until = (clock // self._seconds + 1) * self._seconds
            return self._place
