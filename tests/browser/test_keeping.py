"""What one keeps: files to take away, photos that come back, and a server that was killed."""

import csv
import io
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Browser, expect

from photo_files import photo_file
from running_studio import RunningStudio
from studio_page import StudioPage
from tadam.classify.classifier import FewShotClassifier
from tadam.serve.drawings import drawing, jpeg

Open = Callable[..., StudioPage]
NAMES = ("Boat", "House")


def taught_project(server: RunningStudio, model: str, name: str = "Kept") -> str:
    """A project with two classes of four photos and one without a label, made by the API."""
    project: str = server.post("/projects", name=name, model=model)["id"]
    for subject in NAMES:
        files = {f"{subject}/{subject}-{n}.jpg": jpeg(drawing(subject, n, 64)) for n in range(4)}
        server.add(project, files, by_folder=True)
    server.add(project, {"new.jpg": jpeg(drawing("House", 50, 64))})
    return project


def download(studio: StudioPage, what: str, folder: Path) -> Path:
    studio.view("Take it with you")
    name = f"Download: {what}"
    link = studio.page.get_by_role("button", name=name).or_(
        studio.page.get_by_role("link", name=name)
    )
    with studio.page.expect_download() as found:
        link.click()
    path = folder / found.value.suggested_filename
    found.value.save_as(path)
    return path


def test_all_of_it_can_be_taken_away_and_brought_back(
    open_studio: Open, server: RunningStudio, small_model: str, tmp_path: Path
) -> None:
    studio = open_studio(server, taught_project(server, small_model, "Blumen für Oma"))
    studio.counts("Boat", 4)
    # The file answers as the page does, with tadam alone.
    question = photo_file("House", 60)
    studio.drop(studio.answer, [question])
    bars = studio.answer.get_by_role("list", name="Probabilities").get_by_role("listitem")
    expect(bars).to_have_count(2)
    file = download(studio, "Classifier", tmp_path)
    expect(studio.page.get_by_label("In Python", exact=True)).to_contain_text(f'"{file.name}"')
    classifier = FewShotClassifier.load(file)
    sure = classifier.predict_proba([question["buffer"]])[0]
    expect(bars.first).to_contain_text(str(classifier.classes_[sure.argmax()]))
    assert download(studio, "ONNX", tmp_path).stat().st_size > 100
    with zipfile.ZipFile(download(studio, "Photos", tmp_path)) as archive:
        kinds = [name.partition("/")[0] for name in archive.namelist() if "/" in name]
        assert sorted(kinds) == ["Boat"] * 4 + ["House"] * 4
    expect(studio.page.get_by_role("status").filter(has_text="Packing 9 photos")).to_be_visible()
    rows = list(csv.reader(io.StringIO(download(studio, "Answers", tmp_path).read_text("utf-8"))))
    assert len(rows) == 1 + 9
    # Back in: as a new project, and into one that has the photos already.
    packed = next(tmp_path.glob("*.zip"))
    studio.choose(
        studio.page.get_by_role("button", name="Choose a zip"),
        [{"name": "back.zip", "mimeType": "application/zip", "buffer": packed.read_bytes()}],
    )
    studio.says("9 photos were there already.")
    studio.page.get_by_role("link", name="all projects").click()
    open_file = studio.page.get_by_role("button", name="Choose a .zip or .tadam file")
    zipped = {"name": "Again.zip", "mimeType": "", "buffer": packed.read_bytes()}
    studio.choose(open_file, [zipped])
    expect(studio.page.get_by_role("heading", name="Again", level=1)).to_be_visible()
    for name in NAMES:
        studio.counts(name, 4)
    # A .tadam file only answers.
    studio.page.get_by_role("link", name="all projects").click()
    studio.choose(open_file, [{"name": "Only.tadam", "mimeType": "", "buffer": file.read_bytes()}])
    expect(studio.page.get_by_role("heading", name="Only", level=1)).to_be_visible()
    studio.drop(studio.answer, [question])
    expect(bars).to_have_count(2)
    expect(studio.grid).to_have_count(0)


