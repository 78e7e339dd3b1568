"""Jobs on a real Ray cluster of two workers: same results, killed workers, one sentence each."""

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import ray_jobs
from diary import Diary
from tadam.classify.classifier import FewShotClassifier
from tadam.config import Config
from tadam.distributed.jobs import Cluster, Job, Watcher, open_pool, run_jobs
from tadam.errors import Interrupted, RunFailed, UserError
from tadam.evaluation import bulk
from tadam.evaluation.bulk import BulkRequest, predict_in_bulk
from tadam.models.modelfile import read_tensors, save_model
from tadam.recipes import resolve
from tadam.reproduce.experiments import Request
from tadam.reproduce.lemma1_results import reproduce_lemma1
from tadam.reproduce.runs import make_runs, stored_runs
from tadam.training.log import read_log
from tadam.training.sweep import SweepPoint, sweep_alpha
from tiny import SETTINGS, write_image_folder
from toy_backbones import random_model


@pytest.fixture(scope="module", autouse=True)
def _environment() -> Iterator[None]:
    """Lets workers import `ray_jobs`."""
    paths = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(paths))
        yield


@pytest.fixture(scope="module")
def address(_environment: None) -> Iterator[str]:
    """Address of a two-worker Ray that this process is connected to."""
    from tadam.distributed import ray_pool

    ray = vars(ray_pool)["ray"]
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        # Its workers inherit what a background command would pass on.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        ray.init(
            "local",
            num_cpus=2,
            object_store_memory=100 * 2**20,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            _temp_dir=folder,
        )
        signal.signal(signal.SIGINT, before)
        try:
            yield ray.get_runtime_context().gcs_address
        finally:
            ray.shutdown()


