""".tadam files give back every bit, hold no pickle, and refuse what was tampered with."""

import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save_file
from sklearn.base import clone
from torch import Tensor

from tadam import FewShotClassifier, UserError
from tadam.classify.metric_fit import fit_metric
from tadam.models.modelfile import checksum, open_tensors, save_model
from tadam.nn.backbone import Backbone
from tadam.nn.backbones.pixels import RawPixels
from tadam.nn.film import Film
from toy_backbones import Colours, blobs, random_model

QUERIES = blobs(3, 4, seed=7)[0]
#: Changes tensors and description of a file in place.
Change = Callable[[dict[str, Tensor], dict[str, Any]], object]


@pytest.fixture(scope="module")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "m.safetensors"
    save_model(path, *random_model())
    return path


@pytest.fixture(scope="module")
def fitted(model_file: Path) -> FewShotClassifier:
    return FewShotClassifier(model_file).fit(*blobs(3, 4))


@pytest.fixture
def saved(fitted: FewShotClassifier, tmp_path: Path) -> Path:
    fitted.save(tmp_path / "c.tadam")
    return tmp_path / "c.tadam"


def refusal(path: Path, **options: Any) -> str:
    """The one sentence with which a file is refused; it names the path."""
    with pytest.raises(UserError) as caught:
        FewShotClassifier.load(path, **options)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def forged(path: Path, change: Change) -> Path:
    """Changes tensors and description, and makes the checksum fit: what a clever forger does."""
    tensors, metadata = open_tensors(path)
    raw = json.loads(metadata["tadam-classifier"])
    change(tensors, raw)
    text = json.dumps(raw)
    tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
    save_file(tensors, path, metadata={"tadam-classifier": text, "sha256": checksum(text, tensors)})
    return path


@pytest.mark.parametrize("name", ["resnet12", "conv4", "pixels"])
@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
def test_predictions_survive_bit_for_bit(tmp_path: Path, name: str, distance: str) -> None:
    conditioning = {"enabled": name != "pixels"}
    width = {} if name == "pixels" else {"width": 2}
    backbone = {"name": name, **width, "mirrored": distance == "cosine"}
    metric = {"distance": distance}
    model, info = random_model(backbone=backbone, conditioning=conditioning, metric=metric)
    save_model(tmp_path / "m.safetensors", model, info)
    before = FewShotClassifier(tmp_path / "m.safetensors").fit(*blobs(3, 4))
    before.save(tmp_path / "c.tadam")
    (tmp_path / "m.safetensors").unlink()  # one file is enough
    after = FewShotClassifier.load(tmp_path / "c.tadam")
    assert (after.predict_proba(QUERIES) == before.predict_proba(QUERIES)).all()
    for one, other in zip(before.classify(QUERIES), after.classify(QUERIES), strict=True):
        assert (one.label, one.strangeness) == (other.label, other.strangeness)
    assert after.reject_threshold_ == before.reject_threshold_
    assert after.support_thumbnails_ == before.support_thumbnails_
    assert after.expected_ == before.expected_
    assert after.origin_ == before.origin_


def test_a_loaded_classifier_goes_on_learning_as_the_saved_one_would(
    fitted: FewShotClassifier, saved: Path
) -> None:
    loaded = FewShotClassifier.load(saved)
    more, _ = blobs(4, 3, seed=8)
    twice = [
        classifier.partial_fit(more[9:], ["new"] * 3)
        for classifier in (FewShotClassifier.load(saved), loaded)
    ]
    assert twice[0].classes_.tolist() == ["c0", "c1", "c2", "new"]
    assert (twice[0].predict_proba(QUERIES) == twice[1].predict_proba(QUERIES)).all()
    assert twice[0].predictor_.metric.alpha != fitted.predictor_.metric.alpha


def test_parameters_of_the_constructor_survive(model_file: Path, tmp_path: Path) -> None:
    classifier = FewShotClassifier(model_file, alpha=2.5, reject_threshold=0.25)
    classifier.fit(*blobs(3, 4)).save(tmp_path / "c.tadam")
    loaded = FewShotClassifier.load(tmp_path / "c.tadam").partial_fit(QUERIES[:2], ["c0", "c0"])
    assert loaded.predictor_.metric.alpha == 2.5
    assert loaded.reject_threshold_ == 0.25