def test_a_folder_of_this_machine_opens_as_a_project(
    open_studio: Open, server: RunningStudio, tmp_path: Path
) -> None:
    for name in NAMES:
        (tmp_path / "book" / name).mkdir(parents=True)
        (tmp_path / "book" / name / "1.jpg").write_bytes(jpeg(drawing(name, 1, 48)))
    studio = open_studio(server)
    studio.expect_complaint("422")
    studio.page.get_by_label("Path of the folder").fill(str(tmp_path / "nowhere"))
    studio.page.get_by_role("button", name="Open", exact=True).click()
    studio.says("nowhere")
    studio.page.get_by_label("Path of the folder").fill(str(tmp_path / "book"))
    studio.page.get_by_role("button", name="Open", exact=True).click()
    for name in NAMES:
        studio.counts(name, 1)


def test_reloading_the_page_loses_nothing(
    open_studio: Open, server: RunningStudio, small_model: str
) -> None:
    studio = open_studio(server, taught_project(server, small_model, "Reloaded"))
    studio.drawn()
    studio.grid.focus()
    studio.page.keyboard.press("Control+a")
    studio.page.keyboard.press("2")
    studio.counts("House", 9)
    studio.page.reload()
    studio.counts("House", 9)
    studio.page.get_by_role("button", name=re.compile("^Undo: ")).click()
    studio.counts("House", 4)


def test_after_a_kill_everything_is_there_and_the_page_goes_on(
    browser: Browser, open_studio: Open, small_model: str, tmp_path: Path
) -> None:
    own = RunningStudio(tmp_path / "projects", tmp_path / "log.txt")
    try:
        studio = open_studio(own, taught_project(own, small_model))
        studio.counts("Boat", 4)
        studio.drop(studio.box("Boat"), [photo_file("Boat", n) for n in range(20, 23)])
        studio.counts("Boat", 7)
        studio.expect_complaint("Failed to load resource", "ERR_")
        many = [photo_file("House", n) for n in range(100, 180)]
        studio.drop(studio.box("House"), many)
        expect(studio.page.get_by_role("progressbar")).to_be_visible()
        own.kill()
        expect(studio.page.get_by_role("alert")).to_contain_text("nothing is lost")
        own.start()
        expect(studio.page.get_by_role("alert")).to_have_count(0)
        studio.counts("Boat", 7)
        # What had arrived is there, the rest is added by dropping the same photos again.
        studio.drop(studio.box("House"), many)
        studio.counts("House", 84)
        studio.new_class("Tree")
    finally:
        own.stop()


def test_a_served_file_shows_only_the_answers(
    browser: Browser, open_studio: Open, small_model: str, tmp_path: Path
) -> None:
    images = [drawing(name, n, 64) for name in NAMES for n in range(4)]
    labels = [name for name in NAMES for _ in range(4)]
    file = tmp_path / "book.tadam"
    FewShotClassifier(small_model).fit(images, labels).save(file)
    own = RunningStudio(file, tmp_path / "log.txt", "--host", "0.0.0.0", "--token", "let-me-in")
    own.address = re.sub("//[^:]+:", "//0.0.0.0:", own.address)
    try:
        studio = open_studio(own)
        expect(studio.page.locator("body")).to_contain_text("wants its token")
        studio.errors.clear()
        # Without HTTPS, browsers leave one of the server's headers aside, and say so.
        studio.expect_complaint("Cross-Origin-Opener-Policy")
        studio.page.goto(f"{own.address}/?token=let-me-in")
        expect(studio.page.get_by_role("heading", name="book.tadam", level=1)).to_be_visible()
        # Who asks from another machine needs the token.
        curl = studio.page.get_by_label("Over HTTP", exact=False).last
        expect(curl).to_contain_text('curl -H "Authorization: Bearer $TOKEN" -F')
        expect(curl).to_contain_text(f"{own.address}/api/v1/predict")
        studio.drop(studio.answer, [photo_file("Boat", 70)])
        bars = studio.answer.get_by_role("list", name="Probabilities").get_by_role("listitem")
        expect(bars).to_have_count(2)
        assert studio.violations() == []
    finally:
        own.stop()
