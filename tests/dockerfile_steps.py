"""Runs the Dockerfile's steps in order in a fresh environment, for machines without Docker.

It builds the wheel, installs it with the extras and constraints that the Dockerfile names into a
new virtual environment, starts the entry point as an unprivileged user where that is possible, and
waits for the health check. The file system stays writable. Takes minutes: torch is installed anew.
"""

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

ROOT = Path(__file__).parents[1]


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


def main() -> None:
    """Prints each step; ends with an error at the first that fails."""
    text = (ROOT / "Dockerfile").read_text()
    steps = dict(instructions(text))
    extras, _ = installed(text)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        run = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", f"{folder}/dist", "."]
        _step("the wheel", run)
        (wheel,) = (folder / "dist").glob("*.whl")
        _step("python -m venv", [sys.executable, "-m", "venv", str(folder / "env")])
        pip = [f"{folder}/env/bin/python", "-m", "pip", "install", "-q"]
        _step("pip install", [*pip, "-c", "constraints.txt", f"{wheel}[{extras}]"])
        projects = folder / "projects"
        projects.mkdir()
        user = _user(f"{folder}/env/bin/python")
        if user:
            shutil.chown(projects, user["user"])
        entry = json.loads(steps["ENTRYPOINT"])
        environment = dict(part.split("=", 1) for part in shlex.split(steps["ENV"]))
        environment |= {"PATH": f"{folder}/env/bin:/usr/bin:/bin", "TADAM_TOKEN": "docker-token"}
        environment |= {"XDG_CACHE_HOME": f"{folder}/cache", "XDG_DATA_HOME": str(projects)}
        print("ENTRYPOINT", entry)
        command = [f"{folder}/env/bin/{entry[0]}", *entry[1:], str(projects)]
        process = subprocess.Popen(command, env=environment, cwd="/", **user)  # type: ignore[call-overload]
        try:
            _healthy(steps["HEALTHCHECK"], f"{folder}/env/bin/python")
        finally:
            process.terminate()
            process.wait(60)
    print("fine")


def _user(python: str) -> dict[str, str]:
    """Somebody without rights to run as, if we may choose and they may run Python."""
    if os.getuid() != 0:
        return {}
    try:
        subprocess.run([python, "-c", ""], check=True, user="nobody", cwd="/")
    except (OSError, subprocess.CalledProcessError):
        print("nobody may not run this Python: going on as root")
        return {}
    return {"user": "nobody"}


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