def test_a_loaded_classifier_learns_anew_with_the_same_model(
    model_file: Path, saved: Path, tmp_path: Path
) -> None:
    loaded = FewShotClassifier.load(saved)
    assert loaded.model == str(model_file)
    before = loaded.predict_proba(QUERIES)
    assert (clone(loaded).fit(*blobs(3, 4)).predict_proba(QUERIES) == before).all()
    forged(saved, lambda tensors, raw: raw.pop("model_name"))  # as it was written once
    old = FewShotClassifier.load(saved)
    assert old.model is None
    old.save(saved)
    assert FewShotClassifier.load(saved).model is None
    forged(saved, lambda tensors, raw: raw.update(model_name=5))
    assert "does not describe a classifier (model_name: 5 is not text)" in refusal(saved)


def test_the_default_model_is_kept_by_its_name(
    model_file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tadam.models.find.WEIGHTS", model_file.parent)
    monkeypatch.setattr("tadam.models.resolve.default_model", lambda: "m")
    FewShotClassifier().fit(*blobs(3, 4)).save(tmp_path / "c.tadam")
    assert FewShotClassifier.load(tmp_path / "c.tadam").model == "m"


@settings(max_examples=15)
@given(
    classes=st.one_of(
        st.lists(st.text(max_size=6), min_size=2, max_size=5, unique=True),
        st.lists(st.integers(-(2**70), 2**70), min_size=2, max_size=5, unique=True),
        st.lists(st.floats(allow_nan=False), min_size=2, max_size=5, unique=True),
        st.just([False, True]),
        st.just(["caf\udce9", "Ω", "a\0"]),
    )
)
def test_labels_survive(tmp_path_factory: pytest.TempPathFactory, classes: list[Any]) -> None:
    path = tmp_path_factory.mktemp("labels") / "c.tadam"
    images = np.zeros((len(classes), 4, 4, 3), np.uint8)
    FewShotClassifier(Colours()).fit(images, classes).save(path)
    loaded = FewShotClassifier.load(path, backbone=Colours())
    assert loaded.classes_.tolist() == sorted(classes)
    assert [type(c) for c in loaded.classes_.tolist()] == [type(c) for c in sorted(classes)]


def test_labels_that_json_cannot_hold_are_one_sentence(tmp_path: Path) -> None:
    classifier = FewShotClassifier(Colours()).fit(blobs(2, 1)[0], [("a", 1), ("b", 2)])
    with pytest.raises(UserError, match="cannot be saved"):
        classifier.save(tmp_path / "c.tadam")
    assert list(tmp_path.iterdir()) == []


def test_a_backbone_of_ones_own_is_needed_again(tmp_path: Path) -> None:
    pixels = RawPixels(image_size=16)
    pixels.mirrored = True
    mirrored = FewShotClassifier(pixels).fit(*blobs(3, 4))
    mirrored.save(tmp_path / "m.tadam")
    after = FewShotClassifier.load(tmp_path / "m.tadam", backbone=RawPixels(image_size=16))
    assert (after.predict_proba(QUERIES) == mirrored.predict_proba(QUERIES)).all()

    backbone = Colours()
    backbone.gain.fill_(3.0)
    classifier = FewShotClassifier(backbone).fit(*blobs(3, 4))
    path = tmp_path / "c.tadam"
    classifier.save(path)
    assert "backbone=Colours(...)" in refusal(path)
    own = Colours()
    loaded = FewShotClassifier.load(path, backbone=own)
    assert (loaded.predict_proba(QUERIES) == classifier.predict_proba(QUERIES)).all()
    assert loaded.model is own
    assert own.gain == 1.0  # the caller's object is left alone

    class Other(Colours):
        feature_size = 7

    assert "does not fit" in refusal(path, backbone=Other())


def test_a_model_given_as_an_object_is_needed_again(tmp_path: Path) -> None:
    model, _ = random_model()
    classifier = FewShotClassifier(model).fit(*blobs(3, 4))
    classifier.save(tmp_path / "c.tadam")
    assert "ResNet12 object" in refusal(tmp_path / "c.tadam")
    loaded = FewShotClassifier.load(tmp_path / "c.tadam", backbone=model)
    assert (loaded.predict_proba(QUERIES) == classifier.predict_proba(QUERIES)).all()


def test_film_that_could_not_be_folded_survives(tmp_path: Path) -> None:
    class Conditioned(Backbone):
        feature_size = 3
        conditioned_widths = (3,)

        def embed(self, x: Tensor, film: Film | None = None) -> Tensor:
            z = x.mean(dim=(2, 3)) / 255
            return z if film is None or film[0] is None else film[0][0] * z + film[0][1]

    from tadam.methods.tadam import Tadam
    from tadam.metric import ScaledMetric
    from tadam.nn.ten import TaskEmbeddingNetwork

    torch.manual_seed(0)
    ten = TaskEmbeddingNetwork(3, (3,), [0])
    with torch.no_grad():
        for name, parameter in ten.named_parameters():
            if name.endswith(("gamma0", "beta0")):
                parameter.fill_(1.0)
    model = Tadam(Conditioned(image_size=16), ScaledMetric(), ten, "mean", 0)
    classifier = FewShotClassifier(model).fit(*blobs(3, 4))
    plain = FewShotClassifier(model.backbone).fit(*blobs(3, 4))
    assert not np.allclose(classifier.support_embeddings_, plain.support_embeddings_)
    classifier.save(tmp_path / "c.tadam")
    loaded = FewShotClassifier.load(tmp_path / "c.tadam", backbone=model)
    assert (loaded.predict_proba(QUERIES) == classifier.predict_proba(QUERIES)).all()


def test_a_file_holds_no_pickle(saved: Path) -> None:
    assert not zipfile.is_zipfile(saved)
    content = saved.read_bytes()
    assert b"pickle" not in content
    with safe_open(saved, framework="pt") as file:
        assert {"tadam-classifier", "sha256"} == set(file.metadata())


# ---- files that are refused


def test_whatever_byte_is_changed_the_file_is_refused(saved: Path) -> None:
    content = saved.read_bytes()
    dice = np.random.default_rng(0)
    places = [*range(0, 600, 37), *dice.integers(0, len(content), 60), len(content) - 1]
    for place in places:
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(dice.integers(8))
        saved.write_bytes(damaged)
        refusal(saved)


def test_a_truncated_file_is_refused(saved: Path) -> None:
    content = saved.read_bytes()
    for share in (0, 0.001, 0.3, 0.999):
        saved.write_bytes(content[: int(share * len(content))])
        assert "not a complete safetensors file" in refusal(saved)


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    for content in [b"", b"PK\x03\x04", b"\x80\x04\x95 pickle", b"<html></html>"]:
        (tmp_path / "c.tadam").write_bytes(content)
        refusal(tmp_path / "c.tadam")


def test_a_missing_file_a_folder_and_a_model_are_refused(tmp_path: Path, model_file: Path) -> None:
    assert "does not exist" in refusal(tmp_path / "c.tadam")
    refusal(tmp_path)
    assert "is a model, not a classifier" in refusal(model_file)
    save_file({"a": torch.zeros(1)}, tmp_path / "other.tadam")
    assert "not a .tadam file" in refusal(tmp_path / "other.tadam")


def test_a_changed_label_is_noticed(saved: Path) -> None:
    tensors, metadata = open_tensors(saved)
    metadata["tadam-classifier"] = metadata["tadam-classifier"].replace('"c1"', '"c9"')
    save_file(tensors, saved, metadata=metadata)
    assert "has been changed since it was written" in refusal(saved)


def test_swapped_classes_are_noticed(saved: Path) -> None:
    tensors, metadata = open_tensors(saved)
    tensors["predictor.metric.weight"] = tensors["predictor.metric.weight"].flip(0).contiguous()
    save_file(tensors, saved, metadata=metadata)
    assert "has been changed since it was written" in refusal(saved)


def test_another_format_asks_for_an_upgrade(saved: Path) -> None:
    message = refusal(forged(saved, lambda tensors, raw: raw.update(format=3)))
    assert "upgrade tadam" in message


def _tensor(name: str, value: Tensor) -> Change:
    return lambda tensors, raw: tensors.update({name: value})


def _raw(**values: object) -> Change:
    return lambda tensors, raw: raw.update(values)


def test_even_with_a_fitting_checksum_what_makes_no_sense_is_refused(saved: Path) -> None:
    changes: list[Change] = [
        _raw(classes=["c0", "c1"]),
        _raw(classes=["c1", "c0", "c2"]),
        _raw(classes=["c0", "c0", "c2"]),
        _raw(classes=["c0", 1, "c2"]),
        _raw(classes=[]),
        _raw(classes="abc"),
        _raw(classes={"c0": 1, "c1": 2, "c2": 3}),
        _raw(metric={}),
        _raw(metric={"power": 0, "normalised": True}),
        _raw(metric={"power": float("nan"), "normalised": True}),
        _raw(metric={"power": 1.0, "normalised": "yes"}),
        _raw(expected=None),
        _raw(expected={"kept": "x", "caught": 0.5, "auroc": None}),
        _raw(reject_threshold=float("inf")),
        _raw(reject_threshold="far"),
        _raw(parameters=[]),
        _raw(parameters={"alpha": "x", "reject_threshold": None, "image_size": None}),
        _raw(model={}),
        _raw(model=7),
        _tensor("predictor.metric.weight", torch.zeros(3, 5)),
        _tensor("predictor.metric.alpha", torch.zeros(1)),
        _tensor("predictor.metric.alpha", torch.tensor(float("nan"))),
        _tensor("predictor.metric.alpha", torch.tensor(-1.0)),
        _tensor("predictor.metric.limit", torch.tensor(-(2.0**60))),
        _tensor("predictor.metric.bias", torch.full((3,), float("inf"))),
        _tensor("predictor.network.surprise", torch.zeros(1)),
        _tensor("pixel_mean", torch.zeros(1, 1, 1)),
        _tensor("support.embeddings", torch.zeros(12, 15)),
        _tensor("support.labels", torch.zeros(12, dtype=torch.int64)),
        _tensor("support.labels", torch.full((12,), 2**40)),
        _tensor("support.labels", torch.zeros(12)),
        _tensor("support.thumbnail_sizes", torch.tensor([2**40] * 12)),
        _tensor("support.thumbnail_sizes", torch.tensor([-1] * 12)),
        _tensor("support.thumbnail_sizes", torch.zeros(12)),
        _tensor("support.thumbnail_counts", torch.tensor([12])),
        lambda tensors, raw: tensors.pop("support.labels"),
        lambda tensors, raw: tensors.pop("pixel_std"),
        lambda tensors, raw: tensors.pop("support.thumbnails"),
        lambda tensors, raw: tensors.pop("predictor.metric.weight"),
        lambda tensors, raw: raw.pop("classes"),
        lambda tensors, raw: raw["model"]["spec"].update(image_size=10**9),
        lambda tensors, raw: raw["model"].update(recipe="[backbone]\nwidth = 1024\n"),
    ]
    for number, change in enumerate(changes):
        copied = saved.with_name(f"{number}.tadam")  # a failure shows which
        shutil.copy(saved, copied)
        refusal(forged(copied, change))


def test_a_false_claim_of_a_huge_part_that_is_not_in_the_file_costs_nothing(saved: Path) -> None:
    def change(tensors: dict[str, Tensor], raw: dict[str, Any]) -> None:
        raw["model"]["spec"]["auxiliary_classes"] = 10**13  # 600 TB, were it built

    loaded = FewShotClassifier.load(forged(saved, change))
    assert loaded.predict_proba(QUERIES).shape == (12, 3)


def test_a_file_of_version_0_1_gets_its_metric_from_the_embeddings_it_holds(
    fitted: FewShotClassifier, saved: Path
) -> None:
    def as_it_was(tensors: dict[str, Tensor], raw: dict[str, Any]) -> None:
        for name in [n for n in tensors if n.startswith("predictor.metric.")]:
            del tensors[name]
        tensors["predictor.prototypes"] = torch.zeros(3, tensors["support.embeddings"].shape[1])
        tensors["predictor.alpha"] = torch.tensor(4.0)
        del raw["metric"], raw["expected"], raw["parameters"]["image_size"]
        raw.update(format=1, distance="cosine", trained_alpha=2.0, reject_threshold=0.3)
        raw["parameters"].update(alpha=7.0)

    old = FewShotClassifier.load(forged(saved, as_it_was))
    z, labels = (torch.from_numpy(a) for a in (fitted.support_embeddings_, fitted.support_labels_))
    metric, expected = fit_metric(z, labels, 3)
    queries = torch.from_numpy(np.stack([p.embedding for p in fitted.classify(QUERIES)]))
    np.testing.assert_allclose(
        old.predict_proba(QUERIES), metric.probabilities(queries).numpy(), atol=1e-5
    )
    assert (old.reject_threshold_, old.alpha, old.expected_) == (1.0, None, expected)
    old.save(saved)
    again = FewShotClassifier.load(saved)
    assert (again.predict_proba(QUERIES) == old.predict_proba(QUERIES)).all()
