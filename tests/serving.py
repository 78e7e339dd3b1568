"""Real servers for tests: in a thread of this process, or as a process that can be killed."""

import io
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI
from PIL import Image

from photos import photo
from tadam.serve.run import address, bound_socket, configuration
from tadam.serve.serve_settings import ServeSettings

TOKEN = "a-token-for-tests"
API = "/api/v1"


class Client(httpx.Client):
    """Speaks to a server with the token, and knows the addresses of a project."""

    def project(self, name: str, model: str | None = None) -> str:
        """Makes a project and returns its address."""
        made = self.post(f"{API}/projects", json={"name": name, "model": model})
        assert made.status_code == 201, made.text
        return f"{API}/projects/{made.json()['id']}"

    def add_class(self, project: str, name: str) -> int:
        made = self.post(f"{project}/classes", json={"name": name})
        assert made.status_code == 201, made.text
        return int(made.json()["id"])

    def add(
        self, project: str, files: Sequence[tuple[str, bytes]], **fields: Any
    ) -> dict[str, Any]:
        """Sends photos and returns what became of them."""
        parts = [("files", (name, content)) for name, content in files]
        answer = self.post(f"{project}/images", files=parts, data=fields)
        assert answer.status_code == 200, answer.text
        result: dict[str, Any] = answer.json()
        return result


def client(base: str, **headers: str) -> Client:
    return Client(base_url=base, timeout=120, headers={"X-Tadam-Token": TOKEN, **headers})


@contextmanager
def in_thread(app: FastAPI, settings: ServeSettings) -> Iterator[str]:
    """Serves an app from a thread while the block runs; yields where."""
    sock = bound_socket(settings)
    sock.listen(256)
    server = uvicorn.Server(configuration(app))
    thread = threading.Thread(target=server.run, args=([sock],), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield address(settings, sock.getsockname()[1]).partition("?")[0].rstrip("/")
    finally:
        app.state.studio.hub.close()
        server.should_exit = True
        thread.join(60)
        sock.close()


@contextmanager
def as_process(*arguments: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`tadam serve ARGUMENTS` on a free port while the block runs; the process and where."""
    command = [sys.executable, "-m", "tadam", "serve", *map(str, arguments), "--port", "0"]
    process = subprocess.Popen(
        [*command, "--token", TOKEN],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "400"},
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"at (http://\S+?)/", line)
        if found is None:
            raise RuntimeError(process.communicate(timeout=60)[1])
        yield process, found[1]
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def png(subject: str, seed: int) -> bytes:
    """A drawn photo as the bytes of a file."""
    content = io.BytesIO()
    picture: Image.Image = photo(subject, seed)
    picture.save(content, "PNG")
    return content.getvalue()


def pngs(subject: str, seeds: Sequence[int]) -> list[tuple[str, bytes]]:
    return [(f"{subject}-{seed}.png", png(subject, seed)) for seed in seeds]


def folder_of_classes(folder: Path, seeds: Sequence[int], subjects: Sequence[str]) -> Path:
    """The same photos as files, in a folder for each subject."""
    for subject in subjects:
        (folder / subject).mkdir(parents=True)
        for name, content in pngs(subject, seeds):
            (folder / subject / name).write_bytes(content)
    return folder
