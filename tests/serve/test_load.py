"""Many clients, slow clients, a full queue, and a server that is told to stop."""

import signal
import socket
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
import numpy.typing as npt
import pytest

from serving import API, TOKEN, as_process, client, in_thread, png, pngs
from tadam.classify.classifier import FewShotClassifier
from tadam.classify.embedded import Embedded, Eyes
from tadam.classify.reading import ImageSource
from tadam.serve.app import studio_app
from tadam.serve.classifier_app import classifier_app
from tadam.serve.live import LiveProject
from tadam.serve.predicting import answer_items
from tadam.serve.prediction_queue import BATCH, BatchShare, PredictionQueue
from tadam.serve.problem import Refused
from tadam.serve.run import PatientProtocol
from tadam.serve.serve_settings import ServeSettings
from tadam.serve.taught import Reply, Taught, from_file


def probabilities(answer: dict[str, Any]) -> list[float]:
    rows = {row["label"]: row["probability"] for row in answer["probabilities"]}
    return [rows["box"], rows["disc"]]


def test_64_clients_at_once_get_the_answers_of_the_classifier_and_slow_ones_hold_up_nobody(
    classifier_file: Path, fitted: FewShotClassifier
) -> None:
    settings = ServeSettings(port=0, token=TOKEN, patience=1.0)
    contents = [png(("box", "disc")[i % 2], 100 + i) for i in range(8)]
    expected = fitted.predict_proba(contents)
    app = classifier_app(settings, classifier_file)
    with in_thread(app, settings) as where, client(where) as web:
        place = urlsplit(where)
        slow = [socket.create_connection((place.hostname, place.port)) for _ in range(30)]
        for i, one in enumerate(slow):  # half a head, or half a body
            head = b"POST /api/v1/predict HTTP/1.1\r\nHost: localhost\r\n"
            one.sendall(head + (b"Content-Length: 1000\r\n\r\nabc" if i % 2 else b"X-A: "))

        def ask(i: int) -> list[float]:
            answer = web.post(f"{API}/predict", content=contents[i % 8]).json()
            return probabilities(answer["answers"][0])

        with ThreadPoolExecutor(64) as pool:
            found = list(pool.map(ask, range(192)))
        for i, got in enumerate(found):
            assert got == pytest.approx(expected[i % 8], abs=1e-5)
        queue = app.state.studio.queue
        assert queue.photos == 192
        assert queue.batches < 192
        said = slow[1].recv(1000)  # its body never came
        assert said.startswith(b"HTTP/1.1 408")
        for one in slow:
            one.close()
        many = [("files", (f"{i}.png", content)) for i, content in enumerate(contents)]
        answers = web.post(f"{API}/predict", files=[*many, ("files", ("bad", b"x"))]).json()
        assert [answer["name"] for answer in answers["answers"]] == [f"{i}.png" for i in range(8)]
        assert [problem["name"] for problem in answers["problems"]] == ["bad"]
        facts = web.get(f"{API}/info").json()
        assert [(c["name"], c["count"]) for c in facts["classes"]] == [("box", 5), ("disc", 5)]
        text = web.get(f"{API}/metrics").text
        assert 'route="/predict",status="200"} 193' in text
        assert "tadam_photos_total 201" in text


