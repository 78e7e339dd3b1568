"""Installs what `make package` made into new environments, with and without a compiler.

Four of them: the wheel for every system; the sdist where no compiler is found; the sdist with one;
the wheel of this machine, again without a compiler. In each, the commands of a first day run, and
the number of times that they say the native core is missing is counted. PyTorch and the rest are
borrowed from the environment that runs this; `--fresh` installs them anew, for the first one alone.
"""

import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
MISSING = "note: the native core was not built"
SETTINGS = ("schedule.episodes=4", "validation.every=2", "validation.tasks=2", "backbone.width=4")
PHOTOS = """
import numpy as np
from pathlib import Path
from PIL import Image

chance = np.random.default_rng(0)
for name, colour in (("red", (200, 40, 40)), ("blue", (40, 40, 200))):
    Path("photos", name).mkdir(parents=True)
    for i in range(4):
        pixels = chance.normal(colour, 30, (48, 48, 3)).clip(0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(f"photos/{name}/{i}.png")
"""


def first_day() -> list[list[str]]:
    """The commands that run in every environment."""
    changes = [part for setting in SETTINGS for part in ("--set", setting)]
    return [
        ["--version"],
        ["train", "shapes", "--out", "run", *changes],
        ["evaluate", "run", "--tasks", "2", "--queries", "5"],
        ["fit", "photos", "-o", "mine.tadam", "--model", "fc100"],
        ["predict", "mine.tadam", "photos", "--csv", "answers.csv"],
        ["check", "photos", "--model", "fc100"],
    ]


def main(fresh: bool) -> None:
    """Prints each step; ends with an error at the first that fails."""
    (sdist,) = DIST.glob("*.tar.gz")
    (anywhere,) = DIST.glob("*-none-any.whl")
    (here,) = set(DIST.glob("*.whl")) - {anywhere}
    cases = (
        (anywhere, False, False),
        (sdist, False, False),
        (sdist, True, True),
        (here, False, True),
    )
    for file, compiler, core in cases[:1] if fresh else cases:
        print(f"\n{file.name}, {'with' if compiler else 'without'} a compiler", flush=True)
        with tempfile.TemporaryDirectory() as name:
            _environment(Path(name), file, compiler, fresh)
            _use(Path(name), core)
    print("\nfine")


def _environment(folder: Path, file: Path, compiler: bool, fresh: bool) -> None:
    """A virtual environment with the package, installed as a user would."""
    subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True)
    python = folder / "env" / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    if fresh:
        pip += ["-c", str(ROOT / "constraints.txt")]
    else:
        here = sysconfig.get_path("purelib")
        (site,) = (folder / "env").glob("lib/python*/site-packages")
        (site / "borrowed.pth").write_text(here)
        pip += ["--no-deps", "--ignore-installed"]
    path = os.environ["PATH"] if compiler else str(folder / "env" / "bin")
    subprocess.run([*pip, file], check=True, cwd=folder, env={**_plain(), "PATH": path})


def _use(folder: Path, core: bool) -> None:
    """Runs the commands, none of which may fail, and counts what they say about the core."""
    run = {"check": True, "cwd": folder, "text": True, "capture_output": True}
    environment = {**_plain(), "PATH": f"{folder}/env/bin", "XDG_CACHE_HOME": f"{folder}/cache"}
    subprocess.run([f"{folder}/env/bin/python", "-c", PHOTOS], check=True, cwd=folder)
    for arguments in first_day():
        done = subprocess.run([f"{folder}/env/bin/tadam", *arguments], env=environment, **run)  # type: ignore[call-overload]
        said = done.stderr.count(MISSING)
        wanted = 0 if core or arguments == ["--version"] else 1
        assert said == wanted, f"tadam {' '.join(arguments)} said it {said} times: {done.stderr}"
        print(f"  tadam {arguments[0]}: fine", flush=True)
    ask = "from tadam import native; print(native.__file__, native.core())"
    command = [f"{folder}/env/bin/python", "-W", "ignore", "-c", ask]
    where, _, found = subprocess.run(command, env=environment, **run).stdout.strip().partition(" ")  # type: ignore[call-overload]
    assert where.startswith(str(folder)), where
    assert found.startswith("native") == core, found
    print(f"  core: {found}", flush=True)


def _plain() -> dict[str, str]:
    """Our environment without what would lead to this checkout or switch the core off."""
    hidden = ("PYTHONPATH", "TADAM_NATIVE", "CC", "CXX")
    return {name: value for name, value in os.environ.items() if name not in hidden}


if __name__ == "__main__":
    main("--fresh" in sys.argv[1:])
