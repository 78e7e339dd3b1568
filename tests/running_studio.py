"""A real server in a process of its own, for the browser to talk to."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx

_SRC = Path(__file__).parents[1] / "src"
_PATIENCE = 60


class RunningStudio:
    """`tadam serve`; start it again after a kill and it has the same address.

    Args:
        target: A folder of projects, a project, or a `.tadam` file.
        log: Where the server's words go.
        options: More for the command line.

    Attributes:
        address: The page's, without a slash at the end.
        target: As given.
    """

    def __init__(self, target: Path, log: Path, *options: str) -> None:
        self.target, self._log, self._options = target, log, options
        self._port, self.address = 0, ""
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Starts the server and waits until it answers."""
        command = [sys.executable, "-m", "tadam", "serve", str(self.target)]
        environment = {
            **os.environ, "PYTHONPATH": str(_SRC), "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [*command, *self._options, "--port", str(self._port)],
                stdout=log,
                stderr=log,
                env=environment,
            )
        self.address = self._printed_address().rstrip("/")
        self._port = httpx.URL(self.address).port or 0
        self._wait_for_health()

    def _printed_address(self) -> str:
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            found = re.search(r"http://[\w.:]+/", self._log.read_text())
            if found:
                return found[0]
            assert self._process is not None
            assert self._process.poll() is None, self._log.read_text()
            time.sleep(0.05)
        raise AssertionError(f"no address within {_PATIENCE} s: {self._log.read_text()}")

    def _wait_for_health(self) -> None:
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            try:
                if httpx.get(f"{self.address}/api/v1/health").status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.05)
        raise AssertionError("the server does not answer")

    def kill(self) -> None:
        """kill -9: the server gets no chance to tidy up."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """Ctrl-C."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()

    def _token(self) -> str:
        page = httpx.get(f"{self.address}/").text
        found = re.search(r'name="tadam-token" content="([^"]*)"', page)
        assert found
        return found[1]

    def post(self, path: str, **body: Any) -> Any:
        """What a program would send: JSON, with the token."""
        headers = {"X-Tadam-Token": self._token()}
        answer = httpx.post(f"{self.address}/api/v1{path}", json=body, headers=headers, timeout=60)
        assert answer.is_success, answer.text
        return answer.json()

    def get(self, path: str) -> Any:
        """The JSON at a path."""
        answer = httpx.get(f"{self.address}/api/v1{path}", timeout=60)
        assert answer.is_success, answer.text
        return answer.json()

    def add(
        self,
        project: str,
        files: dict[str, bytes],
        class_id: int | None = None,
        by_folder: bool = False,
    ) -> Any:
        """Adds photos without the browser."""
        data = {"by_folder": "true"} if by_folder else {}
        if class_id is not None:
            data["class_id"] = str(class_id)
        answer = httpx.post(
            f"{self.address}/api/v1/projects/{project}/images", data=data, timeout=120,
            headers={"X-Tadam-Token": self._token()},
            files=[("files", (name, content, "image/jpeg")) for name, content in files.items()],
        )  # fmt: skip
        assert answer.is_success, answer.text
        return answer.json()
