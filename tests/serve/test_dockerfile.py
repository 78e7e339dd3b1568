"""The Dockerfile: what can be judged without Docker; `make docker-steps` runs its steps."""

import json
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

from dockerfile_steps import ROOT, installed, instructions, pip_commands


def test_the_image_installs_our_extras_and_runs_as_a_user_without_rights() -> None:
    text = (ROOT / "Dockerfile").read_text()
    steps = instructions(text)
    extras, command = installed(text)
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(extras.split(",")) <= set(known["optional-dependencies"])
    assert "serve" in extras
    assert "constraints.txt" in command
    kinds = [kind for kind, _ in steps]
    assert kinds.index("USER") < kinds.index("ENTRYPOINT")
    assert "HEALTHCHECK" in kinds
    entry = json.loads(dict(steps)["ENTRYPOINT"])
    assert entry[:2] == ["tadam", "serve"]
    assert entry[0] in known["scripts"]


def test_of_two_wheels_the_one_that_fits_is_installed(tmp_path: Path) -> None:
    for tag in ("py3-none-any", "cp39-cp39-win32"):
        with zipfile.ZipFile(tmp_path / f"tadam_fewshot-0.2.0-{tag}.whl", "w") as wheel:
            about = "tadam_fewshot-0.2.0.dist-info"
            text = "Metadata-Version: 2.1\nName: tadam-fewshot\nVersion: 0.2.0\n"
            wheel.writestr(f"{about}/METADATA", text)
            wheel.writestr(f"{about}/WHEEL", f"Wheel-Version: 1.0\nTag: {tag}\n")
            wheel.writestr(f"{about}/RECORD", "")
    (tmp_path / "constraints.txt").touch()
    _, command = installed((ROOT / "Dockerfile").read_text())
    words, _ = pip_commands(command, tmp_path)
    pip = [sys.executable, "-m", "pip", "install", "--dry-run", "-I", *words]
    done = subprocess.run(pip, capture_output=True, text=True)
    assert "Would install tadam-fewshot-0.2.0" in done.stdout, done.stderr
