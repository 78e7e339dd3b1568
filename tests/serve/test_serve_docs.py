"""The examples of docs/how-to/serve.md, run as they stand but for address and file names."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from serving import TOKEN, client, in_thread, png
from tadam.serve.classifier_app import classifier_app
from tadam.serve.serve_settings import ServeSettings

TEXT = (Path(__file__).parents[2] / "docs" / "how-to" / "serve.md").read_text(encoding="utf-8")
ADDRESS = "http://127.0.0.1:8000"


def test_curl_and_python_get_answers(classifier_file: Path, tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("there is no curl")
    for i, name in enumerate(("photo", "one", "two")):
        (tmp_path / f"{name}.jpg").write_bytes(png("disc", 300 + i))
    settings = ServeSettings(port=0, token=TOKEN)
    with in_thread(classifier_app(settings, classifier_file), settings) as where:
        commands = re.findall(rf"^curl .*{ADDRESS}/api/v1/predict$", TEXT, re.MULTILINE)
        assert len(commands) == 2
        for command, count in zip(commands, (1, 2), strict=True):
            done = subprocess.run(
                command.replace(ADDRESS, where), shell=True, cwd=tmp_path, capture_output=True
            )
            answers = json.loads(done.stdout)["answers"]
            assert [a["probabilities"][0]["label"] for a in answers] == ["disc"] * count
        (script,) = re.findall(r"```python\n(.+?)```", TEXT, re.DOTALL)
        printed = subprocess.run(
            [sys.executable, "-c", script.replace(ADDRESS, where)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert printed.stdout.startswith("disc "), printed.stderr


def test_curl_with_the_token_adds_a_zip_of_class_folders(server: str, tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("there is no curl")
    with zipfile.ZipFile(tmp_path / "flowers.zip", "w") as photos:
        for number, name in enumerate(("daisy/1.png", "daisy/2.png", "tulip/1.png")):
            photos.writestr(name, png("disc", 400 + number))
    (command,) = re.findall(r"^curl -H .+?\\\n +\S+/images$", TEXT, re.MULTILINE)
    with client(server) as web:
        project = web.project("flowers")
        done = subprocess.run(
            command.replace(ADDRESS, server),
            shell=True,
            cwd=tmp_path,
            capture_output=True,
            env={**os.environ, "TADAM_TOKEN": TOKEN},
        )
        assert len(json.loads(done.stdout)["added"]) == 3
        classes = web.get(f"{project}/state").json()["classes"]
    assert [(c["name"], c["count"]) for c in classes] == [("daisy", 2), ("tulip", 1)]


def test_every_request_in_the_table_is_one_of_the_api(server: str) -> None:
    with client(server) as web:
        document = web.get("/api/v1/openapi.json").json()
    rows = re.findall(r"^\| `(GET|POST) (/\S+)` \|", TEXT, re.MULTILINE)
    assert len(rows) > 5
    for method, path in rows:
        assert method.lower() in document["paths"][path.replace("NAME", "{p}")]
