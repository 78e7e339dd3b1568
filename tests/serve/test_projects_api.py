"""A project over HTTP: teach it, ask it, correct it, undo it, take it away and bring it back."""

import io
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import httpx
import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from serving import API, Client, folder_of_classes, png, pngs
from tadam.classify.classifier import FewShotClassifier
from tadam.classify.duplicates import Fingerprint, duplicate_groups
from tadam.models.modelfile import save_model
from tadam.serve import quality
from tadam.serve.live import Busy, LiveProject
from toy_backbones import random_model


def taught(web: Client, name: str, model: str | None = None, each: int = 5) -> tuple[str, int, int]:
    """A project with two classes of photos: its address and their ids."""
    project = web.project(name, model)
    ids = [web.add_class(project, subject) for subject in ("disc", "box")]
    for number, subject in zip(ids, ("disc", "box"), strict=True):
        web.add(project, pngs(subject, range(each)), class_id=number)
    return project, ids[0], ids[1]


def asked(web: Client, project: str, content: bytes) -> dict[str, float]:
    answer = web.post(f"{project}/predict", content=content).json()["answers"][0]
    return {row["label"]: row["probability"] for row in answer["probabilities"]}


@pytest.mark.parametrize("model", ["imagenet", "fc100"])
def test_answers_are_those_of_a_classifier_fitted_to_the_same_photos(
    web: Client, tmp_path: Path, model: str
) -> None:
    project, disc, box = taught(web, f"Sums {model}", model)
    folder = folder_of_classes(tmp_path, range(5), ["disc", "box"])
    # fit sorts the files of a class by name; ids are in the order of arrival, disc first
    files = sorted((folder / "disc").iterdir()) + sorted((folder / "box").iterdir())
    labels = ["disc"] * 5 + ["box"] * 5
    known = FewShotClassifier(model).fit(files, labels)
    for subject, seed in (("disc", 50), ("box", 51), ("wedge", 52)):
        content = png(subject, seed)
        expected = known.classify([content], reject=True)[0]
        answer = web.post(f"{project}/predict", content=content).json()["answers"][0]
        got = {row["label"]: row["probability"] for row in answer["probabilities"]}
        assert [got["box"], got["disc"]] == pytest.approx(expected.probabilities, abs=1e-5)
        assert answer["strangeness"] == pytest.approx(expected.strangeness, abs=1e-3)
        assert answer["unknown"] == expected.unknown
        assert answer["label"] == (None if expected.unknown else expected.label)
    left_out = known.leave_one_out()
    items = web.get(f"{project}/images", params={"sort": "name"}).json()["items"]
    by_name = {item["name"]: item for item in items}
    for file, p in zip(files, left_out.probabilities, strict=True):
        item = by_name[file.name]
        assert item["confidence"] == pytest.approx(float(p.max()), abs=1e-5)
        assert item["guess"] == (box, disc)[int(p.argmax())]
    right = (left_out.probabilities.argmax(axis=1) == left_out.labels).mean()
    assert web.get(f"{project}/quality").json()["accuracy"] == pytest.approx(right)


def test_a_corrected_label_is_learnt_before_the_next_answer(web: Client) -> None:
    project, disc, box = taught(web, "Correct")
    content = png("disc", 60)
    assert asked(web, project, content)["disc"] > 0.5
    items = web.get(f"{project}/images").json()["items"]
    discs = [item["id"] for item in items if item["class_id"] == disc]
    boxes = [item["id"] for item in items if item["class_id"] == box]
    assert web.post(f"{project}/images/assign", json={"ids": discs, "class_id": box}).is_success
    assert web.post(f"{project}/predict", content=content).status_code == 409  # one class is left
    web.post(f"{project}/images/assign", json={"ids": boxes, "class_id": disc})
    assert asked(web, project, content)["box"] > 0.5
    for _ in range(2):
        assert web.post(f"{project}/undo").is_success
    assert asked(web, project, content)["disc"] > 0.5


