"""A server that is killed, a folder that another one has, a disk that is full."""

import errno
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import httpx
import pytest

from serving import API, TOKEN, as_process, client, folder_of_classes, in_thread, png
from tadam.serve.app import studio_app
from tadam.serve.photo_files import StoredPhotos
from tadam.serve.project import Project
from tadam.serve.serve_settings import ServeSettings


def test_after_kill_9_amid_100_uploads_each_acknowledged_photo_is_there_and_no_half_one(
    tmp_path: Path,
) -> None:
    acknowledged: set[str] = set()
    enough = threading.Event()
    with as_process(tmp_path) as (process, where), client(where) as web:
        project = web.project("Killed", "fc100")

        def send(i: int) -> None:
            name = f"{i}.png"
            try:
                answer = web.post(f"{project}/images", files={"files": (name, png("disc", i))})
            except httpx.HTTPError:
                return
            if answer.status_code == 200:
                acknowledged.update(photo["name"] for photo in answer.json()["added"])
            if len(acknowledged) >= 30:
                enough.set()

        with ThreadPoolExecutor(8) as pool:
            sent = [pool.submit(send, i) for i in range(100)]
            assert enough.wait(120)
            process.send_signal(signal.SIGKILL)
            for future in sent:
                future.result()
    assert 30 <= len(acknowledged) < 100
    opened = Project(tmp_path / "killed")
    try:
        photos = opened.live_photos()
        assert acknowledged <= {photo.name for photo in photos}
        stored = {photo.digest: photo.name for photo in photos}
        for digest, name in stored.items():
            content = opened.files.path(digest).read_bytes()
            assert content == png("disc", int(name.partition(".")[0]))
        assert {path.name for path in (tmp_path / "killed" / "images").iterdir()} == set(stored)
        assert opened.actions()[0] == "Add 1 photo"
    finally:
        opened.close()


def test_a_second_server_on_the_same_folder_is_refused_in_a_sentence(tmp_path: Path) -> None:
    settings = ServeSettings(port=0, token=TOKEN)
    with in_thread(studio_app(settings, tmp_path), settings) as where, client(where) as web:
        web.project("Mine", "fc100")
        for folder in (tmp_path, tmp_path / "mine"):
            command = [sys.executable, "-m", "tadam", "serve", str(folder), "--port", "0"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
            assert done.returncode == 1
            assert f"process {os.getpid()} on" in done.stderr
            assert "still writing" in done.stderr
            assert "Traceback" not in done.stderr


def test_a_full_disk_is_a_sentence_and_loses_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("this user may not mount a small file system")
    settings = ServeSettings(port=0, token=TOKEN)
    try:
        with in_thread(studio_app(settings, folder), settings) as where, client(where) as web:
            project = web.project("Full", "fc100")
            kept = web.add(project, [("first.png", png("disc", 1))])["added"]
            ballast = folder / "ballast"
            with open(ballast, "wb", buffering=0) as file, suppress(OSError):
                while file.write(b"\0" * 4096):
                    pass
            answer = web.post(f"{project}/images", files={"files": ("x.png", png("box", 1))})
            assert answer.status_code == 507, answer.text
            assert "disk is full" in answer.json()["detail"]
            listed = web.get(f"{project}/images").json()["items"]
            assert [photo["id"] for photo in listed] == [kept[0]["id"]]
            ballast.unlink()
            assert len(web.add(project, [("x.png", png("box", 1))])["added"]) == 1
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_fills_up_amid_a_request_keeps_what_was_done_and_says_how_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    receive, received = StoredPhotos.receive, iter(range(1000))

    def filling(files: StoredPhotos, content: BinaryIO) -> tuple[Path, str]:
        if next(received) >= 32:  # photos are committed 32 at a time
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return receive(files, content)

    monkeypatch.setattr(StoredPhotos, "receive", filling)
    settings = ServeSettings(port=0, token=TOKEN)
    subjects = ("disc", "box") * 20
    parts = [("files", (f"{s}/{i}.png", png(s, i))) for i, s in enumerate(subjects)]
    with in_thread(studio_app(settings, tmp_path), settings) as where, client(where) as web:
        project = web.project("Filling", "fc100")
        answer = web.post(f"{project}/images", files=parts, data={"by_folder": "true"})
        assert answer.status_code == 507, answer.text
        assert "only 32 photos of this request fitted" in answer.json()["detail"]
        assert web.get(f"{project}/images").json()["total"] == 32
        # What was kept has been learnt, too.
        assert web.post(f"{project}/predict", content=png("disc", 90)).is_success
        nothing = web.post(f"{project}/images", files=parts[36:])
        assert nothing.status_code == 507
        assert "nothing of this request was kept" in nothing.json()["detail"]
        assert web.get(f"{project}/images").json()["total"] == 32
        assert web.get(f"{project}/state").json()["undo"]["undo"] == "Add 32 photos"


def test_a_folder_of_classes_on_the_command_line_becomes_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_of_classes(tmp_path / "mine", range(2), ["disc", "box"])
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with as_process(folder) as (_, where), client(where) as web:
        assert [item["name"] for item in web.get(f"{API}/projects").json()] == ["mine"]
