"""Other web pages, other machines, hostile names and files: what a server must not do."""

import io
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from mutation import mutated  # tests/attack

from bad_files import CORPUS
from serving import API, TOKEN, Client, client, in_thread, png, pngs
from tadam.serve.app import studio_app
from tadam.serve.security import COOKIE
from tadam.serve.serve_settings import ServeSettings


def sentence(answer: httpx.Response, status: int, *words: str) -> None:
    """An error is a problem document with one sentence, and no traceback."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found = answer.json()
    assert found["status"] == status
    assert found["title"]
    for word in words:
        assert word in found["detail"]
    assert "\n" not in found["detail"]
    assert "Traceback" not in answer.text


def test_a_page_that_rebinds_its_name_to_this_machine_gets_nothing(web: Client) -> None:
    for host in ("evil.example", "evil.example:8000", "127.0.0.1.evil.example", "", "[::2]"):
        sentence(web.get(f"{API}/projects", headers={"Host": host}), 403, "localhost")
    for host in ("localhost:1", "127.0.0.1", "[::1]:80", "studio.localhost"):
        assert web.get(f"{API}/projects", headers={"Host": host}).is_success


def test_a_changing_request_needs_the_token_and_no_foreign_origin(server: str, web: Client) -> None:
    body = {"name": "Forged"}
    with httpx.Client(base_url=server) as stranger:
        for headers in ({}, {"X-Tadam-Token": "wrong"}, {"X-Tadam-Token": TOKEN + "x"}):
            sentence(stranger.post(f"{API}/projects", json=body, headers=headers), 403, "Token")
        for method in ("PATCH", "DELETE", "PUT"):
            sentence(stranger.request(method, f"{API}/projects/x"), 403)
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        assert stranger.post(f"{API}/projects", json=body, headers=bearer).status_code == 201
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        sentence(web.post(f"{API}/projects", json=body, headers=headers), 403, "web page")
        sentence(web.get(f"{API}/projects", headers=headers), 403, "web page")
    assert "access-control-allow-origin" not in web.get(f"{API}/health").headers


def test_a_project_named_predict_is_not_changed_without_the_token(server: str, web: Client) -> None:
    project = web.project("Predict")
    assert project.endswith("/predict")
    with httpx.Client(base_url=server) as stranger:
        sentence(stranger.delete(project), 403, "Token")
        sentence(stranger.patch(project, json={"name": "Mine now"}), 403, "Token")
        for method in ("PUT", "DELETE"):
            sentence(stranger.request(method, f"{project}/predict"), 403, "Token")
        for path in ("/predict", f"{API}/x/predict", f"{project}/images/predict"):
            sentence(stranger.post(path), 403, "Token")
        asked = stranger.post(f"{project}/predict", content=png("disc", 1))
        sentence(asked, 409, "two classes")  # a question needs none
    assert web.delete(project).status_code == 204


def test_odd_headers_of_a_stranger_are_a_sentence(server: str, web: Client) -> None:
    sentence(web.get(f"{API}/projects", headers={"Origin": "http://["}), 403, "web page")


def test_every_answer_forbids_scripts_of_others(web: Client) -> None:
    for path in ("/", f"{API}/docs", f"{API}/health", "/no such page", "/static/swagger/start.js"):
        headers = web.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"


def test_on_another_address_every_request_needs_the_token(tmp_path: Path) -> None:
    settings = ServeSettings(host="0.0.0.0", port=0, token=TOKEN)
    with in_thread(studio_app(settings, tmp_path), settings) as where:
        where = where.replace("0.0.0.0", "127.0.0.1")
        with httpx.Client(base_url=where) as browser:
            assert browser.get(f"{API}/health").is_success  # for load balancers
            sentence(browser.get(f"{API}/projects"), 401, "token")
            sentence(browser.get("/", params={"token": "wrong"}), 401)
            hello = browser.get("/", params={"token": TOKEN})
            assert hello.status_code == 303
            assert hello.headers["location"] == "/"
            cookie = hello.headers["set-cookie"].lower()
            assert "httponly" in cookie
            assert "samesite=strict" in cookie
            assert browser.get(f"{API}/projects").is_success  # by the cookie
            odd = {"Cookie": f"a/b=1; {COOKIE}={TOKEN}"}  # of another server of this host
            with httpx.Client(base_url=where, headers=odd) as other:
                assert other.get(f"{API}/projects").is_success
                sentence(other.get(f"{API}/projects", headers={"Cookie": "a/b=1"}), 401, "token")
            # The cookie alone changes nothing: a browser would send it for another page too.
            sentence(browser.post(f"{API}/projects", json={"name": "x"}), 401)
        with client(where) as owner:
            project = owner.project("far away")
            sentence(owner.post(f"{API}/projects/open", json={"folder": "/"}), 403)
            sentence(owner.patch(project, json={"model": str(tmp_path)}), 422)


def test_names_lead_nowhere(web: Client) -> None:
    project = web.project("../../etc")
    assert "/.." not in project
    hostile = "../../../etc/passwd"
    added = web.add(project, [(hostile, png("disc", 1)), ("<img src=x>.png", png("disc", 2))])
    assert [photo["name"] for photo in added["added"]] == ["passwd", "<img src=x>.png"]
    for path in (
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2fapp.py",
        f"{API}/projects/..%2f..%2fetc/state",
        f"{API}/projects/trash/state",
        f"{project}/images/..%2f1/original",
    ):
        assert web.get(path).status_code in (404, 422), path
    for name in ("", " ", "a\nb", "\x1b[31m", "x" * 201):
        sentence(web.post(f"{project}/classes", json={"name": name}), 422)
    markup = "<script>alert(1)</script>"
    web.add_class(project, markup)
    shown = web.get(f"{project}/state")
    assert shown.headers["content-type"] == "application/json"
    assert shown.json()["classes"][-1]["name"] == markup


def test_a_zip_cannot_escape_and_a_lying_one_is_a_sentence(web: Client) -> None:
    project = web.project("Zips")
    escaping = io.BytesIO()
    with zipfile.ZipFile(escaping, "w") as archive:
        archive.writestr("../../evil.png", png("disc", 1))
    good = io.BytesIO()
    with zipfile.ZipFile(good, "w") as archive:
        archive.writestr("all/disc/1.png", png("disc", 1))
        archive.writestr("all/box/1.png", png("box", 1))
        archive.writestr("all/box/broken.png", b"nothing")
    sent = [
        ("escape.zip", escaping.getvalue()),
        ("lying.zip", b"PK\x03\x04" + b"\0" * 50),
        ("good.zip", good.getvalue()),
    ]
    result = web.add(project, sent, by_folder="true")
    names = {problem["name"] for problem in result["problems"]}
    assert names == {"escape.zip", "lying.zip", "box/broken.png"}
    assert all("/tmp" not in problem["detail"] for problem in result["problems"])
    classes = web.get(f"{project}/state").json()["classes"]
    assert sorted((c["name"], c["count"]) for c in classes) == [("box", 1), ("disc", 1)]


def test_hostile_photos_are_named_and_the_others_stay(web: Client, tmp_path: Path) -> None:
    project = web.project("Hostile")
    files, usable = [], {}
    for name, (make, expected) in CORPUS.items():
        path = tmp_path / name
        make(path)
        if path.is_file() and not path.is_symlink():
            files.append((name, path.read_bytes()))
            usable[name] = expected
    dice = np.random.default_rng(0)
    files += [(f"mutant {i}.png", mutated(png("disc", i), dice)) for i in range(40)]
    result = web.add(project, files)
    bad = {problem["name"] for problem in result["problems"]}
    good = {photo["name"] for photo in result["added"]} | {d["name"] for d in result["duplicates"]}
    assert not bad & good
    assert bad | good == {name for name, _ in files}
    for name, expected in usable.items():
        assert expected is None or (name in good) == expected, name
    for problem in result["problems"]:
        assert "\n" not in problem["detail"]
        assert "/tmp" not in problem["detail"]
    for photo in result["added"]:
        assert web.get(f"{project}/images/{photo['id']}/thumbnail").is_success
    answer = web.post(f"{project}/predict", content=files[0][1] or b"x")
    sentence(answer, 409, "two classes")


def test_a_request_that_is_too_large_is_refused(web: Client) -> None:
    project = web.project("Large")
    large = b"\0" * (20 * 2**20 + 1)
    sentence(web.post(f"{project}/images", files={"files": ("x", large)}), 413, "20 MB")

    def chunks() -> Iterator[bytes]:
        yield from (large[: 2**22] for _ in range(6))

    answer = web.post(f"{project}/predict", content=chunks())
    sentence(answer, 413, "20 MB")

    def form() -> Iterator[bytes]:
        yield b'--x\r\nContent-Disposition: form-data; name="files"; filename="a"\r\n\r\n'
        yield from chunks()

    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    sentence(web.post(f"{project}/images", content=form(), headers=kind), 413, "20 MB")

    def stuck() -> Iterator[bytes]:
        yield next(form())
        time.sleep(2.5)  # the server's patience is 1.5 s

    sentence(web.post(f"{project}/images", content=stuck(), headers=kind), 408, "in time")
    assert web.add(project, pngs("disc", [1]))["added"]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"--x\r\n", "multipart/form-data; boundary=x"),
        (b"", "multipart/form-data"),
        (b"nonsense", "multipart/form-data; boundary=x"),
        (
            b"--x\r\nContent-Disposition: form-data\r\n\r\nv\r\n--x--",
            "multipart/form-data; boundary=x",
        ),
    ],
)
def test_a_broken_form_is_a_sentence(web: Client, body: bytes, kind: str) -> None:
    project = web.project("Forms")
    answer = web.post(f"{project}/images", content=body, headers={"Content-Type": kind})
    assert answer.status_code in (400, 422), answer.text
    sentence(answer, answer.status_code)