def test_every_action_can_be_undone_and_done_again(web: Client) -> None:
    project, disc, box = taught(web, "Undo", each=2)
    extra = web.add(project, pngs("wedge", [1, 2]))["added"]
    web.get(f"{project}/quality")  # guesses are there

    def shown() -> object:
        state = web.get(f"{project}/state").json()
        photos = web.get(f"{project}/images", params={"sort": "name"}).json()["items"]
        return (
            [(c["id"], c["name"], c["count"]) for c in state["classes"]],
            [(p["id"], p["class_id"]) for p in photos],
        )

    ids = [photo["id"] for photo in extra]
    actions: list[Callable[[], httpx.Response]] = [
        lambda: web.post(f"{project}/images/assign", json={"ids": ids, "class_id": disc}),
        lambda: web.post(f"{project}/images/assign", json={"ids": ids, "class_id": None}),
        lambda: web.post(f"{project}/images/accept", json={"ids": ids}),
        lambda: web.patch(f"{project}/classes/{box}", json={"name": "crate"}),
        lambda: web.post(f"{project}/classes", json={"name": "third"}),
        lambda: web.post(f"{project}/classes/{box}/merge", json={"into": disc}),
        lambda: web.post(f"{project}/images/delete", json={"ids": ids[:1]}),
        lambda: web.delete(f"{project}/classes/{disc}", params={"photos": "delete"}),
    ]
    stories = [shown()]
    for action in actions:
        done = action()
        assert done.is_success, done.text
        stories.append(shown())
        assert stories[-1] != stories[-2]
    for before in reversed(stories[:-1]):
        assert web.post(f"{project}/undo").is_success
        assert shown() == before
    for after in stories[1:]:
        assert web.post(f"{project}/redo").is_success
        assert shown() == after
    assert web.post(f"{project}/redo").status_code == 409


def test_a_photo_that_is_there_already_is_named_and_a_deleted_one_comes_back(web: Client) -> None:
    project, _disc, _ = taught(web, "Twice", each=2)
    again = web.add(project, [("other name.png", png("disc", 0)), *pngs("wedge", [0])])
    assert [item["name"] for item in again["duplicates"]] == ["other name.png"]
    assert len(again["added"]) == 1
    number = again["duplicates"][0]["id"]
    web.post(f"{project}/images/delete", json={"ids": [number]})
    assert web.get(f"{project}/images/{number}/thumbnail").status_code == 404
    back = web.add(project, pngs("disc", [0]))
    assert [item["id"] for item in back["added"]] == [number]
    assert web.get(f"{project}/images/{number}/original").content == png("disc", 0)


def test_the_same_photo_twice_in_a_request_is_a_duplicate(web: Client) -> None:
    project = web.project("Same", "fc100")
    content = png("disc", 0)
    sent = [("a.png", content), ("b.png", content), ("c.png", png("disc", 1))]
    result = web.add(project, [*sent, ("bad", b"x"), ("bad too", b"x")])
    (first,) = (photo["id"] for photo in result["added"] if photo["name"] == "a.png")
    assert result["duplicates"] == [{"name": "b.png", "id": first}]
    assert len(result["added"]) == 2
    assert [problem["name"] for problem in result["problems"]] == ["bad", "bad too"]


