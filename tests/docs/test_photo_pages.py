"""Pages on photos: every command and every line of Python in them runs."""

import csv
import shlex
import shutil
from pathlib import Path

import httpx
import pytest

from command_line import CommandLine
from fenced import blocks
from photos import SUBJECTS, photo
from serving import TOKEN, in_thread
from tadam.models import find, resolve
from tadam.models.modelfile import save_model
from tadam.serve.classifier_app import classifier_app
from tadam.serve.serve_settings import ServeSettings
from toy_backbones import random_model

DOCS = Path(__file__).parents[2] / "docs"
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


def page_blocks(page: str, language: str = "") -> list[str]:
    return blocks((DOCS / page).read_text(encoding="utf-8"), language)


def run_lines(tadam: CommandLine, block: str) -> int:
    """Runs each line of a block and looks whether it wrote what it names; says how many."""
    lines = [line for line in block.splitlines() if line.strip()]
    for line in lines:
        words = shlex.split(line, comments=True)
        assert words[0] == "tadam"
        result = tadam(*words[1:])
        assert result.code == 0, f"{line}\n{result.err}"
        written = [words[i + 1] for i, w in enumerate(words) if w in ("-o", "--csv", "--report")]
        assert all(Path(name).is_file() for name in written), line
    return len(lines)


@pytest.mark.parametrize(("page", "least"), [("classify.md", 15), ("check.md", 3)])
def test_the_commands_of_the_page_run_in_their_order(
    tadam: CommandLine, home: Path, page: str, least: int
) -> None:
    assert sum(run_lines(tadam, block) for block in page_blocks(f"how-to/{page}")) >= least
    if page == "classify.md":
        assert len(list(Path("unsorted").iterdir())) == 18
        assert not any(path.is_dir() for path in Path("sorted").iterdir())  # undone


def test_the_page_on_none_of_these_runs(tadam: CommandLine, home: Path) -> None:
    page = "how-to/none-of-these.md"
    assert sum(run_lines(tadam, block) for block in page_blocks(page)) == 6
    assert Path("sorted").is_dir()
    (code,) = page_blocks(page, "python")
    exec(code, {})


def test_the_page_on_labelling_less_runs_with_its_list_filled_in(
    tadam: CommandLine, home: Path
) -> None:
    suggest, add = page_blocks("how-to/label-less.md")
    (example,) = page_blocks("how-to/label-less.md", "text")
    run_lines(tadam, suggest)
    before = tadam("info", "flowers.tadam", "--json").out
    with Path("next.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == example.splitlines()[0].split(",")
    assert {row["label"] for row in rows} == {""}
    filled = [{**row, "label": Path(row["path"]).name.partition("-")[0]} for row in rows]
    with Path("next.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(filled[0]))
        writer.writeheader()
        writer.writerows(filled[1:])  # one line was deleted
    run_lines(tadam, add)
    assert tadam("info", "flowers.tadam", "--json").out != before


def test_the_first_classifier_is_drawn_learnt_asked_and_served(
    tadam: CommandLine, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree("flowers")
    shutil.rmtree("unsorted")
    page = "start/first-classifier.md"
    draw, load = page_blocks(page, "python")
    learn, ask, serve, curl = page_blocks(page)
    exec(draw, {})
    assert sorted(path.name for path in Path("flowers").iterdir()) == ["daisy", "rose", "tulip"]
    assert run_lines(tadam, learn) + run_lines(tadam, ask) == 3
    exec(load, {})
    assert capsys.readouterr().out.count("\n") == 4  # three answers on a line, three rows
    assert serve.split() == ["tadam", "serve", "flowers.tadam"]
    settings = ServeSettings(port=0, token=TOKEN)
    with in_thread(classifier_app(settings, Path("flowers.tadam")), settings) as where:
        program, option, file, address = curl.split()
        assert (program, option) == ("curl", "--data-binary")
        assert Path(file[1:]).is_file()
        answer = httpx.post(
            address.replace("http://127.0.0.1:8000", where), content=Path(file[1:]).read_bytes()
        ).json()
    assert answer["answers"][0]["probabilities"][0]["label"] in ("daisy", "rose", "tulip")


def test_the_python_of_the_page_runs(home: Path) -> None:
    (code,) = page_blocks("how-to/classify.md", "python")
    images = [photo(subject, 50) for subject in SUBJECTS]
    names = {"images": images, "more_images": images, "more_labels": ["daisy", "rose", "iris"]}
    exec(code, names)
    classifier = names["classifier"]
    assert classifier.classes_.tolist() == ["daisy", "iris", "rose"]  # type: ignore[attr-defined]
