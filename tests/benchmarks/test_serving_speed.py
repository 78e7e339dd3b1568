"""The benchmark of the HTTP service: both servers answer the same photos alike."""

import io
import json
from pathlib import Path

import httpx
import pytest
from PIL import Image

from tadam.benchmarks.serving_speed import form, load, photos, resident, started
from tadam.classify.classifier import FewShotClassifier


def test_both_servers_answer_alike_and_the_load_counts_its_requests(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    content = photos(4, (64, 48))
    known = FewShotClassifier("imagenet").fit(content, ["a", "b"] * 2)
    known.save(tmp_path / "c.tadam")
    # A graph with the exported file's inputs and outputs; export itself takes half a minute.
    make = onnx.helper
    shapes = {"probabilities": [0.25, 0.75], "strangeness": [0.5]}
    nodes = [
        make.make_node(
            "Constant",
            [],
            [name],
            value=make.make_tensor(name, 1, [1, len(v)] if len(v) > 1 else [1], v),
        )
        for name, v in shapes.items()
    ]
    graph = make.make_graph(
        nodes,
        "constant",
        [make.make_tensor_value_info("images", 2, ["n", "h", "w", 3])],
        [make.make_tensor_value_info(name, 1, None) for name in shapes],
    )
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=9)
    make.set_model_props(model, {"classes": json.dumps(["a", "b"])})
    onnx.save(model, tmp_path / "c.onnx")
    servers = (
        ("tadam", "serve", str(tmp_path / "c.tadam"), "--port", "0"),
        ("tadam.benchmarks.bare_server", str(tmp_path / "c.onnx")),
    )
    for command in servers:
        with started(*command) as (process, port):
            seen = load(port, [form(photo) for photo in content], 3, 0, most=9)
            assert 0 < seen.p50 <= seen.p99
            assert seen.rate > 0
            assert (resident(process) or 2**30) > 2**26
            answer = httpx.post(
                f"http://127.0.0.1:{port}/api/v1/predict", files={"files": content[0]}, timeout=60
            ).json()
            answer = answer.get("answers", [answer])[0]
            assert answer["label"] in ("a", "b")


def test_photos_are_readable_and_different() -> None:
    made = photos(2, (40, 30))
    assert made[0] != made[1]
    assert Image.open(io.BytesIO(made[0])).size == (40, 30)
