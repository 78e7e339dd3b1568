"""Classifiers by methods that adapt to the support images: what they do, and what they refuse."""

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import tadam
from command_line import CommandLine
from tadam import FewShotClassifier
from tadam.classify.check import check_photos
from tadam.config import Config, MethodConfig
from tadam.errors import UserError
from tadam.evaluation.folders import evaluate_folder
from tadam.evaluation.trust import measure_trust
from tadam.methods.base import InputSpec, Method, build_model
from tadam.metric import prototypes
from tadam.models.modelfile import ModelInfo, open_tensors, save_model, save_tensors
from tadam.recipes.method_recipes import MethodRecipe, method_rows
from tadam.registry import METHODS
from tiny import write_image_folder

SIDE = 16


@dataclass(frozen=True)
class CrowdConfig(MethodConfig):
    """Settings of a toy."""

    name: str = "crowd"
    together: bool = False
    """Whether to centre the queries on their own mean."""


@METHODS.register("crowd", CrowdConfig)
class Crowd(Method):
    """Minus the squared distance between mean pixels; may see the queries together."""

    needs_gradients = True

    def __init__(self, together: bool) -> None:
        super().__init__()
        self.scale, self.together = nn.Parameter(torch.tensor(0.5)), together

    @classmethod
    def from_config(cls, config: Config, spec: InputSpec) -> Self:
        assert isinstance(config.method, CrowdConfig)
        return cls(config.method.together)

    def forward(self, support: Tensor, labels: Tensor, query: Tensor, way: int) -> Tensor:
        if way > 4:
            raise UserError("there are more than 4 classes: leave some out")
        z, zq = (x.float().flatten(3).mean(-1) / 25 for x in (support, query))  # (T, N, 3)
        if self.together:
            zq = zq - zq.mean(dim=1, keepdim=True) + z.mean(dim=1, keepdim=True)
        # A gradient within the forward pass, as in MAML: 2 * scale, written another way.
        (slope,) = torch.autograd.grad(self.scale.square(), self.scale, create_graph=True)
        return -slope * torch.cdist(zq, prototypes(z, labels, way)).square()

    @property
    def sees_queries_together(self) -> bool:
        return self.together


def made_run(folder: Path, together: bool = False) -> Path:
    config = Config().updated({"method": {"name": "crowd", "together": together}})
    spec = InputSpec(3, SIDE, 0)
    save_model(folder / "best.safetensors", Crowd.build(config, spec), ModelInfo(config, spec))
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return made_run(tmp_path / "run")


def pictures(seed: int, shots: tuple[int, ...] = (2, 1, 3)) -> tuple[Any, list[str]]:
    """Noise around a grey value of each class, of the size that the method takes."""
    random = np.random.default_rng(seed)
    labels = [name for name, n in zip("cab", shots, strict=True) for _ in range(n)]
    base = np.array([{"c": 60, "a": 120, "b": 180}[name] for name in labels])
    noise = random.integers(-40, 40, (len(labels), SIDE, SIDE, 3))
    return (base[:, None, None, None] + noise).astype(np.uint8), labels


def by_hand(images: Any, labels: list[str], queries: Any) -> Any:
    """The toy's probabilities in NumPy."""
    names = sorted(set(labels))
    z, zq = (x.mean(axis=(1, 2)) / 25 for x in (images, queries))
    c = np.stack([z[[label == name for label in labels]].mean(axis=0) for name in names])
    logits = -((zq[:, None] - c[None]) ** 2).sum(-1)
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


def test_a_run_of_any_method_classifies_by_its_own_forward_pass(run: Path) -> None:
    images, labels = pictures(0)
    queries, _ = pictures(1, (30, 30, 20))  # more than are answered at once
    classifier = FewShotClassifier(run).fit(images, labels)
    expected = by_hand(images, labels, queries)
    assert classifier.classes_.tolist() == ["a", "b", "c"]
    assert classifier.predict_proba(queries) == pytest.approx(expected, abs=1e-5)
    assert classifier.predict(queries).tolist() == [
        "abc"[k] for k in expected.argmax(axis=1).tolist()
    ]
    sharper = FewShotClassifier(run, alpha=2.0).fit(images, labels).predict_proba(queries)
    squared = expected**2
    assert sharper == pytest.approx(squared / squared.sum(axis=1, keepdims=True), abs=1e-5)