@pytest.fixture
def cluster(address: str, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr("tadam.distributed.ray_pool._POLL", 0.05)
    return Cluster(address, retries=1)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_image_folder(tmp_path_factory.mktemp("images"), images=8)


@pytest.fixture(scope="module")
def recipe(images: Path) -> Config:
    return resolve("images", SETTINGS, f"folder:{images}")


@pytest.fixture(scope="module")
def sequential(recipe: Config, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The output of a sweep without Ray."""
    out = tmp_path_factory.mktemp("sequential")
    sweep_alpha(recipe, [1, 5], out)
    return facts(out)


def facts(folder: Path) -> dict[str, Any]:
    """A sweep's JSON without the fields that may differ between two runs."""
    text = (folder / "sweep.json").read_text().replace(str(folder), "OUT")
    result: dict[str, Any] = json.loads(text)
    for point in (*result["points"], result["best"]):
        del point["seconds"]
    return result


def test_jobs_run_side_by_side_and_results_keep_their_order(
    cluster: Cluster, tmp_path: Path
) -> None:
    told: dict[int, int] = {}
    jobs = [Job(f"job {n}", ray_jobs.meet, {"folder": tmp_path, "n": n}) for n in (2, 1)]
    with open_pool(cluster) as pool:
        assert run_jobs(jobs, pool, told.__setitem__) == [2, 1]
    assert told == {0: 2, 1: 1}


def test_every_job_ends_once_though_a_worker_is_killed(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    diary = Diary()
    told: list[tuple[int, int]] = []
    folders = [tmp_path / name for name in "abcd"]
    deaths = [0, 1, 0, 0]
    jobs = [
        Job(folder.name, ray_jobs.survive, {"folder": folder, "deaths": n}, folder)
        for folder, n in zip(folders, deaths, strict=True)
    ]
    with open_pool(cluster, diary) as pool:
        assert run_jobs(jobs, pool, lambda *ended: told.append(ended)) == deaths
    assert sorted(told) == list(enumerate(deaths))
    for folder, n in zip(folders, deaths, strict=True):
        assert (folder / "story").read_text() == "death\n" * n + "end\n"
    notes = [text for text in diary.told if isinstance(text, str)]
    again = "its worker died (WorkerCrashedError), restarting it"
    assert notes == [f"b: {again}"]
    assert sorted(tmp_path.iterdir()) == folders  # no lock is left
    assert capsys.readouterr().out == ""  # Ray has much to say


def test_a_job_whose_workers_keep_dying_is_given_up_and_the_others_end(
    cluster: Cluster, tmp_path: Path
) -> None:
    told: list[tuple[int, int]] = []
    folder = tmp_path / "x"
    jobs: list[Job[Any]] = [
        Job("doomed", ray_jobs.survive, {"folder": folder, "deaths": 9}, folder),
        Job("wrong", ray_jobs.fail, {"error": UserError("no such data")}),
        Job("fine", ray_jobs.double, {"x": 4}),
        Job("diverged", ray_jobs.fail, {"error": RunFailed("loss became nan")}),
    ]
    message = r"^doomed: its worker died \(\w+\) 2 times \(also failed: wrong, diverged\)$"
    with open_pool(cluster) as pool:
        with pytest.raises(RunFailed, match=message):
            run_jobs(jobs, pool, lambda *ended: told.append(ended))
        with pytest.raises(UserError, match=r"^wrong: no such data"):
            run_jobs(jobs[1:], pool)
    assert told == [(2, 8)]
    assert (folder / "story").read_text() == "death\n" * 2


def test_a_sweep_on_ray_equals_a_local_one_though_a_worker_is_killed(
    cluster: Cluster,
    recipe: Config,
    sequential: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tadam.training.sweep._train_point", ray_jobs.dying_train_point)
    monkeypatch.chdir(tmp_path)
    points: list[SweepPoint] = []
    sweep_alpha(recipe, [1, 5], Path("out"), cluster=cluster, on_point=points.append)
    assert {**facts(tmp_path / "out"), "folder": "OUT"} == sequential
    assert sorted(point.alpha for point in points) == [1, 5]
    made = (tmp_path / "out" / "steps-alpha-5").read_text().split()
    assert made == ["0", "1", "2", "3", "died", "4", "5"]  # resumed from its checkpoint
    assert (tmp_path / "out" / "steps-alpha-1").read_text().split() == list("012345")


def test_a_table_on_ray_equals_a_local_one_though_a_worker_is_killed(
    cluster: Cluster, images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = tuple(s for s in SETTINGS if not s.startswith("episode.shot"))
    request = Request(
        "table2", "fc100", "cpu", ("euclidean", "cosine"), (5,),
        changes=(f"data.name=folder:{images}", *changes), tasks=6,
    )  # fmt: skip
    make_runs(request, tmp_path / "here", device="cpu")
    monkeypatch.setattr("tadam.reproduce.runs._make_run", ray_jobs.dying_make_run)
    ended: list[None] = []
    make_runs(
        request,
        tmp_path / "there",
        device="cpu",
        cluster=cluster,
        on_run=lambda: ended.append(None),
    )
    assert len(ended) == 2
    here, there = (
        {run.row: (run.accuracy, run.validation_accuracy, run.best_step) for run in runs}
        for runs in (stored_runs(tmp_path / place / "table2") for place in ("here", "there"))
    )
    assert there == here
    assert set(here) == {"euclidean", "cosine"}
    made = (tmp_path / "there" / "table2" / "steps-cosine-5shot-seed0").read_text().split()
    assert made == ["0", "1", "2", "3", "died", "4", "5"]  # resumed from its checkpoint


class Impatient(Watcher):
    """Presses Ctrl-C once all jobs are running and have written files of a certain kind."""

    def __init__(self, folder: Path, pattern: str) -> None:
        self.folder, self.pattern = folder, pattern

    def running(self, names: Sequence[str], done: int, total: int) -> None:
        if len(names) == total == len(list(self.folder.glob(self.pattern))):
            raise KeyboardInterrupt


def test_ctrl_c_leaves_checkpoints_to_resume_from(
    cluster: Cluster, recipe: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tadam.training.sweep._train_point", ray_jobs.slow_train_point)
    long = recipe.with_settings(["schedule.episodes=500", "validation.every=500"])
    sentence = "^stopped with 0 of 2 jobs done; start them again with `resume` to continue$"
    watcher = Impatient(tmp_path, "*/last.safetensors")
    with pytest.raises(Interrupted, match=sentence):
        sweep_alpha(long, [1, 5], tmp_path, cluster=cluster, watcher=watcher)
    for run in (tmp_path / "alpha-1", tmp_path / "alpha-5"):
        _, _, state = read_tensors(run / "last.safetensors")
        assert 0 < state["counters"]["step"] == read_log(run)[-1]["step"] < 500
        Job("free", ray_jobs.double, {"x": 1}, run).run()  # nobody is still writing to it


def test_ctrl_c_stops_a_job_that_does_not_expect_it(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tadam.distributed.ray_pool._GRACE", 5.0)
    jobs = [Job("job", ray_jobs.wait_forever, {}, tmp_path / "x")]
    with (
        open_pool(cluster, Impatient(tmp_path, ".x.lock")) as pool,
        pytest.raises(Interrupted),
    ):
        run_jobs(jobs, pool)
    Job("free", ray_jobs.double, {"x": 1}, tmp_path / "x").run()


def test_a_job_gets_its_threads_the_folder_of_the_command_and_its_settings(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TADAM_TEST", "yes")
    jobs = [Job("job", ray_jobs.surroundings, {})]
    with open_pool(Cluster(cluster.address, cpus=2)) as pool:
        assert run_jobs(jobs, pool) == [(2, str(tmp_path), "yes")]


def test_a_worker_that_cannot_see_the_folder_says_so(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unseen = Job("job", ray_jobs.double, {"x": 1}, tmp_path / "here" / "x")
    monkeypatch.setattr("tadam.distributed.ray_pool._offer", lambda job: None)
    with (
        open_pool(cluster) as pool,
        pytest.raises(UserError, match=r"^job: .* cannot see .*here: run folders must be on"),
    ):
        run_jobs([unseen], pool)


def test_more_than_any_machine_has_is_pointed_out_or_refused(address: str) -> None:
    diary = Diary()
    with open_pool(Cluster(address, gpus=1), diary):
        pass
    (note,) = diary.told
    assert "GPUs" in str(note)
    assert "waiting for one to join" in str(note)
    with (
        pytest.raises(UserError, match=r"lower `cpus`, `gpus` or `memory`"),
        open_pool(Cluster("local", cpus=10_000)),
    ):
        pass


def without_origin(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Results but for how long they took, and where."""
    return [{key: v for key, v in result.items() if key != "origin"} for result in results]


@pytest.mark.parametrize("where", ["local", "address"])
def test_a_command_prints_what_it_prints_without_ray_and_leaves_nothing_behind(
    where: str, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, _ = reproduce_lemma1(tmp_path / "here")
    monkeypatch.setenv("HOME", str(tmp_path))
    if where == "local":
        for name in [name for name in os.environ if name.startswith("RAY_")]:
            monkeypatch.delenv(name)
    with tempfile.TemporaryDirectory() as temporary:  # short, because Ray puts sockets in it
        monkeypatch.setenv("TMPDIR", temporary)
        command = [sys.executable, "-m", "tadam", "reproduce", "lemma1", "--json", "--ray"]
        command += [address if where == "address" else where, "--out", str(tmp_path / "there")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert list(Path(temporary).iterdir()) == []
    expected = json.loads(json.dumps([result.to_json() for result in here]))
    assert without_origin(json.loads(done.stdout)) == without_origin(expected)
    assert not (tmp_path / ".ray").exists()


@pytest.fixture(scope="module")
def web_page() -> Iterator[int]:
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("locol", "^`address` must be local, host:port or ray://host:port, got 'locol'$"),
        ("http://127.0.0.1:8265", "^`address` must be local, host:port"),
        ("127.0.0.1:CLOSED", "^no connection to Ray at 127.0.0.1:.* refused$"),
        ("ray://127.0.0.1:CLOSED", "^no connection to Ray at ray://127.0.0.1:.* refused$"),
        ("127.0.0.1:99999", "^no connection to Ray at 127.0.0.1:99999: "),
        ("no.such.host.invalid:6379", "^no connection to Ray at no.such.host.invalid:6379: "),
        ("127.0.0.1:WEB", "^the server at 127.0.0.1:.* is not Ray: give the port"),
    ],
)
def test_a_wrong_address_is_one_sentence_and_a_sweep_leaves_nothing_behind(
    address: str, message: str, web_page: int, recipe: Config, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = server.getsockname()[1]
    address = address.replace("CLOSED", str(closed)).replace("WEB", str(web_page))
    with pytest.raises(UserError, match=message):
        sweep_alpha(recipe, [1, 5], tmp_path / "out", cluster=Cluster(address))
    assert list(tmp_path.iterdir()) == []


def test_without_ray_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "tadam.distributed.ray_pool", raising=False)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError) as error, open_pool(Cluster("local")):
        pass
    assert str(error.value) == "jobs on a cluster need Ray: pip install 'tadam-fewshot[cluster]'"


def test_predictions_in_parts_lose_nothing_when_a_worker_is_killed(
    cluster: Cluster, images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, info = random_model(conditioning={"enabled": False})
    save_model(tmp_path / "m.safetensors", model, info)
    FewShotClassifier(tmp_path / "m.safetensors").fit(images).save(tmp_path / "c.tadam")
    files = sorted(images.rglob("*.png"))
    request = BulkRequest(tmp_path / "c.tadam", "csv", part_size=30)
    with open_pool(None) as pool:
        predict_in_bulk(request, files, tmp_path / "here", pool)
    monkeypatch.setattr(bulk, "predict_part", ray_jobs.dying_predict_part)
    with open_pool(cluster, alike=True) as pool:
        result = predict_in_bulk(request, files, tmp_path / "there", pool)
    assert (result.images, result.skipped, result.parts) == (80, 0, 3)
    assert (tmp_path / "there" / ".died").exists()
    for part in sorted((tmp_path / "here").glob("part-*.csv")):
        assert (tmp_path / "there" / part.name).read_text() == part.read_text()
