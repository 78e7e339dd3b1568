"""Shows that the tests notice broken code: `make mutate`, or `python tests/mutate.py [WORD]...`.

Breaks each place of mutants.toml in turn, in a copy of the tree, and expects the tests named there
to fail. With words, only the mutants whose names contain one of them. Exits with 1 if a mutant
survives, or if a place is no longer where the list says.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).with_name("mutants.toml")
_COPIED = ("src", "tests", "docs", "pyproject.toml", "README.md", "CONTRIBUTING.md")
_SECONDS = 300  # a mutant may send a test round in circles


@dataclass(frozen=True)
class Mutant:
    """One broken place.

    Attributes:
        name: What is broken.
        file: Below the project's root.
        text: What stands there, exactly once.
        replacement: What to put in its place.
        tests: What must fail then: arguments for pytest.
    """

    name: str
    file: str
    text: str
    replacement: str
    tests: tuple[str, ...]

    def broken(self, source: str) -> str:
        """The file's content with the replacement."""
        found = source.count(self.text)
        if found != 1:
            raise ValueError(f"{self.file} has the text of '{self.name}' {found} times, not once")
        return source.replace(self.text, self.replacement)


def mutants() -> list[Mutant]:
    """The list, in its order."""
    entries = tomllib.loads(LIST.read_text(encoding="utf-8"))["mutant"]
    return [Mutant(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]


def failure(tree: Path, tests: tuple[str, ...]) -> str:
    """What pytest says of tests that fail in a copy of the project; nothing if they pass."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, timeout=_SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"took more than {_SECONDS} seconds"
    if done.returncode not in (0, 1):  # not a failed test, but pytest itself: nothing was shown
        sys.exit(f"pytest {' '.join(tests)} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout if done.returncode else ""


def copy_tree(to: Path) -> None:
    """Copies what the tests need."""
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in _COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, to / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, to / name)


def main(words: list[str]) -> int:
    """Prints a line for each mutant; 1 if one survived."""
    chosen = [m for m in mutants() if not words or any(word in m.name for word in words)]
    survived = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = Path(folder)
        copy_tree(tree)
        every = tuple(dict.fromkeys(test for mutant in chosen for test in mutant.tests))
        if said := failure(tree, every):
            sys.exit(f"{said}\nthe tests fail without a mutant already")
        for mutant in chosen:
            file, started = tree / mutant.file, time.monotonic()
            source = file.read_text(encoding="utf-8")
            file.write_text(mutant.broken(source), encoding="utf-8")
            survives = not failure(tree, mutant.tests)
            file.write_text(source, encoding="utf-8")
            survived += survives
            verdict = "SURVIVED" if survives else "noticed"
            print(f"{verdict:8}  {time.monotonic() - started:4.0f} s  {mutant.name}", flush=True)
    print(f"{len(chosen) - survived} of {len(chosen)} mutants were noticed")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
