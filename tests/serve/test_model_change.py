"""Another model for a project: while photos arrive, with a full queue, and over a restart."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from serving import png, pngs
from tadam.classify.embedded import Embedded, Embedder, Eyes
from tadam.classify.reading import ImageSource
from tadam.serve.answers import state_of
from tadam.serve.arrivals import from_bytes, stored_embeddings
from tadam.serve.live import LiveProject
from tadam.serve.prediction_queue import PredictionQueue
from tadam.serve.problem import Refused
from tadam.serve.project import Project
from tadam.serve.serve_settings import ServeSettings
from tadam.serve.studio import Studio


@contextmanager
def opened(folder: Path, model: str = "fc100") -> Iterator[tuple[Studio, LiveProject]]:
    """A studio with one project, which has two classes of three photos when it is new."""
    studio = Studio(ServeSettings(), folder)
    try:
        if not (folder / "mine").exists():
            live = studio.library.create("Mine", model)
            for subject in ("disc", "box"):
                files = [from_bytes(f"{subject}/{n}", c) for n, c in pngs(subject, range(3))]
                studio.add(live, files, by_folder=True)
        live = studio.library.get("mine")
        live.wake()  # as a request for it does
        yield studio, live
    finally:
        studio.close()


def eventually(found: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not found():
        assert time.monotonic() < end
        time.sleep(0.02)


def seen_by(model: str, contents: Sequence[bytes], folder: Path) -> np.ndarray:
    """What a model makes of photos, asked directly."""
    paths = [folder / f"{i}.png" for i in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    return Embedder(model).eyes.embed(paths).z


def all_are_of(live: LiveProject, model: str, count: int) -> bool:
    ids, z = stored_embeddings(live.project, model)
    return len(ids) == count == len(live.project.photos) and bool(np.isfinite(z).all())


def test_a_photo_that_arrives_while_the_model_changes_is_embedded_by_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as (studio, live):
        submit, changes = PredictionQueue.submit, ["imagenet"]

        def slow(
            queue: PredictionQueue, eyes: Eyes, images: Sequence[ImageSource]
        ) -> "Future[Embedded]":
            future = submit(queue, eyes, images)
            if changes:  # the old model has seen the photo; now the model changes
                future.result()
                model = changes.pop()
                live.busy = None  # as if the change had come first
                live.change_model(model)
                eventually(lambda: live.project.model == model)
            return future

        monkeypatch.setattr(PredictionQueue, "submit", slow)
        content = png("disc", 30)
        (number,) = studio.add(live, [from_bytes("late.png", content)]).added
        eventually(lambda: all_are_of(live, "imagenet", 7))
        ids, z = stored_embeddings(live.project, "imagenet")
        folder = tmp_path / "expected"
        folder.mkdir()
        expected = seen_by("imagenet", [content], folder)[0]
        assert z[ids.index(number)] == pytest.approx(expected, abs=1e-4)
        assert len(live.teachable().guesses) == 7


def test_a_full_queue_delays_a_change_and_does_not_end_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as (_, live):
        live.current()
        submit, refused = PredictionQueue.submit, [1, 2]

        def full(
            queue: PredictionQueue, eyes: Eyes, images: Sequence[ImageSource]
        ) -> "Future[Embedded]":
            if refused:
                refused.pop()
                raise Refused(429, "9 photos are waiting already: ask again in 1 s")
            return submit(queue, eyes, images)

        monkeypatch.setattr(PredictionQueue, "submit", full)
        live.change_model("imagenet")
        eventually(lambda: live.project.model == "imagenet")
        assert state_of(live)["problems"] == []


def test_a_change_that_fails_keeps_the_model_and_says_why_until_the_next(tmp_path: Path) -> None:
    with opened(tmp_path, "imagenet") as (_, live):
        before = live.teachable().accuracy
        path = live.project.files.path(live.project.photo(2).digest)
        content = path.read_bytes()
        path.write_bytes(b"no photo")
        live.change_model("fc100")
        eventually(lambda: bool(state_of(live)["problems"]) and live.busy is None)
        live.project.set_fact("name", "Renamed")  # another fit
        live.current()
        (said,) = state_of(live)["problems"]
        assert said["name"] == "the change to fc100"
        assert "disc" in said["detail"]
        assert str(tmp_path) not in said["detail"]
        assert live.project.model == "imagenet"
        path.write_bytes(content)
        assert live.teachable().accuracy == before
        live.change_model("fc100")
        eventually(lambda: live.project.model == "fc100")
        assert state_of(live)["problems"] == []


def test_a_change_that_a_restart_interrupts_goes_on_after_it(tmp_path: Path) -> None:
    with opened(tmp_path) as (_, live):
        live.current()
    folder = tmp_path / "expected"
    folder.mkdir()
    project = Project(tmp_path / "mine")  # as a server leaves it that was killed half-way
    first = project.photo(1)
    z = seen_by("imagenet", [project.files.path(first.digest).read_bytes()], folder)
    with project.database.transaction() as connection:
        project.database.put("next_model", "imagenet")
        connection.execute("INSERT INTO embedding VALUES (1, 'imagenet', ?)", (z[0].tobytes(),))
    project.close()
    with opened(tmp_path) as (_, live):
        eventually(lambda: live.project.model == "imagenet")
        assert all_are_of(live, "imagenet", 6)
        assert stored_embeddings(live.project, "fc100")[0] == []
        assert len(live.teachable().guesses) == 6
        assert live.project.database.get("next_model") is None


def test_photos_that_were_never_embedded_are_when_the_project_is_opened(tmp_path: Path) -> None:
    with opened(tmp_path, "imagenet") as (_, live):
        expected = live.teachable().accuracy
        photo = live.project.photo(3)
    project = Project(tmp_path / "mine")
    with project.database.transaction() as connection:
        connection.execute("DELETE FROM embedding WHERE image_id IN (2, 3)")
    project.close()
    path = tmp_path / "mine" / "images" / photo.digest
    whole = path.read_bytes()
    with opened(tmp_path, "imagenet") as (_, live):
        eventually(lambda: all_are_of(live, "imagenet", 6))
        eventually(lambda: live.failure is None and live.teachable().accuracy == expected)
    project = Project(tmp_path / "mine")
    with project.database.transaction() as connection:
        connection.execute("DELETE FROM embedding WHERE image_id IN (2, 3)")
    project.close()
    path.write_bytes(b"no photo")  # one of them cannot be read any more: the others still teach
    with opened(tmp_path, "imagenet") as (_, live):
        eventually(lambda: bool(state_of(live)["problems"]))
        eventually(lambda: live.failure is None and len(live.teachable().guesses) == 5)
        assert state_of(live)["problems"][0]["name"] == photo.name
    path.write_bytes(whole)
