"""How much of a request is in memory, and how many files it takes, however many it has."""

import asyncio
import io
import os
import tracemalloc
import zipfile
from collections.abc import Iterator, MutableMapping
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest
from fastapi import Request

from tadam.classify.classifier import FewShotClassifier
from tadam.classify.embedded import Embedded, Eyes
from tadam.data.encoded import Encoded
from tadam.serve import predicting
from tadam.serve.arrivals import Incoming, from_bytes
from tadam.serve.predicting import answered
from tadam.serve.serve_settings import ServeSettings
from tadam.serve.taught import from_file
from tadam.serve.uploads import sent_files, unpacked_zips

MB = 2**20
_PIECE = 65_536


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def held() -> float:
    """Megabytes that Python holds."""
    return tracemalloc.get_traced_memory()[0] / MB


def files_without_name() -> int:
    """Temporary files that this process has open."""
    links = [os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
    return sum(os.path.lexists(link) and "(deleted)" in os.readlink(link) for link in links)


def content_of(i: int, size: int) -> bytes:
    return i.to_bytes(4, "big") * (size // 4)


def form_request(sizes: list[int]) -> Request:
    """A form with files, which arrives in pieces that are no file's."""

    def parts() -> Iterator[bytes]:
        for i, size in enumerate(sizes):
            head = f'Content-Disposition: form-data; name="files"; filename="{i}"'
            yield f"--x\r\n{head}\r\n\r\n".encode() + content_of(i, size) + b"\r\n"
        yield b'--x\r\nContent-Disposition: form-data; name="class_id"\r\n\r\n7\r\n--x--\r\n'

    def pieces() -> Iterator[bytes]:
        waiting = bytearray()
        for part in parts():
            waiting += part
            while len(waiting) >= _PIECE:
                yield bytes(waiting[:_PIECE])
                del waiting[:_PIECE]
        yield bytes(waiting)

    source = pieces()

    async def receive() -> MutableMapping[str, Any]:
        piece = next(source, b"")
        return {"type": "http.request", "body": piece, "more_body": bool(piece)}

    kind = (b"content-type", b"multipart/form-data; boundary=x")
    return Request({"type": "http", "method": "POST", "headers": [kind]}, receive)


def test_a_form_with_many_files_is_one_file_on_the_disk(traced: None) -> None:
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("this system does not list the files of a process")
    sizes = [900_000] * 40 + [3 * MB] * 4 + [8, 0, 400] * 9

    async def look() -> None:
        before, files = held(), files_without_name()
        async with sent_files(form_request(sizes), ServeSettings()) as sent:
            assert held() - before < 8
            assert files_without_name() - files <= 1
            assert sent.number("class_id") == 7
            assert [file.name for file in sent.files] == [str(i) for i in range(len(sizes))]
            for i, file in reversed(list(enumerate(sent.files))):
                with file.open() as one, file.open() as other:
                    assert one.read(4) == content_of(i, sizes[i])[:4]
                    assert other.read() == content_of(i, sizes[i])
                    assert one.read() == content_of(i, sizes[i])[4:]
        assert files_without_name() == files

    asyncio.run(look())


def test_a_small_form_stays_in_memory() -> None:
    async def look() -> None:
        files = files_without_name()
        async with sent_files(form_request([4_000, 5_000, 0, 8, 60_000]), ServeSettings()) as sent:
            assert files_without_name() == files
            with sent.files[1].open() as content:
                assert content.read() == content_of(1, 5_000)
            with sent.files[3].open() as content:
                assert content.read() == content_of(3, 8)

    asyncio.run(look())


def test_members_of_a_zip_are_read_when_they_are_stored_and_not_before(traced: None) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for i in range(64):
            archive.writestr(f"disc/{i}.png", content_of(i, MB))
    with ExitStack() as stack:
        before = held()
        photos = list(unpacked_zips([from_bytes("z.zip", content.getvalue())], [], stack))
        assert len(photos) == 64
        assert held() - before < 8
        with photos[0].open() as photo:
            assert photo.read(4) in (content_of(i, 4) for i in range(64))


def test_a_question_with_many_photos_is_not_all_in_memory(
    fitted: FewShotClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, traced: None
) -> None:
    """A queue that only looks at what waits."""
    path = tmp_path / "photo"
    path.write_bytes(content_of(7, MB))
    monkeypatch.setattr(predicting, "_MOST_BYTES", 4 * MB)

    class Looking:
        pool, batches, photos, length = None, 0, 0, 0

        def submit(self, eyes: Eyes, images: list[Encoded]) -> "Future[Embedded]":
            assert held() - before < 12
            assert all(image.read() == path.read_bytes() for image in images)
            future: Future[Embedded] = Future()
            future.set_result(Embedded([], np.zeros((0, 0), np.float32), {}))
            return future

        def close(self) -> None: ...

    def opened() -> BinaryIO:
        return open(path, "rb")

    now = replace(from_file(fitted, None))
    before = held()
    files = [Incoming(str(i), opened) for i in range(50)]
    asyncio.run(answered(Looking(), now, files, "model", 1))  # type: ignore[arg-type]
