"""docs/how-to/logging.md: every example runs, and the tracker has what the run's own log has."""

import functools
import importlib
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import tadam
from tadam.training.log import read_log
from tadam.training.reporter import Reporter

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "logging.md").read_text("utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.S | re.M)
SETTINGS = (
    "schedule.episodes=4",
    "validation.every=2",
    "validation.tasks=2",
    "backbone.width=4",
    "run.log_every=1",
)


@pytest.fixture
def short_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes `tadam.train` quick, in an empty folder."""
    quick = functools.partial(tadam.train, settings=SETTINGS, device="cpu")
    monkeypatch.setattr(tadam, "train", quick)
    monkeypatch.chdir(tmp_path)


def run_example(word: str) -> dict[str, Any]:
    (code,) = (example for example in EXAMPLES if f"runs/{word}" in example)
    names: dict[str, Any] = {"__name__": "page"}
    exec(code, names)
    return names


def pieces(contents: bytes) -> Iterator[bytes]:
    """The entries of LevelDB's log format, in which W&B keeps a run after a header of 7 bytes.

    A block of 32 KiB holds chunks, each after its checksum, length and kind; an entry is one chunk
    of kind 1, or chunks of kinds 2, 3, ..., 3, 4.
    """
    block, at, entry = 2**15, 7, b""
    while at + 7 <= len(contents):
        if block - at % block < 7:  # too little room for a chunk's head: padding
            at += block - at % block
            continue
        _, length, kind = struct.unpack_from("<IHB", contents, at)
        entry += contents[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            yield entry
            entry = b""


def logged(run: str, name: str) -> list[tuple[int, Any]]:
    """Step and value, from the run's own log."""
    records = read_log(Path("runs") / run)
    return [(record["step"], record[name]) for record in records if name in record]


def test_the_table_of_the_page_has_every_method_of_a_reporter() -> None:
    signatures = re.findall(r"^\| `(\w+)\((.*?)\)` \|", PAGE, re.M)
    ours = {name: method for name, method in vars(Reporter).items() if not name.startswith("_")}
    assert dict(signatures) == {
        name: ", ".join(method.__code__.co_varnames[1 : method.__code__.co_argcount])
        for name, method in ours.items()
    }


@pytest.mark.usefixtures("short_runs")
def test_a_reporter_of_one_method_prints_the_validations(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_example("lines")
    first, second = capsys.readouterr().out.splitlines()
    (_, early), (_, late) = logged("lines", "val_accuracy")
    assert first == f"step 2: {early:.1%} (best so far)"
    assert second == f"step 4: {late:.1%}" + (" (best so far)" if late > early else "")


@pytest.mark.usefixtures("short_runs")
def test_tensorboard_reads_back_what_was_logged() -> None:
    run_example("board")
    events = EventAccumulator("events/board")
    events.Reload()
    for name in ("loss", "learning_rate", "val_accuracy"):
        found = [(event.step, event.value) for event in events.Scalars(name)]
        assert len(found) == (2 if name == "val_accuracy" else 4)
        np.testing.assert_allclose(found, logged("board", name), rtol=1e-6)
    layers = [tag for tag in events.Tags()["scalars"] if tag.startswith("gamma0/")]
    assert layers
    for tag in layers:
        found = [event.value for event in events.Scalars(tag)]
        expected = [by_layer[tag[7:]] for _, by_layer in logged("board", "gamma0")]
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.usefixtures("short_runs")
def test_mlflow_keeps_what_was_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow", reason="MLflow is not installed (pip install mlflow-skinny)")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    run_example("mlflow")
    client = importlib.import_module("mlflow.tracking").MlflowClient()
    (run,) = client.search_runs([client.get_experiment_by_name("few-shot").experiment_id])
    assert run.info.status == "FINISHED"
    assert run.data.params["episode.within_family"] == "0.5"
    assert [file.path for file in client.list_artifacts(run.info.run_id)] == ["recipe.toml"]
    for name in ("loss", "val_accuracy"):
        history = client.get_metric_history(run.info.run_id, name)
        assert sorted((m.step, m.value) for m in history) == logged("mlflow", name)


@pytest.mark.usefixtures("short_runs")
def test_wandb_keeps_what_was_logged_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb", reason="Weights & Biases is not installed (pip install wandb)")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    page = run_example("wandb")
    page["wandb"].teardown()  # its own process writes the file
    records = importlib.import_module("wandb.proto.wandb_internal_pb2")
    (file,) = (tmp_path / "wandb").glob("offline-run-*/run-*.wandb")
    found: dict[str, list[tuple[int, float]]] = {"loss": [], "val_accuracy": []}
    for data in pieces(file.read_bytes()):
        record = records.Record()
        record.ParseFromString(data)
        items = {".".join(i.nested_key) or i.key: i.value_json for i in record.history.item}
        for name in found.keys() & items.keys():
            found[name].append((int(items["_step"]), float(items[name])))
    assert found == {name: logged("wandb", name) for name in found}