def test_names_and_classes_are_the_same_after_a_zip_goes_out_and_in(web: Client) -> None:
    """Folders of classes whose names differ in what a folder's name may not have stay apart."""
    project = web.project("Round", "fc100")
    for number, name in enumerate(("a/b", "a_b", "A_B")):
        web.add(
            project, [("photo.png", png("disc", number))], class_id=web.add_class(project, name)
        )
    web.add(project, [("photo.png", png("disc", 7)), ("photo.png", png("disc", 8))])
    zipped = web.get(f"{project}/export/zip").content
    names = sorted(zipfile.ZipFile(io.BytesIO(zipped)).namelist())
    folders = ["A_B (3)/photo.png", "a_b (2)/photo.png", "a_b/photo.png"]
    assert names == sorted([*folders, "photo (2).png", "photo.png"])
    for _ in range(2):
        made = web.post(f"{API}/projects/import", files={"files": ("round.zip", zipped)}).json()
        again = f"{API}/projects/{made['project']['id']}"
        assert {c["count"] for c in web.get(f"{again}/state").json()["classes"]} == {1}
        zipped = web.get(f"{again}/export/zip").content
        assert sorted(zipfile.ZipFile(io.BytesIO(zipped)).namelist()) == names


def test_what_is_exported_can_be_imported_and_answers_alike(web: Client, tmp_path: Path) -> None:
    project, _, _ = taught(web, "Travel")
    web.add(project, pngs("wedge", [3]))
    content = png("box", 70)
    expected = asked(web, project, content)
    file = tmp_path / "c.tadam"
    file.write_bytes(web.get(f"{project}/export/tadam").content)
    known = FewShotClassifier.load(file)
    assert known.predict_proba([content])[0] == pytest.approx(
        [expected["box"], expected["disc"]], abs=1e-5
    )
    assert [len(pictures) for pictures in known.support_thumbnails_] == [5, 5]
    zipped = web.get(f"{project}/export/zip").content
    names = zipfile.ZipFile(io.BytesIO(zipped)).namelist()
    assert sum(name.startswith("disc/") for name in names) == 5
    assert sum("/" not in name for name in names) == 1
    for sent, read_only in ((zipped, False), (file.read_bytes(), True)):
        made = web.post(f"{API}/projects/import", files={"files": ("back", sent)})
        assert made.status_code == 201, made.text
        other = f"{API}/projects/{made.json()['project']['id']}"
        assert asked(web, other, content) == pytest.approx(expected, abs=1e-5)
        assert web.get(f"{other}/state").json()["project"]["read_only"] is read_only
    rows = web.get(f"{project}/export/csv").text.splitlines()
    assert len(rows) == 12
    assert rows[0].startswith("photo,name,label,answer")


def test_a_folder_of_classes_becomes_a_project_and_a_project_opens_once(
    web: Client, tmp_path: Path
) -> None:
    folder = folder_of_classes(tmp_path / "mine", range(3), ["disc", "box"])
    made = web.post(f"{API}/projects/open", json={"folder": str(folder)})
    assert made.status_code == 201, made.text
    project = f"{API}/projects/{made.json()['id']}"
    for _ in range(600):
        if web.get(f"{project}/state").json()["counts"]["all"] == 6:
            break
    state = web.get(f"{project}/state").json()
    assert [(c["name"], c["count"]) for c in state["classes"]] == [("box", 3), ("disc", 3)]
    assert sorted(path.name for path in folder.iterdir()) == ["box", "disc"]  # untouched
    assert web.post(f"{API}/projects/open", json={"folder": "/no such"}).status_code == 422


def test_what_is_wrong_with_photos_of_a_folder_shows_in_the_state(
    web: Client, tmp_path: Path
) -> None:
    folder = folder_of_classes(tmp_path / "partly", range(2), ["disc", "box"])
    (folder / "box" / "broken.png").write_bytes(b"no photo")
    made = web.post(f"{API}/projects/open", json={"folder": str(folder)})
    project = f"{API}/projects/{made.json()['id']}"
    for _ in range(600):
        state = web.get(f"{project}/state").json()
        if state["counts"]["all"] == 4 and state["problems"]:
            break
    (problem,) = state["problems"]
    assert problem["name"] == "box/broken.png"
    assert "not an image" in problem["detail"]


