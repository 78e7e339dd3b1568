"""Pages on photos in docs/how-to: every command and every line of Python in them runs."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from command_line import CommandLine
from photos import SUBJECTS, photo
from tadam.models import find, resolve
from tadam.models.modelfile import save_model
from toy_backbones import random_model

DOCS = Path(__file__).parents[2] / "docs" / "how-to"
FLOWERS = dict(zip(("daisy", "rose", "tulip"), SUBJECTS, strict=True))


def folder(root: Path, *names: str, start: int = 0, each: int = 6) -> None:
    """Photos in a sub-folder for each name, which may have slashes."""
    for name in names:
        (root / name).mkdir(parents=True)
        for i in range(start, start + each):
            subject = FLOWERS.get(name, list(SUBJECTS)[len(name) % 3])
            photo(subject, i).save(root / name / f"{i}.png")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with everything that the pages take for granted; a small model is the default."""
    model = tmp_path / "model" / "m.safetensors"
    model.parent.mkdir()
    save_model(model, *random_model())
    for module in (find, resolve):
        monkeypatch.setattr(module, "default_model", lambda: str(model))
        monkeypatch.setattr(module, "what_is_missing", lambda: None)
    monkeypatch.chdir(tmp_path)
    folder(Path("flowers"), *FLOWERS)
    folder(Path("labelled"), *FLOWERS, start=100)
    folder(Path("with-others"), *FLOWERS, "unknown", start=200, each=2)
    folder(Path("more"), "rose", "lily", start=300, each=2)
    folder(Path("fruit"), "Apple/Gala", "Apple/Fuji", "Pear", each=2)
    Path("unsorted").mkdir()
    for file in sorted(Path("labelled").glob("*/*")):
        shutil.copy(file, Path("unsorted") / f"{file.parent.name}-{file.name}")
    shutil.make_archive("flowers", "zip", "flowers")
    rows = [f"{file},{file.parent.name}" for file in sorted(Path("flowers").glob("*/*"))]
    Path("labels.csv").write_text("\n".join(["path,label", *rows]))
    photo("box", 1).save("a.jpg")
    photo("disc", 1).save("b.png")
    return tmp_path


def blocks(page: str, language: str = "") -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(("page", "least"), [("classify.md", 15), ("check.md", 3)])
def test_the_commands_of_the_page_run_in_their_order(
    tadam: CommandLine, home: Path, page: str, least: int
) -> None:
    lines = [line for block in blocks(page) for line in block.splitlines() if line.strip()]
    assert len(lines) >= least
    for line in lines:
        words = shlex.split(line, comments=True)
        assert words[0] == "tadam"
        result = tadam(*words[1:])
        assert result.code == 0, f"{line}\n{result.err}"
        written = [words[i + 1] for i, w in enumerate(words) if w in ("-o", "--csv", "--report")]
        assert all(Path(name).is_file() for name in written), line
    if page == "classify.md":
        assert len(list(Path("unsorted").iterdir())) == 18
        assert not any(path.is_dir() for path in Path("sorted").iterdir())  # undone


def test_the_python_of_the_page_runs(home: Path) -> None:
    (code,) = blocks("classify.md", "python")
    images = [photo(subject, 50) for subject in SUBJECTS]
    names = {"images": images, "more_images": images, "more_labels": ["daisy", "rose", "iris"]}
    exec(code, names)
    classifier = names["classifier"]
    assert classifier.classes_.tolist() == ["daisy", "iris", "rose"]  # type: ignore[attr-defined]
