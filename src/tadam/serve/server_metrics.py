"""Counters of a server in Prometheus's text format."""

import threading
from bisect import bisect_left

from tadam.serve.prediction_queue import PhotoQueue

#: Upper ends of the buckets, in seconds.
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class ServerMetrics:
    """Requests by method, route and status, how long they took, and photos."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: dict[tuple[str, str, int], int] = {}
        self._buckets = [0] * (len(_BUCKETS) + 1)
        self._seconds = 0.0

    def note(self, method: str, route: str, status: int, seconds: float) -> None:
        """ListLengths one request; `route` has names for ids, so that there are few of them."""
        with self._lock:
            key = (method, route, status)
            self._requests[key] = self._requests.get(key, 0) + 1
            self._buckets[bisect_left(_BUCKETS, seconds)] += 1
            self._seconds += seconds

    def text(self, gauges: dict[str, tuple[str, float]]) -> str:
        """All counters, and numbers that are known now: name -> (help, value)."""
        with self._lock:
            requests, buckets = dict(self._requests), list(self._buckets)
            seconds = self._seconds
        lines = ["# HELP tadam_requests_total Requests.", "# TYPE tadam_requests_total counter"]
        for (method, route, status), count in sorted(requests.items()):
            labels = f'method="{method}",route="{route}",status="{status}"'
            lines.append(f"tadam_requests_total{{{labels}}} {count}")
        name = "tadam_request_seconds"
        lines += [f"# HELP {name} Time to answer.", f"# TYPE {name} histogram"]
        total = 0
        for end, count in zip((*_BUCKETS, "+Inf"), buckets, strict=True):
            total += count
            lines.append(f'{name}_bucket{{le="{end}"}} {total}')
        lines += [f"{name}_sum {seconds:.6f}", f"{name}_count {total}"]
        for gauge, (meaning, value) in gauges.items():
            kind = "counter" if gauge.endswith("_total") else "gauge"
            lines += [f"# HELP {gauge} {meaning}", f"# TYPE {gauge} {kind}", f"{gauge} {value:g}"]
        return "\n".join(lines) + "\n"


def queue_gauges(queue: PhotoQueue) -> dict[str, tuple[str, float]]:
    """What is known of a queue now."""
    return {
        "tadam_queue_length": ("Photos that wait for an answer.", queue.length),
        "tadam_batches_total": ("Batches of photos.", queue.batches),
        "tadam_photos_total": ("Photos that were embedded.", queue.photos),
    }
