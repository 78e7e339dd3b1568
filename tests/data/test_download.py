"""Downloads from a local server: resumed, checked, and never put in place half-finished."""

import hashlib
import random
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tadam.data import download as module
from tadam.data.download import fetch
from tadam.data.source import Download
from tadam.errors import RunFailed, UserError

CONTENT = random.Random(0).randbytes(1_000_000)
MD5 = hashlib.md5(CONTENT).hexdigest()


class Server(BaseHTTPRequestHandler):
    """Serves CONTENT in the manner that the path names, and records the requested ranges."""

    ranges: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        asked = self.headers["Range"]
        Server.ranges.append(asked)
        way = self.path.strip("/").partition("/")[0]
        if way == "missing":
            self.send_error(404)
            return
        if way == "busy":
            self.send_error(503)
            return
        if way == "page":
            self.answer(200, b"Please sign in", "text/html; charset=utf-8")
            return
        if way == "disguised-page":
            self.answer(200, b"\n<!DOCTYPE html><title>Sign in</title>")
            return
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
        if way == "odd-length":
            self.answer(200, CONTENT, length=self.path.split("/")[2])
        elif way == "no-ranges" or not start:
            self.answer(
                200,
                CONTENT,
                cut=way in ("cut", "no-length-cut"),
                length=None if "no-" in way else "",
            )
        elif start >= len(CONTENT):
            self.send_error(416)
        else:
            self.answer(206, CONTENT[start:], start=start)

    def answer(
        self,
        status: int,
        content: bytes,
        kind: str = "application/x-gzip",
        start: int = 0,
        cut: bool = False,
        length: str | None = "",
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if length is not None:
            self.send_header("Content-Length", length or str(len(content)))
        if status == 206:
            last, first = len(CONTENT) - 1, "9" * 5000 if "odd-range" in self.path else start
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(CONTENT)}")
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if cut else content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_port}"
    httpd.shutdown()
    httpd.server_close()


@pytest.fixture(autouse=True)
def _no_proxy_and_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    Server.ranges.clear()


@pytest.fixture
def get(server: str, tmp_path: Path) -> Callable[..., Any]:
    """Fetches the file in the given manner."""

    def run(way: str, md5: str = MD5, progress: Callable[..., Any] | None = None) -> Path:
        url = f"{server}/{way}/file.tar.gz"
        return fetch(Download(url, "sub/file.tar.gz", md5), tmp_path, progress)

    return run


@pytest.fixture
def part(tmp_path: Path) -> Path:
    """Where an unfinished download is kept."""
    (tmp_path / "sub").mkdir()
    return tmp_path / "sub" / "file.tar.gz.part"


def failure(call: Callable[..., Any]) -> str:
    """The one-sentence error of a failed download."""
    with pytest.raises(RunFailed) as error:
        call()
    assert "\n" not in str(error.value)
    return str(error.value)


def left(tmp_path: Path) -> list[str]:
    return sorted(p.name for p in tmp_path.rglob("*") if p.is_file())


def test_a_file_arrives_whole_and_nothing_else_is_left(
    get: Callable[..., Any], tmp_path: Path
) -> None:
    calls = []
    path = get("file", progress=lambda *done: calls.append(done))
    assert path == tmp_path / "sub" / "file.tar.gz"
    assert path.read_bytes() == CONTENT
    assert left(tmp_path) == ["file.tar.gz"]
    assert calls[-1] == (len(CONTENT), len(CONTENT))
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)


def test_an_existing_file_is_neither_fetched_nor_touched(
    get: Callable[..., Any], part: Path
) -> None:
    path = part.with_suffix("")
    path.write_bytes(b"mine")
    assert get("file") == path
    assert path.read_bytes() == b"mine"
    assert Server.ranges == []


def test_a_download_resumes_where_it_stopped(
    get: Callable[..., Any], part: Path, tmp_path: Path
) -> None:
    part.write_bytes(CONTENT[:300_000])
    calls = []
    assert get("file", progress=lambda *done: calls.append(done)).read_bytes() == CONTENT
    assert Server.ranges == ["bytes=300000-"]
    assert calls[0][0] > 300_000
    assert calls[-1] == (len(CONTENT), len(CONTENT))
    assert left(tmp_path) == ["file.tar.gz"]


def test_a_connection_that_closes_early_keeps_what_arrived_and_says_so(
    get: Callable[..., Any], tmp_path: Path
) -> None:
    text = failure(lambda: get("cut"))
    assert "the connection closed 500,000 bytes early" in text
    assert text.endswith(
        f"run the command again to resume from the 500,000 bytes in "
        f"{tmp_path / 'sub' / 'file.tar.gz.part'}"
    )
    assert left(tmp_path) == ["file.tar.gz.part"]
    assert get("cut").read_bytes() == CONTENT  # the second request starts in the middle
    assert Server.ranges == [None, "bytes=500000-"]