def test_the_photos_of_a_zip_are_counted_one_by_one(
    web: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[tuple[int, int]] = []
    show = LiveProject.show

    def noted(live: LiveProject, busy: Busy | None) -> None:
        if busy and busy.what == "adding":
            shown.append((busy.done, busy.total))
        show(live, busy)

    monkeypatch.setattr(LiveProject, "show", noted)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, photo in pngs("disc", range(40)):
            archive.writestr(name, photo)
    project = web.project("Counted", "fc100")
    web.add(project, [("40.zip", content.getvalue()), *pngs("box", [1])])
    assert shown == [(32, 41)]


def test_another_model_embeds_all_photos_anew(web: Client) -> None:
    project, _disc, _ = taught(web, "Models", "fc100", each=2)
    assert web.patch(project, json={"model": "no such model"}).status_code == 422
    assert web.patch(project, json={"model": "imagenet"}).is_success
    for _ in range(600):
        if web.get(project).json()["model"] == "imagenet":
            break
    assert asked(web, project, png("disc", 80))["disc"] > 0.9
    assert web.get(f"{project}/state").json()["busy"] is None


def test_a_deleted_project_is_in_the_trash(web: Client) -> None:
    project = web.project("Gone")
    assert web.delete(project).status_code == 204
    assert web.get(project).status_code == 404
    assert "Gone" not in [item["name"] for item in web.get(f"{API}/projects").json()]


def test_events_tell_of_each_change(web: Client) -> None:
    project = web.project("Watched")
    with web.stream("GET", f"{project}/events") as stream:
        lines = (line for line in stream.iter_lines() if line.startswith(("event", "data")))
        assert next(lines) == "event: state"
        first = next(lines)
        web.add_class(project, "new")
        assert next(lines) == "event: state"
        assert next(lines) != first


def test_copies_are_looked_for_again_only_when_the_photos_change(
    web: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []

    def counted(prints: Sequence[Fingerprint], z: npt.NDArray[np.float32]) -> list[list[int]]:
        counts.append(len(prints))
        return duplicate_groups(prints, z)

    monkeypatch.setattr(quality, "duplicate_groups", counted)
    project, _, box = taught(web, "Kept", each=2)
    turned = Image.open(io.BytesIO(png("disc", 0))).transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    content = io.BytesIO()
    turned.save(content, "PNG")
    first = [web.get(f"{project}/quality").json() for _ in range(2)][1]
    assert counts == [4]
    (new,) = (photo["id"] for photo in web.add(project, [("m.png", content.getvalue())])["added"])
    items = web.get(f"{project}/images").json()["items"]
    (old,) = (item["id"] for item in items if item["name"] == "disc-0.png")
    found = web.get(f"{project}/quality").json()["duplicates"]
    assert any({old, new} <= set(group) for group in found)
    web.post(f"{project}/images/assign", json={"ids": [new], "class_id": box})
    relabelled = web.get(f"{project}/quality").json()
    assert (relabelled["duplicates"], counts) == (found, [4, 5])
    assert [c["count"] for c in relabelled["classes"] if c["id"] == box] == [3]
    web.post(f"{project}/images/delete", json={"ids": [new]})
    assert web.get(f"{project}/quality").json()["duplicates"] == first["duplicates"]


def test_the_onnx_file_gives_the_answers_of_the_project(web: Client, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    save_model(tmp_path / "m.safetensors", *random_model())
    project, *_ = taught(web, "Onnx", str(tmp_path / "m.safetensors"))
    sent = web.get(f"{project}/export/onnx")
    assert sent.status_code == 200, sent.text
    assert 'filename="onnx.onnx"' in sent.headers["content-disposition"].lower()
    session = onnxruntime.InferenceSession(sent.content, providers=["CPUExecutionProvider"])
    content = png("disc", 70)
    pixels = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))
    probabilities, _ = session.run(None, {"images": pixels[None]})
    answer = asked(web, project, content)
    assert [answer["box"], answer["disc"]] == pytest.approx(probabilities[0], abs=1e-4)