def test_examples_are_added_and_classes_removed_as_if_fitted_so(run: Path) -> None:
    images, labels = pictures(0)
    queries, _ = pictures(1)
    grown = FewShotClassifier(run).fit(images[:3], labels[:3])
    assert grown.classes_.tolist() == ["a", "c"]
    grown.partial_fit(images[3:], labels[3:])
    whole = by_hand(images, labels, queries)
    assert grown.predict_proba(queries) == pytest.approx(whole, abs=1e-5)
    grown.remove("c")
    rest = [i for i, label in enumerate(labels) if label != "c"]
    expected = by_hand(images[rest], [labels[i] for i in rest], queries)
    assert grown.predict_proba(queries) == pytest.approx(expected, abs=1e-5)


def test_it_is_saved_and_predicts_as_before(run: Path, tmp_path: Path) -> None:
    images, labels = pictures(0)
    queries, _ = pictures(1)
    classifier = FewShotClassifier(run, alpha=0.7).fit(images, labels)
    classifier.save(tmp_path / "c.tadam")
    again = FewShotClassifier.load(tmp_path / "c.tadam")
    assert np.array_equal(again.predict_proba(queries), classifier.predict_proba(queries))
    again.partial_fit(queries, pictures(1)[1])
    classifier.partial_fit(queries, pictures(1)[1])
    assert np.array_equal(again.predict_proba(images), classifier.predict_proba(images))


def test_a_damaged_file_is_refused_in_a_sentence(run: Path, tmp_path: Path) -> None:
    classifier = FewShotClassifier(run).fit(*pictures(0))
    classifier.save(tmp_path / "c.tadam")
    tensors, metadata = open_tensors(tmp_path / "c.tadam")
    assert set(tensors) >= {"method.scale", "support.embeddings"}
    description = json.loads(metadata["tadam-classifier"])

    def refusal(changed: dict[str, Tensor], **said: Any) -> str:
        path = tmp_path / "bad.tadam"
        save_tensors(path, tensors | changed, "tadam-classifier", description | said)
        with pytest.raises(UserError) as caught:
            FewShotClassifier.load(path)
        return str(caught.value)

    z = tensors["support.embeddings"]
    assert "support images that are none" in refusal({"support.embeddings": z + 0.5})
    assert "support images that are none" in refusal({"support.embeddings": z - 300})
    assert "no support set that fits" in refusal({"support.embeddings": z[:, 1:].contiguous()})
    assert "tensor scale is (2,)" in refusal({"method.scale": torch.zeros(2)})
    assert "does not say what its method is" in refusal({}, model=None)


@pytest.mark.parametrize("together", [False, True])
def test_an_answer_does_not_depend_on_the_other_images(tmp_path: Path, together: bool) -> None:
    run = made_run(tmp_path, together)
    images, labels = pictures(0)
    queries, _ = pictures(1)
    classifier = FewShotClassifier(run).fit(images, labels)
    everything = classifier.predict_proba(queries)
    alone = np.concatenate([classifier.predict_proba(queries[i : i + 1]) for i in range(6)])
    assert everything == pytest.approx(alone, abs=1e-6)
    if together:  # each is centred in the company of the support images
        company = images.mean(axis=(1, 2)).astype(np.float64)
        own = queries.mean(axis=(1, 2))
        centred = own - (own + company.sum(axis=0)) / 7 + company.mean(axis=0)
        flat = np.broadcast_to(centred[:, None, None], (6, 1, 1, 3))
        assert everything == pytest.approx(by_hand(images, labels, flat), abs=1e-5)


def test_what_needs_embeddings_is_refused_in_a_sentence(run: Path, tmp_path: Path) -> None:
    images, labels = pictures(0)
    classifier = FewShotClassifier(run).fit(images, labels)
    folder = write_image_folder(tmp_path / "images", classes=3)
    for refused in (
        lambda: classifier.predict(images, reject=True),
        lambda: classifier.classify(images, reject=True),
        lambda: classifier.leave_one_out(),
        lambda: classifier.export(tmp_path / "c.onnx"),
        lambda: check_photos(FewShotClassifier(run), list(images), labels),
        lambda: evaluate_folder(classifier, folder, reject=True),
        lambda: measure_trust(run, "shapes"),
    ):
        with pytest.raises(UserError, match=r"method 'crowd'") as caught:
            refused()
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "c.onnx").exists()
    with pytest.raises(UserError, match=r"'crowd' cannot learn this: there are more than 4"):
        FewShotClassifier(run).fit(np.zeros((5, 8, 8, 3), np.uint8), range(5))


