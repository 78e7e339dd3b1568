"""Runs the Dockerfile's steps in order in a fresh environment, for machines without Docker.

It builds the wheel, runs the Dockerfile's own pip commands for a new virtual environment (but for
PyTorch's own index: the constraints pin a build without CUDA here), starts the entry point, waits
for the health check and makes a project. Root runs the entry point as `docker run --read-only`
would: as a user without rights, on a file system that is read-only but for the projects and a
temporary folder. Takes minutes: torch is installed anew.
"""

import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

ROOT = Path(__file__).parents[1]
_TOKEN = "docker-token"
#: In a mount namespace of its own: everything read-only but two folders, and no rights.
_ALONE = """set -e
mount --make-rprivate /
mount --bind "$1/projects" "$1/projects"
mount -t tmpfs -o mode=1777 tmpfs "$1/tmp"
mount -o remount,bind,ro /
shift
! touch /written 2> /dev/null
exec setpriv --reuid nobody --regid nogroup --clear-groups "$@"
"""


def instructions(text: str) -> list[tuple[str, str]]:
    """The Dockerfile's instructions, continued lines joined."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(k, v) for k, _, v in (line.partition(" ") for line in joined.splitlines()) if k]


def installed(text: str) -> tuple[str, str]:
    """The extras that are installed, and the whole command."""
    (command,) = (v for k, v in instructions(text) if k == "RUN" and "pip install" in v)
    extras = re.search(r"\[([a-z,]+)\]", command)
    assert extras is not None
    return extras[1], command


def pip_commands(command: str, wheels: Path) -> list[list[str]]:
    """The arguments of each `pip install` in a RUN, with the wheels in another folder."""
    here = re.sub(r"--extra-index-url \S+", "", command).replace("/tmp/wheels", str(wheels))
    parts = [shlex.split(part) for part in here.split("&&")]
    return [words[2:] for words in parts if words[:2] == ["pip", "install"]]


def main() -> None:
    """Prints each step; ends with an error at the first that fails."""
    text = (ROOT / "Dockerfile").read_text()
    steps = dict(instructions(text))
    _, command = installed(text)
    alone = os.getuid() == 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        run = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", f"{folder}/dist", "."]
        _step("the wheel", run)
        shutil.copy(ROOT / "constraints.txt", folder / "dist")
        python = _python_for_all() if alone else sys.executable
        _step("python -m venv", [python, "-m", "venv", "--without-pip", str(folder / "env")])
        pip = [sys.executable, "-m", "pip", "--python", f"{folder}/env/bin/python", "install", "-q"]
        for words in pip_commands(command, folder / "dist"):
            _step("RUN pip install", [*pip, *words])
        projects, temporary = folder / "projects", folder / "tmp"
        for made in (projects, temporary):
            made.mkdir()
        entry = json.loads(steps["ENTRYPOINT"])
        environment = dict(part.split("=", 1) for part in shlex.split(steps["ENV"]))
        environment |= {"PATH": f"{folder}/env/bin:/usr/bin:/bin", "TADAM_TOKEN": _TOKEN}
        environment |= {"XDG_CACHE_HOME": f"{temporary}/cache", "XDG_DATA_HOME": str(projects)}
        environment |= {"TMPDIR": str(temporary)}
        serve = [f"{folder}/env/bin/{entry[0]}", *entry[1:], str(projects)]
        print("ENTRYPOINT", entry)
        if alone:
            shutil.chown(projects, "nobody")
            serve = ["unshare", "--mount", "sh", "-c", _ALONE, "sh", str(folder), *serve]
        process = subprocess.Popen(serve, env=environment, cwd="/")
        try:
            _healthy(steps["HEALTHCHECK"], f"{folder}/env/bin/python")
            _works()
        finally:
            process.terminate()
            process.wait(60)
        assert (projects / "try" / "project.sqlite").is_file()
    print("fine")


def _python_for_all() -> str:
    """A Python of our version that a user without rights may run."""
    version = "{}.{}".format(*sys.version_info)
    for python in (sys.executable, f"/usr/local/bin/python{version}", f"/usr/bin/python{version}"):
        try:
            subprocess.run([python, "-c", ""], check=True, user="nobody", cwd="/")
        except (OSError, subprocess.CalledProcessError):
            continue
        return python
    raise SystemExit(f"no Python {version} here that a user without rights may run")


def _works() -> None:
    """Makes a project over HTTP, with the token and without."""
    body = json.dumps({"name": "Try"}).encode()
    kind = {"Content-Type": "application/json"}
    address = "http://127.0.0.1:8000/api/v1/projects"
    with contextlib.suppress(HTTPError):
        urlopen(Request(address, body, kind), timeout=60)
        raise SystemExit("a request without the token was answered")
    urlopen(Request(address, body, {**kind, "X-Tadam-Token": _TOKEN}), timeout=60)
    print("a project was made")


def _step(title: str, command: list[str]) -> None:
    print(title)
    subprocess.run(command, check=True, cwd=ROOT)


def _healthy(check: str, python: str) -> None:
    """The health check's own command, until it says yes."""
    command = json.loads(check.partition("CMD ")[2])
    for _ in range(60):
        if subprocess.run([python, *command[1:]], capture_output=True).returncode == 0:
            print("HEALTHCHECK says yes")
            return
        time.sleep(1)
    raise SystemExit("the health check never said yes")


if __name__ == "__main__":
    main()
