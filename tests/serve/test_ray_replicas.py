"""A classifier on Ray Serve: the same answers, also when a replica is killed under load."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from serving import API, TOKEN, client, in_thread, png
from tadam.classify.classifier import FewShotClassifier
from tadam.distributed.jobs import Cluster
from tadam.serve.classifier_app import classifier_app
from tadam.serve.serve_settings import ServeSettings


def test_a_replica_killed_under_load_costs_no_answer(
    classifier_file: Path, fitted: FewShotClassifier
) -> None:
    ray = pytest.importorskip("ray")
    pytest.importorskip("grpc_reflection")
    from tadam.serve.ray_replicas import deployed

    contents = [png(("box", "disc")[i % 2], 200 + i) for i in range(4)]
    expected = fitted.predict_proba(contents)
    settings = ServeSettings(port=0, token=TOKEN)
    with deployed(classifier_file, settings, Cluster("local"), replicas=2) as queue:
        app = classifier_app(settings, classifier_file, queue)
        with in_thread(app, settings) as where, client(where) as web:

            def ask(i: int) -> list[float]:
                answer = web.post(f"{API}/predict", content=contents[i % 4])
                assert answer.status_code == 200, answer.text
                rows = answer.json()["answers"][0]["probabilities"]
                found = {row["label"]: row["probability"] for row in rows}
                return [found["box"], found["disc"]]

            with ThreadPoolExecutor(8) as pool:
                asked = [pool.submit(ask, i) for i in range(120)]
                asked[20].result()
                actors = ray.util.list_named_actors(all_namespaces=True)
                (victim, *_) = [a for a in actors if "Replica" in a["name"]]
                ray.kill(ray.get_actor(victim["name"], namespace=victim["namespace"]))
                for i, future in enumerate(asked):
                    assert future.result() == pytest.approx(expected[i % 4], abs=1e-5)
            broken = web.post(f"{API}/predict", content=b"no photo").json()
            assert broken["answers"] == []
            assert "not an image" in broken["problems"][0]["detail"]