#: Rows of Table 1 whose classifiers compare embeddings.
EMBED = ("kshot", "matching", "protonet", "tadam")


@pytest.mark.parametrize("row", method_rows())
def test_of_the_papers_methods_those_that_embed_reject_and_the_others_refuse_that_and_onnx(
    row: str, tmp_path: Path
) -> None:
    config = MethodRecipe(row, "omniglot", 1, cpu=True).config()
    config = config.with_settings(["episode.way=3", "validation.way=3", "backbone.width=2"])
    spec = InputSpec(3, SIDE, 4 if config.method.has_class_head(config) else 0)
    model = build_model(config, spec)
    model.initialise(config, [120.0] * 3, [60.0] * 3)
    save_model(tmp_path / "best.safetensors", model, ModelInfo(config, spec))
    images, labels = pictures(0)
    classifier = FewShotClassifier(tmp_path).fit(images, labels)
    if row in EMBED:
        assert set(classifier.predict(images, reject=True)) <= {"a", "b", "c", "unknown"}
        return
    with pytest.raises(UserError, match=rf"method '{config.method.name}' cannot be exported"):
        classifier.export(tmp_path / "c.onnx")
    assert not (tmp_path / "c.onnx").exists()
    with pytest.raises(UserError, match=rf"method '{config.method.name}' cannot"):
        classifier.predict(images, reject=True)


def test_nothing_is_said_of_strangeness(
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An empty cell and null, where 0 would mean a typical image."""
    tadam_command = CommandLine(monkeypatch, capsys)
    folder = write_image_folder(tmp_path / "images", classes=3, side=SIDE)
    file, table, judged = (tmp_path / name for name in ("c.tadam", "c.csv", "judged.csv"))
    for arguments in (
        ("fit", folder, "--model", run, "--out", file),
        ("predict", file, folder, "--csv", table),
        ("evaluate", file, folder, "--csv", judged),
    ):
        done = tadam_command(*arguments)
        assert done.code == 0, done.err
    for path in (table, judged):
        with path.open(newline="") as text:
            cells = [row["strangeness"] for row in csv.DictReader(text)]
        assert cells == [""] * 18
    rows = json.loads(tadam_command("predict", file, folder, "--json").out)["predictions"]
    assert [row["strangeness"] for row in rows] == [None] * 18


def test_a_folder_is_fitted_and_measured(run: Path, tmp_path: Path) -> None:
    folder = write_image_folder(tmp_path / "images", classes=3, side=SIDE)
    classifier = FewShotClassifier(run).fit(folder)
    result = evaluate_folder(classifier, folder)
    paths = sorted(folder.rglob("*.png"))
    right = classifier.predict(paths) == [path.parent.name for path in paths]
    assert (result.images, result.accuracy) == (18, right.mean())
    assert tadam.evaluate(run, dataset="shapes", way=3, shot=1, tasks=3, queries=6).accuracy >= 0


@pytest.mark.parametrize("method", ["matching", "kshot"])
def test_a_method_that_compares_embeddings_rejects_and_can_be_exported(
    method: str, tmp_path: Path
) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    changes = {"method": {"name": method}, "backbone": {"name": "conv4", "width": 2}}
    config = Config().updated(changes)
    spec = InputSpec(3, SIDE, 4)
    model = METHODS.find(method).build(config, spec)
    model.initialise(config, [120.0] * 3, [60.0] * 3)
    save_model(tmp_path / "best.safetensors", model, ModelInfo(config, spec))
    images, labels = pictures(0)
    classifier = FewShotClassifier(tmp_path).fit(images, labels)
    assert set(classifier.predict(images, reject=True)) <= {"a", "b", "c", "unknown"}
    assert classifier.support_embeddings_.shape == (6, model.backbone.feature_size)
    classifier.save(tmp_path / "c.tadam")
    again = FewShotClassifier.load(tmp_path / "c.tadam")
    assert np.array_equal(again.predict_proba(images), classifier.predict_proba(images))
    assert classifier.export(tmp_path / "c.onnx").difference <= 1e-4
