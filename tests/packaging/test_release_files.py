"""What stands around the code at a release: changelog, citation, hooks, workflows."""

import os
import re
import shlex
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest
import yaml

import tadam

ROOT = Path(__file__).parents[2]
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
HEAVY = "torch numpy matplotlib PIL onnx onnxruntime sklearn pandas ray transformers filelock"
HELP = f"""
import sys
import tadam
dir(tadam)
assert not set({HEAVY!r}.split()) & {{name.partition(".")[0] for name in sys.modules}}
from tadam.cli.app import main
sys.argv = ["tadam", "--help"]
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
found = set({HEAVY!r}.split()) & {{name.partition(".")[0] for name in sys.modules}}
assert not found, found
"""


def make_targets() -> dict[str, str]:
    """Target -> the commands below it."""
    text = (ROOT / "Makefile").read_text("utf-8")
    return dict(re.findall(r"^([\w-]+):.*\n((?:\t.*\n)*)", text, re.M))


def commands_of(workflow: Path) -> list[str]:
    jobs = yaml.safe_load(workflow.read_text("utf-8"))["jobs"].values()
    return [step["run"] for job in jobs for step in job.get("steps", []) if "run" in step]


def test_the_changelog_has_dated_versions_and_the_usual_kinds_of_changes() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    heads = re.findall(r"^## (.*)$", text, re.M)
    versions = [re.fullmatch(r"\[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)", head) for head in heads]
    dated = [(version[1], date.fromisoformat(version[2])) for version in versions if version]
    assert len(dated) == len(heads)
    assert dated[0][0] == tadam.__version__
    assert dated == sorted(dated, reverse=True)
    for section in re.split(r"^## ", text, flags=re.M)[1:]:
        kinds = re.findall(r"^### (.*)$", section, re.M)
        assert kinds
        assert set(kinds) <= set(KINDS)
        assert len(set(kinds)) == len(kinds)


def test_the_version_is_written_in_one_place() -> None:
    for name in ("pyproject.toml", "setup.py", "CITATION.cff", "Dockerfile"):
        assert tadam.__version__ not in (ROOT / name).read_text("utf-8"), name


def test_the_citation_has_our_authors_and_the_papers() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["authors"] == [{"name": "The tadam authors"}]
    paper = citation["preferred-citation"]
    families = [author["family-names"] for author in paper["authors"]]
    assert families == ["Oreshkin", "Rodríguez López", "Lacoste"]
    assert paper["year"] == 2018


def test_the_hooks_run_what_make_lint_runs() -> None:
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    hooks = [hook["entry"] for hook in repository["hooks"]]
    lint = [line.strip() for line in make_targets()["lint"].splitlines()]
    assert hooks == [line.replace("$(VENV)", ".venv") for line in lint]


def test_every_step_of_a_workflow_is_a_target_that_can_be_run_here() -> None:
    workflows = {file.stem: commands_of(file) for file in (ROOT / ".github/workflows").glob("*")}
    assert set(workflows) == {"tests", "docs", "wheels", "release"}
    by_hand = ['python -m pip install -c constraints.txt -e ".[dev]"', "python -m pytest -n 2"]
    assert workflows["tests"] == [".ci/run", "make test", *by_hand]
    ours = (ROOT / ".ci" / "run").read_text("utf-8").splitlines()[-1]
    targets = make_targets()
    for command in (ours, *workflows["docs"], *workflows["wheels"], *workflows["release"]):
        make, target, *_ = shlex.split(command, comments=True)
        assert make == "make"
        assert target in targets, target


@pytest.mark.skipif(sys.platform == "win32", reason="there is no make on Windows")
def test_a_tag_is_released_only_if_it_is_the_version() -> None:
    def check(tag: str) -> int:
        command = ["make", "-s", "release-check", f"TAG={tag}"]
        return subprocess.run(command, cwd=ROOT, capture_output=True).returncode

    assert check(f"v{tadam.__version__}") == 0
    assert check("v0.0.1") != 0


def test_neither_the_import_nor_the_help_loads_anything_heavy() -> None:
    done = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--install-completion" in done.stdout


def test_the_shell_completes_commands_and_options() -> None:
    for words, place, found in (
        ("tadam pre", "1", ["predict"]),
        ("tadam evaluate --within", "2", ["--within-family"]),
    ):
        asked = {"_TADAM_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": place}
        command = [sys.executable, "-m", "tadam"]
        done = subprocess.run(
            command, env={**os.environ, **asked}, capture_output=True, text=True, check=True
        )
        assert done.stdout.split() == found
