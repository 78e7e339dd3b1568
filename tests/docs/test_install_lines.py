"""What users are told to install is ours: `tadam` on PyPI is somebody else's optimiser."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXTS = sorted(
    {
        *(ROOT / name for name in ("Makefile", "pyproject.toml", "constraints.txt")),
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(path for ending in ("py", "md", "toml") for path in (ROOT / "src").rglob(f"*.{ending}")),
    }
)
#: `pip install`, options with or without a value, and then the bare name.
WRONG = re.compile(r"pip install(?: -\S+(?: [\w./]+)?)* ['\"\\]*tadam(?![\w-])")


def wrong_lines(text: str) -> list[str]:
    """Install lines with the wrong name, also where a line or a string literal breaks in them."""
    joined = re.sub(r'"\s*\n\s*f?"', "", text)
    return WRONG.findall(" ".join(joined.split()))


def test_install_lines_name_the_distribution() -> None:
    wrong = {path: wrong_lines(path.read_text(encoding="utf-8")) for path in TEXTS}
    assert [str(path.relative_to(ROOT)) for path, lines in wrong.items() if lines] == []


def test_the_wrong_name_is_noticed() -> None:
    for text in [
        "pip install tadam",
        "pip install 'tadam[imagenet]'",
        "for photos, `pip install\n  'tadam[imagenet]'`",
        "pip install -U -c constraints.txt tadam[plots]",
        'error("no ONNX: pip install "\n    "\'tadam[export]\'")',
    ]:
        assert wrong_lines(text)


def test_the_right_name_and_a_local_folder_are_fine() -> None:
    for text in [
        "pip install 'tadam-fewshot[imagenet]'",
        "pip install -c constraints.txt '.[dev]'",
    ]:
        assert not wrong_lines(text)


def test_the_extra_for_development_asks_for_our_own_extras() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    assert project["name"] == "tadam-fewshot"
    [ours] = [line for line in extras["dev"] if line.startswith("tadam")]
    name, _, chosen = ours.rstrip("]").partition("[")
    assert name == project["name"]
    assert set(chosen.split(",")) == set(extras) - {"dev"}
