"""`tadam data ...` and `--data`: what there is, where it is, and what is wrong with it."""

import json
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from PIL import Image

from command_line import CommandLine, assert_one_sentence
from data_files import md5, write_cifar100
from tadam.data import catalogue, cifar100
from tadam.data.catalogue import SOURCES
from tadam.data.mini_imagenet import MINI_IMAGENET
from tadam.data.source import Download
from tiny import SETTINGS, arguments, write_image_folder


@pytest.fixture
def tadam(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> CommandLine:
    """Runs `tadam ARGS` in this process, with no data but what --data names."""
    monkeypatch.setenv("TADAM_DATA", str(tmp_path / "nowhere"))  # and undoes what --data sets
    return CommandLine(monkeypatch, capsys)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with a small CIFAR-100, seven images of a class."""
    root = tmp_path / "data"
    write_cifar100(root, train=6)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cifar100, "_IMAGES_PER_CLASS", 7)
    for path in cifar100.find(root):
        monkeypatch.setitem(cifar100._MD5, path.name, md5(path))
    return root


def test_list_says_what_there_is_and_where(
    tadam: CommandLine, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tadam.reports.terminal.out._width", 300)  # no path is broken into lines
    text = tadam("data", "list", "--data", data).out
    for source in SOURCES:
        assert f"{source.name}  {source.summary}\n" in text
        assert f"{source.classes} classes, {source.images} images, {source.size}; licence:" in text
    assert f"found: {data / 'cifar-100-python'}" in text
    assert f"not in {data}: run 'tadam data prepare omniglot'" in text
    assert f"not in {tmp_path / 'nowhere'}" not in text


def test_list_fits_80_columns(
    tadam: CommandLine, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tadam.reports.terminal.out._width", 80)
    lines = tadam("data", "list", "--data", data).out.splitlines()
    assert max(map(len, lines)) <= 80


def test_list_comes_as_json(tadam: CommandLine, data: Path) -> None:
    descriptions = json.loads(tadam("data", "list", "--data", data, "--json").out)
    assert [d["name"] for d in descriptions] == [source.name for source in SOURCES]
    fc100 = next(d for d in descriptions if d["name"] == "fc100")
    assert fc100["classes"] == "60/20/20"
    assert fc100["where"] == f"found: {data / 'cifar-100-python'}"


def test_train_and_evaluate_find_data_by_option(
    tadam: CommandLine, data: Path, tmp_path: Path
) -> None:
    settings = arguments(tuple(s for s in SETTINGS if not s.startswith("data.")))
    run = tmp_path / "run"
    common = ("--dataset", "fc100", "--data", data)
    result = tadam("train", "images", *common, "--out", run, *settings)
    assert result.code == 0, result.err
    shape = ("--way", 2, "--shot", 1, "--queries", 4, "--tasks", 2)
    result = tadam("evaluate", run, *common, *shape, "--json")
    assert json.loads(result.out)["dataset"] == "fc100"


def test_the_option_wins_over_the_variable(tadam: CommandLine, data: Path) -> None:
    result = tadam("data", "verify", "fc100")
    assert_one_sentence(result, "fc100 is not in", "nowhere", "--data")
    assert tadam("data", "verify", "fc100", "--data", data).out == "fc100: all good\n"


def test_a_relative_folder_is_meant_from_here(
    tadam: CommandLine, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data.parent)
    assert tadam("data", "verify", "fc100", "--data", "data").code == 0
    assert os.environ["TADAM_DATA"] == str(data)  # so that other processes find it too


def test_prepare_says_what_was_prepared(tadam: CommandLine, data: Path) -> None:
    text = tadam("data", "prepare", "fc100", "--data", data).out
    assert "train: 60 classes, 420 images" in text
    assert "test: 20 classes, 140 images" in text


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A server that publishes a small CIFAR-100, and the folder that it serves."""
    folder = tmp_path / "published"
    write_cifar100(folder, archive=True)
    checksum = md5(folder / cifar100._ARCHIVE)
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    monkeypatch.setattr(SimpleHTTPRequestHandler, "log_message", lambda *_: None)
    monkeypatch.setattr(cifar100, "_IMAGES_PER_CLASS", 3)
    monkeypatch.setitem(cifar100._MD5, cifar100._ARCHIVE, checksum)
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/{cifar100._ARCHIVE}"
        source = replace(cifar100.FC100, downloads=(Download(url, cifar100._ARCHIVE, checksum),))
        monkeypatch.setattr(catalogue, "SOURCES", (source, MINI_IMAGENET))
        yield folder
        server.shutdown()


def test_prepare_downloads_what_is_not_there(
    tadam: CommandLine, published: Path, tmp_path: Path
) -> None:
    root = tmp_path / "new"
    result = tadam("data", "prepare", "fc100", "--data", root)
    assert "train: 60 classes, 180 images" in result.out
    assert [path.name for path in root.iterdir()] == [cifar100._ARCHIVE]
    (published / cifar100._ARCHIVE).unlink()  # it is not asked for again
    assert tadam("data", "prepare", "fc100", "--data", root).code == 0
    assert tadam("data", "verify", "fc100", "--data", root).out == "fc100: all good\n"


def test_a_download_that_fails_is_one_sentence(
    tadam: CommandLine, published: Path, tmp_path: Path
) -> None:
    (published / cifar100._ARCHIVE).unlink()
    result = tadam("data", "prepare", "fc100", "--data", tmp_path / "new")
    assert_one_sentence(result, "404", str(tmp_path / "new" / cifar100._ARCHIVE), code=1)


def test_a_data_folder_that_cannot_be_written_is_one_sentence(
    tadam: CommandLine, published: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    result = tadam("data", "prepare", "fc100", "--data", tmp_path / "file")
    assert_one_sentence(result, "file")


def test_prepare_says_what_to_put_where_if_there_is_no_download(
    tadam: CommandLine, published: Path, tmp_path: Path
) -> None:
    result = tadam("data", "prepare", "mini_imagenet", "--data", tmp_path)
    assert_one_sentence(result, "put mini-imagenet/mini-imagenet-cache-{train,val,test}.pkl")


def test_verify_names_each_problem_and_fails(tadam: CommandLine, data: Path) -> None:
    (data / "cifar-100-python" / "test").write_bytes(b"not it")
    result = tadam("data", "verify", "fc100", "--data", data)
    assert "is not the published file" in result.out
    assert_one_sentence(result, "fc100: 1 problem found", code=1)


def test_show_draws_a_sheet(tadam: CommandLine, data: Path, tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.png"
    command = ("data", "show", "fc100", "--split", "val", "--out", sheet, "--data", data)
    assert tadam(*command).out == f"written: {sheet}\n"
    with Image.open(sheet) as image:
        assert image.height == 20 * 50
    assert_one_sentence(tadam(*command), "exists", "--force")
    assert tadam(*command, "--force").code == 0
    into = (*command[:-4], "--out", tmp_path, "--data", data)
    assert_one_sentence(tadam(*into, "--force"), "is a folder: name a file in it")


def test_a_sheet_of_this_folder_is_called_after_it(
    tadam: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(write_image_folder(tmp_path / "flowers", classes=3))
    assert tadam("data", "show", "folder:.").out == "written: flowers-train.png\n"


@pytest.mark.parametrize("text", ["train = [", "train = ['rose']", "\ufefftrain = 1"])
def test_verify_looks_at_the_splits_too(tadam: CommandLine, tmp_path: Path, text: str) -> None:
    folder = write_image_folder(tmp_path / "flowers", classes=3)
    assert tadam("data", "verify", f"folder:{folder}").code == 0
    (folder / "splits.toml").write_text(text, encoding="utf-8")
    result = tadam("data", "verify", f"folder:{folder}")
    assert "splits.toml" in result.out
    assert result.code == 1
