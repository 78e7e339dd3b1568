"""What `tadam serve` does before it listens: names that are mistyped, and the browser."""

from pathlib import Path

import pytest

from serving import TOKEN
from tadam.cli.serve import ScaleOptions, _serve_file
from tadam.errors import UserError
from tadam.serve.library import checked_folder
from tadam.serve.serve_settings import ServeSettings


def test_a_mistyped_classifier_is_refused_and_becomes_no_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there is no file .*flowrs\.tadam: check its name"):
        checked_folder(tmp_path / "flowrs.tadam")
    assert list(tmp_path.iterdir()) == []
    new = tmp_path / "projects"
    assert checked_folder(new) == (new, None)
    assert new.is_dir()


def test_workers_open_the_page_too(classifier_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr("webbrowser.open", shown.append)
    monkeypatch.setattr("tadam.serve.run.Multiprocess.run", lambda _: None)
    monkeypatch.setenv("TADAM_SERVE", "")  # so that it is put back afterwards
    settings = ServeSettings(port=0, token=TOKEN)
    _serve_file(classifier_file, settings, True, ScaleOptions(workers=2))
    (where,) = shown
    assert where.startswith("http://127.0.0.1:")