def test_a_server_that_ignores_ranges_starts_the_file_over(
    get: Callable[..., Any], part: Path
) -> None:
    part.write_bytes(b"x" * 300_000)
    assert get("no-ranges").read_bytes() == CONTENT
    assert Server.ranges == ["bytes=300000-"]


def test_a_server_may_omit_the_length(get: Callable[..., Any]) -> None:
    assert get("no-length").read_bytes() == CONTENT


@pytest.mark.parametrize("length", ["abc", "-5", "1.5", "9" * 5000])
def test_an_invalid_length_counts_as_unknown(
    get: Callable[..., Any], tmp_path: Path, length: str
) -> None:
    calls = []
    path = get(f"odd-length/{length}", progress=lambda *done: calls.append(done))
    assert path.read_bytes() == CONTENT
    assert calls[-1] == (len(CONTENT), len(CONTENT))
    assert left(tmp_path) == ["file.tar.gz"]


def test_a_range_without_a_start_fails_the_checksum(get: Callable[..., Any], part: Path) -> None:
    part.write_bytes(CONTENT[:1000])
    assert "did not send the published file" in failure(lambda: get("odd-range"))


def test_a_part_that_is_already_complete_is_put_in_place(
    get: Callable[..., Any], part: Path, tmp_path: Path
) -> None:
    part.write_bytes(CONTENT)
    assert get("file").read_bytes() == CONTENT
    assert left(tmp_path) == ["file.tar.gz"]


def test_a_wrong_checksum_is_one_sentence_and_leaves_nothing(
    get: Callable[..., Any], tmp_path: Path
) -> None:
    text = failure(lambda: get("file", md5="0" * 32))
    assert f"did not send the published file (md5 {MD5}, expected {'0' * 32})" in text
    assert text.endswith(
        f"try again, or put the file at {tmp_path / 'sub' / 'file.tar.gz'} yourself"
    )
    assert left(tmp_path) == []


def test_a_part_of_another_file_fails_once_and_then_starts_over(
    get: Callable[..., Any], part: Path
) -> None:
    part.write_bytes(b"x" * 300_000)
    assert "did not send the published file" in failure(lambda: get("file"))
    assert get("file").read_bytes() == CONTENT


def test_a_file_truncated_without_a_length_is_caught_by_its_checksum(
    get: Callable[..., Any], tmp_path: Path
) -> None:
    assert "did not send the published file" in failure(lambda: get("no-length-cut"))
    assert left(tmp_path) == []


@pytest.mark.parametrize("way", ["page", "disguised-page"])
def test_a_web_page_is_recognised_and_not_kept(
    get: Callable[..., Any], tmp_path: Path, way: str
) -> None:
    text = failure(lambda: get(way))
    assert "sent a web page instead of the file" in text
    assert left(tmp_path) == []


@pytest.mark.parametrize("way", ["page", "disguised-page"])
def test_a_web_page_does_not_replace_half_a_download(
    get: Callable[..., Any], part: Path, way: str
) -> None:
    part.write_bytes(CONTENT[:1000])
    assert "web page" in failure(lambda: get(way))
    assert part.read_bytes() == CONTENT[:1000]


@pytest.mark.parametrize(("way", "answer"), [("missing", "404 Not Found"), ("busy", "503")])
def test_a_server_error_is_one_sentence(
    get: Callable[..., Any], tmp_path: Path, way: str, answer: str
) -> None:
    assert f"answered {answer}" in failure(lambda: get(way))
    assert left(tmp_path) == []


def test_an_unreachable_server_is_one_sentence(tmp_path: Path) -> None:
    gone = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    gone.server_close()
    url = f"http://127.0.0.1:{gone.server_port}/x"
    text = failure(lambda: fetch(Download(url, "x", MD5), tmp_path))
    assert text.startswith(f"the download of {url} stopped (")
    assert "0 bytes in" in text


def test_a_silent_server_is_given_up_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts but never answers
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/x"
        assert "timed out" in failure(lambda: fetch(Download(url, "x", MD5), tmp_path))


def test_a_full_disk_is_a_sentence_about_the_file_and_not_about_the_network(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = tmp_path / "data.bin.part"
    part.symlink_to("/dev/full")
    wanted = Download(f"{server}/good", "data.bin", MD5)
    with pytest.raises(RunFailed, match=rf"^{part} cannot be written, the disk is full \(No space"):
        fetch(wanted, tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(
        UserError, match=r"data\.bin\.part cannot be written \(Not a dir|File exists"
    ):
        fetch(wanted, tmp_path / "file")