class Stubborn:
    """Eyes that open when they are told to, and note what they were shown together."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.batches: list[int] = []

    def embed(self, images: list[int]) -> Embedded:
        self.open.wait(30)
        self.batches.append(len(images))
        if 13 in images:
            raise ValueError("thirteen")
        rows = [i for i, image in enumerate(images) if image >= 0]
        z = np.array([[images[i]] for i in rows], np.float32).reshape(-1, 1)
        return Embedded(rows, z, {i: "negative" for i, x in enumerate(images) if x < 0})


def filled(queue: PredictionQueue, eyes: Stubborn) -> None:
    while True:
        queue.submit(eyes, [7])  # type: ignore[arg-type, list-item]


def test_a_batch_gives_each_request_its_own_and_a_full_queue_turns_the_next_away() -> None:
    queue, eyes = PredictionQueue(most=40, gather=0.001, threads=1), Stubborn()
    first: list[Future[Embedded]] = [queue.submit(eyes, [1, -2, 3]) for _ in range(2)]  # type: ignore[arg-type, list-item]
    while queue.length:
        time.sleep(0.001)  # both lanes have taken theirs, or one has both
    rest = [queue.submit(eyes, [10 * i, 10 * i + 1]) for i in range(1, 21)]  # type: ignore[arg-type, list-item]
    with pytest.raises(Refused, match="waiting already") as refused:
        filled(queue, eyes)
    assert refused.value.status == 429
    assert int((refused.value.headers or {})["Retry-After"]) >= 1
    eyes.open.set()
    for future in first:
        found = future.result(30)
        assert (found.rows, found.z[:, 0].tolist()) == ([0, 2], [1, 3])
        assert found.problems == {1: "negative"}
    for i, future in enumerate(rest[:20], start=1):
        assert future.result(30).z[:, 0].tolist() == [10 * i, 10 * i + 1]
    assert max(eyes.batches) <= BATCH
    assert max(eyes.batches) > 2
    with pytest.raises(ValueError, match="thirteen"):
        queue.submit(eyes, [13]).result(30)  # type: ignore[arg-type, list-item]
    accepted = queue.submit(eyes, [5])  # type: ignore[arg-type, list-item]
    queue.close()
    assert accepted.result(0).z.tolist() == [[5]]
    with pytest.raises(Refused, match="shutting down"):
        queue.submit(eyes, [5])  # type: ignore[arg-type, list-item]


def test_whoever_comes_first_waits_for_nobody_and_the_next_go_together() -> None:
    queue, eyes = PredictionQueue(most=40, gather=600.0, threads=1), Stubborn()
    first = queue.submit(eyes, [1])  # type: ignore[arg-type, list-item]
    while queue.length:
        time.sleep(0.001)
    rest = [queue.submit(eyes, [2] * 8) for _ in range(2)]  # type: ignore[arg-type, list-item]
    while queue.length:  # a full batch waits for no more
        time.sleep(0.001)
    eyes.open.set()
    assert first.result(30).z.tolist() == [[1]]
    assert [len(future.result(30).z) for future in rest] == [8, 8]
    assert sorted(eyes.batches) == [1, 16]
    queue.close()


def test_answers_are_sent_without_waiting_for_the_client_to_confirm_the_first_half(
    classifier_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nagle_is_off: list[int] = []
    made = PatientProtocol.connection_made

    def watched(protocol: PatientProtocol, transport: Any) -> None:
        option = (socket.IPPROTO_TCP, socket.TCP_NODELAY)
        nagle_is_off.append(transport.get_extra_info("socket").getsockopt(*option))
        made(protocol, transport)

    monkeypatch.setattr(PatientProtocol, "connection_made", watched)
    settings = ServeSettings(port=0, token=TOKEN)
    app = classifier_app(settings, classifier_file)
    with in_thread(app, settings) as where, client(where) as web:
        assert web.get(f"{API}/health").status_code == 200
    assert nagle_is_off
    assert all(nagle_is_off)


def test_one_look_at_a_batch_answers_all_its_requests_and_another_classifier_looks_again(
    fitted: FewShotClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, replies = from_file(fitted, None), Taught.replies
    looks: list[int] = []

    def counted(taught: Taught, z: npt.NDArray[np.float32]) -> list[Reply]:
        looks.append(len(z))
        return replies(taught, z)

    monkeypatch.setattr(Taught, "replies", counted)
    z = fitted.support_embeddings_[[0, 9, 4, 6]]
    batch = Embedded([0, 1, 2, 4], z, {3: "broken"})
    for places in ([2], [0, 3], [1]):
        rows, names = list(range(len(places))), [f"{i}.png" for i in places]
        share = BatchShare(rows, z[places], {}, batch, places)
        alone = answer_items(now, Embedded(rows, z[places], {}), names)
        together = answer_items(now, share, names)
        assert [a["name"] for a in together] == names
        for one, other in zip(together, alone, strict=True):
            assert [n["id"] for n in one["nearest"]] == [n["id"] for n in other["nearest"]]
            assert probabilities(one) == pytest.approx(probabilities(other), abs=1e-6)
            assert one["strangeness"] == pytest.approx(other["strangeness"], abs=1e-5)
    assert looks == [1, 4, 2, 1]  # alone, the batch, alone, alone
    answer_items(from_file(fitted, None), share, names)
    assert looks[-1] == 4


class ShutEyes:
    """Eyes that see when they are told to open."""

    def __init__(self, eyes: Eyes) -> None:
        self.open, self._eyes = threading.Event(), eyes

    def embed(self, images: Sequence[ImageSource]) -> Embedded:
        self.open.wait(60)
        return self._eyes.embed(images)


def test_a_full_server_says_429_and_when_to_come_back_and_answers_what_it_took(
    classifier_file: Path,
) -> None:
    settings = ServeSettings(port=0, token=TOKEN, queue=1)
    app = classifier_app(settings, classifier_file)
    served = app.state.studio
    eyes = ShutEyes(served.taught.eyes)
    served.taught = replace(served.taught, eyes=eyes)
    content = png("disc", 7)
    with in_thread(app, settings) as where, client(where) as web, ThreadPoolExecutor(64) as pool:
        asked: list[Future[httpx.Response]] = []
        while not (refused := [a.result() for a in asked if a.done()]) and len(asked) < 64:
            asked.append(pool.submit(web.post, f"{API}/predict", content=content))
            time.sleep(0.05)
        eyes.open.set()
        assert [answer.status_code for answer in refused] == [429]
        assert refused[0].headers["content-type"] == "application/problem+json"
        assert "waiting already" in refused[0].json()["detail"]
        assert int(refused[0].headers["Retry-After"]) >= 1
        accepted = [a.result() for a in asked if a.result() is not refused[0]]
        assert len(accepted) >= 2
        assert all(len(answer.json()["answers"]) == 1 for answer in accepted)


def test_a_server_that_is_told_to_stop_answers_what_it_has_accepted(classifier_file: Path) -> None:
    with as_process(classifier_file, "--workers", 2) as (process, where), client(where) as web:
        web.get(f"{API}/health")
        parts = [("files", (f"{i}.png", png("disc", i))) for i in range(20)]
        with ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(web.post, f"{API}/predict", files=parts) for _ in range(4)]
            time.sleep(0.7)
            process.send_signal(signal.SIGTERM)
            for future in asked:
                answer = future.result()
                assert answer.status_code == 200
                assert len(answer.json()["answers"]) == 20
        assert process.wait(60) == 0


def test_while_a_project_learns_those_who_wait_for_it_hold_up_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn, fit = threading.Event(), LiveProject._fitted_now
    content = png("disc", 9)

    def slow(live: LiveProject) -> Taught:
        learn.wait(60)
        return fit(live)

    settings = ServeSettings(port=0, token=TOKEN)
    with in_thread(studio_app(settings, tmp_path), settings) as where, client(where) as web:
        project = web.project("Slow", "fc100")
        other = web.project("Other", "fc100")
        for subject in ("disc", "box"):
            number = web.add_class(project, subject)
            web.add(project, pngs(subject, range(2)), class_id=number)
        assert web.post(f"{project}/predict", content=content).is_success
        monkeypatch.setattr(LiveProject, "_fitted_now", slow)
        web.add_class(project, "third")
        with ThreadPoolExecutor(60) as pool, httpx.Client(base_url=where, timeout=10) as fresh:
            asked = [
                pool.submit(web.post, f"{project}/predict", content=content) for _ in range(50)
            ]
            asked += [pool.submit(web.get, f"{project}/quality") for _ in range(10)]
            time.sleep(1)
            try:
                assert not any(answer.done() for answer in asked)
                for path in (f"{API}/health", f"{API}/projects", f"{other}/state"):
                    assert fresh.get(path).is_success, path
            finally:
                learn.set()
            assert all(answer.result().is_success for answer in asked)


def test_a_project_that_is_only_listed_learns_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ServeSettings(port=0, token=TOKEN)
    with in_thread(studio_app(settings, tmp_path), settings) as where, client(where) as web:
        for name in ("one", "two"):
            web.project(name, "fc100")
    fits, fit = [], LiveProject._fitted_now

    def counted(live: LiveProject) -> Taught:
        fits.append(live.id)
        return fit(live)

    monkeypatch.setattr(LiveProject, "_fitted_now", counted)
    with in_thread(studio_app(settings, tmp_path), settings) as where, client(where) as web:
        assert len(web.get(f"{API}/projects").json()) == 2
        time.sleep(0.5)
        assert fits == []
        assert web.get(f"{API}/projects/two/quality").is_success
        assert fits == ["two"]
