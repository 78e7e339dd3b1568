"""The HTTP service against a bare FastAPI handler that calls onnxruntime once for each request.

Both run as processes of their own and answer the same photos to the same clients, in turn.
"""

import http.client
import io
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
from PIL import Image

from tadam.benchmarks.results import TIMES, Measurement
from tadam.benchmarks.targets import SERVE_MEMORY, SERVE_P99, SERVE_RATE
from tadam.classify.classifier import FewShotClassifier
from tadam.errors import RunFailed, UserError

_CLIENTS = (1, 8, 64)
#: Different photos, and their sides in pixels.
_PHOTOS, _SIZE = 16, (640, 480)
#: Seconds of a turn, at least: with 64 clients, filling and emptying the queue takes half a second.
_TURN = 4.0
#: Requests after which memory has settled.
_WARM = 200
#: Variables that bound the threads of one server and not those of the other.
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
_BOUNDARY = "a-boundary-of-the-benchmark"


class Load(NamedTuple):
    """What some clients saw: requests per second, and the latencies in seconds."""

    rate: float
    p50: float
    p99: float


def photos(count: int, size: tuple[int, int] = _SIZE) -> list[bytes]:
    """JPEG files with as much detail as photos have: smooth noise with edges."""
    dice, made = np.random.default_rng(0), []
    for _ in range(count):
        coarse = Image.fromarray(dice.integers(0, 256, (12, 16, 3), np.uint8))
        fine = dice.integers(0, 30, (size[1], size[0], 3))
        pixels = np.asarray(coarse.resize(size, Image.Resampling.BICUBIC)).astype(int) + fine
        content = io.BytesIO()
        Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(content, "JPEG", quality=88)
        made.append(content.getvalue())
    return made


def form(photo: bytes) -> bytes:
    """The body of a request with one photo."""
    head = 'Content-Disposition: form-data; name="files"; filename="photo.jpg"'
    start = f"--{_BOUNDARY}\r\n{head}\r\nContent-Type: image/jpeg\r\n\r\n".encode()
    return start + photo + f"\r\n--{_BOUNDARY}--\r\n".encode()


@contextmanager
def started(*command: str) -> Iterator[tuple[int, int]]:
    """A server while the block runs: its process and its port."""
    process = subprocess.Popen(
        [sys.executable, "-m", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # onnxruntime takes all cores whatever this says, so PyTorch may too.
        env={name: value for name, value in os.environ.items() if name not in _THREADS},
    )
    try:
        assert process.stdout is not None
        found = re.search(r"127\.0\.0\.1:(\d+)", process.stdout.readline())
        if found is None:
            raise RunFailed(f"a server did not start: {process.communicate()[1].strip()[-200:]}")
        yield process.pid, int(found[1])
    finally:
        process.terminate()
        process.communicate()


def load(port: int, bodies: list[bytes], clients: int, seconds: float, most: int = 0) -> Load:
    """Asks from so many connections at once for a while, or `most` times."""
    taken: list[float] = []
    failures: list[str] = []
    end = time.monotonic() + seconds

    def client(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        kind = {"Content-Type": f"multipart/form-data; boundary={_BOUNDARY}"}
        while not failures and (len(taken) < most if most else time.monotonic() < end):
            start = time.monotonic()
            body = bodies[(number + len(taken)) % len(bodies)]
            connection.request("POST", "/api/v1/predict", body, kind)
            answer = connection.getresponse()
            content = answer.read()
            taken.append(time.monotonic() - start)
            if answer.status != 200:
                failures.append(content.decode("utf-8", "replace")[:200])
        connection.close()

    threads = [threading.Thread(target=client, args=(i,)) for i in range(clients)]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures or not taken:
        raise RunFailed(f"a server refused a request: {failures[:1]}")
    rate = len(taken) / (time.monotonic() - begun)
    return Load(rate, float(np.quantile(taken, 0.5)), float(np.quantile(taken, 0.99)))


def resident(process: int) -> int | None:
    """Memory of a process in bytes; None where the system does not tell."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except OSError:
        return None
    return pages * 4096


def measure(rounds: int, seconds: float, requests: int) -> list[Measurement]:
    """Throughput and latency at 1, 8 and 64 clients, and memory over many requests.

    Args:
        rounds: Turns of each server with each number of clients.
        seconds: Length of a turn; at least `_TURN` is taken.
        requests: Requests over which memory is watched.
    """
    content = photos(_PHOTOS)
    bodies = [form(photo) for photo in content]
    with tempfile.TemporaryDirectory() as folder:
        file, exported = Path(folder) / "c.tadam", Path(folder) / "c.onnx"
        known = FewShotClassifier("imagenet").fit(content, ["even", "odd"] * (_PHOTOS // 2))
        known.save(file)
        try:
            known.export(exported)
        except UserError as error:
            raise RunFailed(str(error)) from None
        with (
            started("tadam", "serve", str(file), "--port", "0") as (process, ours),
            started("tadam.benchmarks.bare_server", str(exported)) as (_, bare),
        ):
            found = [m for clients in _CLIENTS for m in _compared(
                ours, bare, bodies, clients, rounds, max(seconds, _TURN)
            )]  # fmt: skip
            return [*found, *_memory(process, ours, bodies, requests)]


def _compared(
    ours: int, bare: int, bodies: list[bytes], clients: int, rounds: int, seconds: float
) -> list[Measurement]:
    turns: dict[str, list[Load]] = {"ours": [], "bare": []}
    for turn in range(rounds + 1):  # the first does not count
        for name, port in (("ours", ours), ("bare", bare)):
            seen = load(port, bodies, clients, seconds)
            if turn:
                turns[name].append(seen)
    pairs = list(zip(turns["ours"], turns["bare"], strict=True))
    raw = {
        f"{name}_{field}": median(getattr(seen, field) for seen in some)
        for name, some in turns.items()
        for field in Load._fields
    }
    where = f"{clients} client" + ("s" if clients > 1 else "")
    note = f"640x480 JPEG; ours {_words(turns['ours'])}, bare {_words(turns['bare'])}"
    rate = median(a.rate / b.rate for a, b in pairs)
    p99 = median(a.p99 / b.p99 for a, b in pairs)
    return [
        Measurement("serve", SERVE_RATE, where, rate, TIMES, note=note, raw=raw),
        Measurement("serve", SERVE_P99, where, p99, TIMES, lower_is_better=True, raw=raw),
    ]


def _words(some: list[Load]) -> str:
    rate, p50, p99 = (median(getattr(seen, field) for seen in some) for field in Load._fields)
    return f"{rate:.1f}/s, p50 {1000 * p50:.0f} ms, p99 {1000 * p99:.0f} ms"


def _memory(process: int, port: int, bodies: list[bytes], requests: int) -> list[Measurement]:
    load(port, bodies, 16, 0, min(_WARM, requests))
    before = resident(process)
    load(port, bodies, 16, 0, requests)
    after = resident(process)
    if before is None or after is None:
        return []
    return [
        Measurement(
            "serve",
            SERVE_MEMORY,
            f"{requests} requests",
            after / before,
            TIMES,
            lower_is_better=True,
            note=f"{before / 2**20:.0f} MB before, {after / 2**20:.0f} MB after",
            raw={"before_bytes": before, "after_bytes": after},
        )
    ]
