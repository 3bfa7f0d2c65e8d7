"""What the operator sees of the dashboard itself: counters for Prometheus, and a log without personal data."""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

__all__ = ["Observer", "to_standard_error"]

BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class Observer:
    """Counts requests and writes one line for each.

    PRIVACY: neither address, name, path, question nor token is written: the route's pattern alone.

    Args:
        write: takes each line.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._within: Counter[float] = Counter()
        self._seconds = 0.0

    def request(self, *, route: str, method: str, status: int, seconds: float, size: int) -> None:
        """Take note of an answered request."""
        with self._lock:
            self._requests[route, status] += 1
            self._seconds += seconds
            for bucket in BUCKETS:
                self._within[bucket] += seconds <= bucket
        self.event("request", route=route, method=method, status=status, ms=round(1000 * seconds, 1), bytes=size)

    def event(self, name: str, **facts: str | int | float | None) -> None:
        """Write one line of the log."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._write(json.dumps({"time": now, "event": name, **facts}))

    def metrics(self, facts: Mapping[str, float]) -> str:
        """Everything counted, and public facts of the ledger, in Prometheus' text format."""
        lines = []
        for name, value in facts.items():
            lines += [f"# TYPE crowdblend_{name} gauge", f"crowdblend_{name} {value:g}"]
        with self._lock:
            lines.append("# TYPE crowdblend_dashboard_requests_total counter")
            lines += [
                f'crowdblend_dashboard_requests_total{{route="{route}",status="{status}"}} {times}'
                for (route, status), times in sorted(self._requests.items())
            ]
            total = self._requests.total()
            lines.append("# TYPE crowdblend_dashboard_request_seconds histogram")
            lines += [
                f'crowdblend_dashboard_request_seconds_bucket{{le="{bucket:g}"}} {self._within[bucket]}'
                for bucket in BUCKETS
            ]
            lines += [
                f'crowdblend_dashboard_request_seconds_bucket{{le="+Inf"}} {total}',
                f"crowdblend_dashboard_request_seconds_sum {self._seconds:.6f}",
                f"crowdblend_dashboard_request_seconds_count {total}",
            ]
        return "\n".join(lines) + "\n"


def to_standard_error(line: str) -> None:
    """Write a line to standard error, in one piece."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
