"""A project of a stranger: what its database says is data, never a path, and damage a sentence."""

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from serving import API, TOKEN, client, in_thread, pngs
from tadam.errors import UserError
from tadam.serve.app import studio_app
from tadam.serve.project import Project
from tadam.serve.serve_settings import ServeSettings


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with four labelled photos."""
    folder = tmp_path_factory.mktemp("honest")
    settings = ServeSettings(port=0, token=TOKEN)
    with in_thread(studio_app(settings, folder), settings) as where, client(where) as web:
        project = web.project("Mine", "fc100")
        for subject in ("disc", "box"):
            number = web.add_class(project, subject)
            web.add(project, pngs(subject, range(2)), class_id=number)
    return folder / "mine"


@pytest.fixture
def mine(honest: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(honest, tmp_path / "projects" / "mine"))


@contextmanager
def edited(folder: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(folder / "project.sqlite")
    with connection:
        yield connection
    connection.close()


def test_a_digest_that_is_a_path_serves_no_file_and_writes_none(mine: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(pngs("disc", [9])[0][1])
    settings = ServeSettings(port=0, token=TOKEN)
    for digest in (str(secret), "../../../secret", "0" * 63, "A" * 64):
        with edited(mine) as connection:
            connection.execute("UPDATE image SET digest=? WHERE id=1", (digest,))
        with (
            in_thread(studio_app(settings, mine.parent), settings) as where,
            client(where) as web,
        ):
            project = f"{API}/projects/mine"
            for path in ("images/1/original", "images/1/thumbnail", "export/zip", "state"):
                answer = web.get(f"{project}/{path}")
                assert answer.status_code == 422, path
                assert "is damaged" in answer.json()["detail"]
            (item,) = web.get(f"{API}/projects").json()
            assert "is damaged" in item["problem"]
    assert not list(tmp_path.glob("*.jpg"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["projects", "secret"]


def test_a_link_among_the_photos_is_refused(mine: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    photo = next((mine / "images").iterdir())
    photo.unlink()
    photo.symlink_to(tmp_path / "secret")
    with pytest.raises(UserError, match="is a link"):
        Project(mine)


@pytest.mark.parametrize(
    ("statement", "value"),
    [
        ("UPDATE history SET changes=?", "[[["),
        ("UPDATE history SET changes=?", "{}"),
        ("UPDATE history SET changes=?", '[["meta", 1, {}, {}]]'),
        ("UPDATE history SET changes=?", '[["image", 1, {"digest": "x"}, {}]]'),
        ("UPDATE history SET changes=?", '[["image", 77, {"deleted": 1}, {"deleted": 0}]]'),
        ("UPDATE history SET changes=?", '[["image", 1, {"deleted": 1}, {"class_id": 77}]]'),
        ("UPDATE history SET changes=?", '[["class", 1, {"name": 3}, {"name": "x"}]]'),
        ("UPDATE history SET changes=?", json.dumps("[" * 100_000)),
        ("UPDATE history SET changes=?", b"\xff"),
        ("UPDATE class SET name=? WHERE id=1", "a\nb"),
        ("UPDATE image SET width=? WHERE id=1", "wide"),
        ("UPDATE image SET format=? WHERE id=1", "/../x"),
        ("UPDATE image SET added=? WHERE id=1", "yesterday"),
        ("UPDATE image SET gradients=? WHERE id=1", b"short"),
        ("UPDATE image SET name=CAST(? AS TEXT) WHERE id=1", b"\xff\xfe"),
    ],
)
def test_a_damaged_row_is_a_sentence(mine: Path, statement: str, value: Any) -> None:
    with edited(mine) as connection:
        connection.execute(statement, (value,))
    photos = sorted(path.name for path in (mine / "images").iterdir())
    with pytest.raises(UserError, match=r"project\.sqlite is damaged") as refused:
        Project(mine)
    assert "\n" not in str(refused.value)
    assert sorted(path.name for path in (mine / "images").iterdir()) == photos


def test_a_database_with_a_broken_page_is_a_sentence_whenever_it_shows(mine: Path) -> None:
    """Pages after the first, which has the names of the tables, are overwritten."""
    path = mine / "project.sqlite"
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xa5" * (len(whole) - 4096))
    settings = ServeSettings(port=0, token=TOKEN)
    with in_thread(studio_app(settings, mine.parent), settings) as where, client(where) as web:
        answer = web.get(f"{API}/projects/mine/state")
        assert answer.status_code == 422, answer.text
        assert "project.sqlite" in answer.json()["detail"]


def test_damage_that_shows_later_is_a_sentence_too(mine: Path) -> None:
    settings = ServeSettings(port=0, token=TOKEN)
    app = studio_app(settings, mine.parent)
    with in_thread(app, settings) as where, client(where) as web:
        assert web.get(f"{API}/projects/mine/state").is_success
        live = app.state.studio.library.get("mine")
        live.project.database.connection.set_authorizer(lambda *_: sqlite3.SQLITE_DENY)
        answer = web.post(f"{API}/projects/mine/classes", json={"name": "new"})
        live.project.database.connection.set_authorizer(None)
        assert answer.status_code == 500
        assert "database cannot be used" in answer.json()["detail"]


def test_what_actions_wrote_opens_again_and_can_be_undone(honest: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(honest, tmp_path / "mine"))
    project = Project(folder)
    project.delete_photos([1])
    project.step(undone=False)  # its photo says False now, not 0
    project.delete_photos([1, 2])
    project.rename_class(1, "coin")
    project.delete_class(2, with_photos=True)
    project.close()
    again = Project(folder)
    try:
        for _ in range(3):
            again.step(undone=False)
        assert [p.id for p in again.live_photos()] == [1, 2, 3, 4]
        assert [b.name for b in again.live_boxes()] == ["disc", "box"]
    finally:
        again.close()


def test_a_damaged_embedding_is_as_if_there_were_none(mine: Path) -> None:
    from tadam.serve.arrivals import stored_embeddings

    with edited(mine) as connection:
        connection.execute("UPDATE embedding SET z=X'00' WHERE image_id=1")
        connection.execute("UPDATE embedding SET z='text' WHERE image_id=2")
    project = Project(mine)
    try:
        ids, z = stored_embeddings(project, "fc100")
    finally:
        project.close()
    assert (ids, len(z)) == ([3, 4], 2)
