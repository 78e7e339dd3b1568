"""FewShotClassifier: scikit-learn's contract, any labels, shots and sizes, the model's maths."""

import copy
import io
import pickle
import warnings
from collections.abc import Callable
from functools import partial, partialmethod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from tadam import FewShotClassifier, RunFailed, UserError
from tadam.classify.thumbnails import REPORT_SIDE, THUMBNAIL_SIDE
from tadam.models.modelfile import save_model
from tadam.nn.backbone import Backbone
from tadam.nn.backbones.efficientnet_lite import EfficientNetLite0
from tadam.nn.backbones.pixels import RawPixels
from tadam.nn.backbones.resnet12 import ResNet12
from tadam.nn.film import Film
from tadam.nn.folded import FoldedNetwork
from toy_backbones import Colours, blobs, random_model


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(UserError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def fitted() -> FewShotClassifier:
    images, labels = blobs(3, 4)
    return FewShotClassifier(Colours()).fit(images, labels)


def test_new_images_get_the_labels_of_their_classes(fitted: FewShotClassifier) -> None:
    images, labels = blobs(3, 10, seed=1)
    assert fitted.predict(images).tolist() == labels
    assert fitted.score(images, labels) == 1.0
    assert fitted.classes_.tolist() == ["c0", "c1", "c2"]


def test_the_embeddings_are_those_of_the_model_conditioned_on_the_support_set() -> None:
    model, _ = random_model()
    images, _ = blobs(3, 5)
    labels = [2, 0, 1] * 5
    classifier = FewShotClassifier(model).fit(images, labels)
    x = torch.from_numpy(images).permute(0, 3, 1, 2)
    with torch.no_grad():
        film = model.film_from(model.embed(x)[None], torch.tensor(labels)[None], 3)
        expected, off = model.embed(x, film).numpy(), model.embed(x).numpy()
    np.testing.assert_allclose(classifier.support_embeddings_, expected, rtol=1e-3, atol=1e-4)
    assert np.abs(off - expected).max() > 1e-2  # conditioning counts


@pytest.mark.parametrize("name", ["resnet12", "conv4"])
def test_a_model_without_conditioning_embeds_each_image_by_itself(name: str) -> None:
    model, _ = random_model(name, conditioning={"enabled": False})
    images, _ = blobs(2, 4)
    classifier = FewShotClassifier(model).fit(images, ["a"] * 7 + ["b"])
    with torch.no_grad():
        expected = model.embed(torch.from_numpy(images).permute(0, 3, 1, 2)).numpy()
    np.testing.assert_allclose(classifier.support_embeddings_, expected, rtol=1e-4, atol=1e-5)
    assert classifier.shots_.tolist() == [7, 1]


@pytest.mark.parametrize("conditioned", [True, False])
def test_fit_costs_a_pass_and_a_conditioned_model_two(
    conditioned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, _ = random_model(conditioning={"enabled": conditioned})
    seen: dict[Any, int] = {FoldedNetwork: 0, ResNet12: 0}

    def counted(self: object, x: Tensor, forward: Callable[..., Tensor]) -> Tensor:
        seen[type(self)] += len(x)
        return forward(self, x)

    for kind in seen:
        monkeypatch.setattr(kind, "forward", partialmethod(counted, forward=kind.forward))
    images, labels = blobs(4, 5)
    FewShotClassifier(model).fit(images, labels)
    assert seen == {FoldedNetwork: 20, ResNet12: 20 if conditioned else 0}


def test_fit_leaves_a_model_that_is_given_as_it_was() -> None:
    model, _ = random_model()
    model.train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    images, labels = blobs(4, 5)
    FewShotClassifier(model).fit(images, labels)
    assert all(module.training for module in model.modules())
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]), name


def test_a_support_set_too_large_to_keep_is_read_twice_with_the_same_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, _ = random_model()
    images, labels = blobs(3, 5)
    kept = FewShotClassifier(model).fit(images, labels)
    monkeypatch.setattr("tadam.classify.support_embedding._KEPT_BYTES", 0)
    again = FewShotClassifier(model).fit(images, labels)
    np.testing.assert_array_equal(again.support_embeddings_, kept.support_embeddings_)


def test_hundreds_of_classes_with_one_shot_each() -> None:
    dice = np.random.default_rng(0)
    images = np.repeat(dice.integers(0, 256, (200, 1, 1, 3), np.uint8), 8, axis=1).repeat(8, axis=2)
    classifier = FewShotClassifier(RawPixels(image_size=8)).fit(images, range(200))
    assert classifier.predict(images).tolist() == list(range(200))
    assert classifier.expected_.kept is None  # nothing can be left out


# ---- images of every kind


def test_a_path_a_picture_and_an_array_of_the_same_pixels_agree(
    tmp_path: Path, fitted: FewShotClassifier
) -> None:
    pixels = np.random.default_rng(3).integers(0, 256, (40, 70, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    kinds = [tmp_path / "a.png", str(tmp_path / "a.png"), Image.fromarray(pixels), pixels]
    rows = fitted.predict_proba(kinds)
    assert (rows == rows[0]).all()
    assert (fitted.predict_proba(np.stack([pixels] * 3))[0] == rows[0]).all()


def test_a_grey_and_a_four_channel_array_are_what_pillow_makes_of_them(
    fitted: FewShotClassifier,
) -> None:
    grey = np.random.default_rng(3).integers(0, 256, (20, 20), np.uint8)
    colour = np.random.default_rng(3).integers(0, 256, (20, 20, 4), np.uint8)
    white = Image.new("RGBA", (20, 20), "white")
    over = np.asarray(Image.alpha_composite(white, Image.fromarray(colour)).convert("RGB"))
    rows = fitted.predict_proba([grey, np.repeat(grey[:, :, None], 3, 2), colour, over])
    assert (rows[0] == rows[1]).all()
    assert (rows[2] == rows[3]).all()


def test_a_model_of_one_channel_sees_grey(tmp_path: Path) -> None:
    model, _ = random_model(channels=1)
    images, labels = blobs(3, 3)
    classifier = FewShotClassifier(model).fit(images, labels)
    grey = [np.asarray(Image.fromarray(image).convert("L")) for image in images]
    np.testing.assert_array_equal(classifier.predict_proba(images), classifier.predict_proba(grey))


def test_one_image_may_be_given_alone(tmp_path: Path, fitted: FewShotClassifier) -> None:
    image = blobs(3, 1, seed=5)[0][1]
    Image.fromarray(image).save(tmp_path / "a.png")
    for alone in (image, Image.fromarray(image), tmp_path / "a.png", str(tmp_path / "a.png")):
        assert fitted.predict(alone).tolist() == ["c1"]


def test_a_folder_brings_its_labels_along(tmp_path: Path) -> None:
    for image, label in zip(*blobs(3, 3), strict=True):
        (tmp_path / label).mkdir(exist_ok=True)
        count = len(list((tmp_path / label).iterdir()))
        Image.fromarray(image).save(tmp_path / label / f"{count}.png")
    classifier = FewShotClassifier(Colours()).fit(tmp_path)
    assert classifier.classes_.tolist() == ["c0", "c1", "c2"]
    assert classifier.score(str(tmp_path)) == 1.0
    assert len(classifier.predict(tmp_path)) == 9


def test_sizes_may_differ_in_any_order(fitted: FewShotClassifier) -> None:
    images, _ = blobs(3, 6, seed=4, side=40)
    sizes = np.random.default_rng(0).integers(1, 40, (len(images), 2))
    cut = [image[:h, :w] for image, (h, w) in zip(images, sizes, strict=True)]
    together = fitted.predict_proba(cut)
    alone = np.concatenate([fitted.predict_proba([image]) for image in cut])
    np.testing.assert_allclose(together, alone, atol=1e-6)


def test_progress_counts_every_image(fitted: FewShotClassifier) -> None:
    calls = []
    fitted.classify(blobs(3, 50)[0], progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (150, 150)
    assert calls == sorted(calls)


def test_thumbnails_are_small_jpegs_and_few_for_each_class() -> None:
    images, labels = blobs(2, 12, side=200)
    classifier = FewShotClassifier(Colours()).fit(images, labels)
    assert [len(some) for some in classifier.support_thumbnails_] == [8, 8]
    predictions = classifier.classify(images[:2], thumbnails=True)
    kept = (classifier.support_thumbnails_[0][0], THUMBNAIL_SIDE)
    for jpeg, side in (kept, (predictions[0].thumbnail, REPORT_SIDE)):
        assert jpeg is not None
        with Image.open(io.BytesIO(jpeg)) as image:
            assert (image.format, image.size) == ("JPEG", (side, side))


def test_what_is_no_image_is_one_sentence() -> None:
    for images, words in [
        (np.zeros((2, 8, 8, 3), np.int64), "int64"),
        (np.zeros((2, 8, 8, 2), np.uint8), "(8, 8, 2)"),
        (np.zeros((2, 0, 8, 3), np.uint8), "(0, 8, 3)"),
        ([np.zeros((8, 8, 3), np.uint8), None], "image 1"),
        ([], "there are no images"),
        (7, "int"),
        (["nowhere.jpg", "nowhere.png"], "nowhere.jpg cannot be opened"),
    ]:
        assert words in refusal(partial(FewShotClassifier(Colours()).fit, images, ["a", "b"]))


def test_to_predict_nothing_is_one_sentence(fitted: FewShotClassifier, tmp_path: Path) -> None:
    assert "there are no images: give" in refusal(lambda: fitted.predict([]))
    assert f"there are no images below {tmp_path}" in refusal(lambda: fitted.predict(tmp_path))


def test_an_image_that_cannot_be_read_is_an_error_or_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "bad.png").write_text("x")
    images, labels = blobs(2, 3)
    mixed, given_labels = [tmp_path / "bad.png", *images], ["c1", *labels]
    assert "bad.png" in refusal(lambda: FewShotClassifier(Colours()).fit(mixed, given_labels))
    problems: list[str] = []
    classifier = FewShotClassifier(Colours()).fit(mixed, given_labels, problems=problems)
    assert len(problems) == 1
    assert len(classifier.support_labels_) == 6
    predictions = classifier.classify(
        [images[0], tmp_path / "bad.png", images[5]], problems=problems
    )
    assert [p.label for p in predictions] == ["c0", "c1"]
    lost = ["c0", *labels[3:]]
    assert "no image of class 'c0'" in refusal(
        lambda: FewShotClassifier(Colours()).fit(
            [tmp_path / "bad.png", *images[3:]], lost, problems=[]
        )
    )


# ---- labels


@settings(max_examples=15)
@given(st.data())
def test_any_labels_shots_and_sizes_give_sorted_classes_and_probabilities(
    data: st.DataObject,
) -> None:
    kinds: list[st.SearchStrategy[Any]] = [st.text(max_size=8), st.integers(-(2**70), 2**70)]
    kind = data.draw(st.sampled_from(kinds))
    classes = data.draw(st.lists(kind, min_size=2, max_size=6, unique=True))
    shots = data.draw(st.lists(st.integers(1, 4), min_size=len(classes), max_size=len(classes)))
    labels = [label for label, shot in zip(classes, shots, strict=True) for _ in range(shot)]
    labels = data.draw(st.permutations(labels))
    sides = data.draw(st.lists(st.integers(1, 30), min_size=len(labels), max_size=len(labels)))
    dice = np.random.default_rng(0)
    images = [dice.integers(0, 256, (side, side + 3, 3), np.uint8) for side in sides]
    classifier = FewShotClassifier(Colours()).fit(images, labels)
    assert classifier.classes_.tolist() == sorted(classes)
    probabilities = classifier.predict_proba(images)
    assert probabilities.shape == (len(images), len(classes))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    answers = classifier.predict(images).tolist()
    best = [sorted(classes)[k] for k in probabilities.argmax(axis=1)]
    assert answers == best
    assert [p.label for p in classifier.classify(images)] == best


def test_the_order_of_the_support_images_does_not_matter() -> None:
    images, labels = blobs(3, 4)
    order = np.random.default_rng(0).permutation(len(images))
    one = FewShotClassifier(Colours()).fit(images, labels)
    other = FewShotClassifier(Colours()).fit(images[order], [labels[i] for i in order])
    np.testing.assert_allclose(one.predict_proba(images), other.predict_proba(images), atol=1e-5)


def test_labels_come_back_as_they_were_given() -> None:
    kinds: list[tuple[Any, str]] = [
        (np.array([3, 1, 3, 2]), "i"),
        (np.array(["b", "a", "b", "c"]), "U"),
        (np.array([["b"], ["a"], ["b"], ["c"]]), "U"),
        ([True, False, True, False], "b"),
        ([0.5, 1.5, 0.5, 2.5], "f"),
        ([("a", 1), ("b", 2), ("a", 1), ("c", 3)], "O"),
        (np.array(["b", "a", "b", "c"], dtype=object), "U"),
        (["b\0", "b", "b\0", "c"], "O"),  # NumPy would drop the end
        ([-1, 2**63, -1, 0], "O"),  # and make these floats
    ]
    images = blobs(4, 1)[0][[0, 1, 0, 3]]
    for labels, dtype in kinds:
        classifier = FewShotClassifier(Colours(), alpha=100.0).fit(images, labels)
        assert classifier.classes_.dtype.kind == dtype
        given_labels = np.ravel(labels).tolist() if isinstance(labels, np.ndarray) else labels
        assert classifier.predict(images[:2]).tolist() == given_labels[:2]


def test_tensors_are_labels_by_their_values() -> None:
    for labels in [
        torch.tensor([3, 5, 3, 5]),
        torch.tensor([[3], [5], [3], [5]]),
        list(torch.tensor([3, 5, 3, 5])),
    ]:
        images, _ = blobs(2, 2)
        classifier = FewShotClassifier(Colours()).fit(images, labels)
        assert classifier.classes_.tolist() == [3, 5]
        assert "must be a list" in refusal(partial(classifier.fit, images, torch.tensor(3)))


def test_labels_that_make_no_sense_are_one_sentence() -> None:
    images, _ = blobs(4, 1)
    for labels, words in [
        (["a", "a", "a", "a"], "only one class, 'a'"),
        (["a", "b"], "4 images and 2 labels"),
        (["a", 1, "a", 1], "mix text ('a') and numbers (1)"),
        (["a", None, "a", "b"], "None is not a label"),
        ([1.0, float("nan"), 2.0, 2.0], "nan is not a label"),
        ([[1], [2], [1], [2]], "cannot be a label"),
        ("abcd", "must be a list"),
        (None, "labels are missing"),
        ([1j, 2j, 1j, 2j], "no order"),
    ]:
        assert words in refusal(partial(FewShotClassifier(Colours()).fit, images, labels))


# ---- more examples later


def test_partial_fit_in_pieces_is_fit_on_all_for_a_model_without_conditioning() -> None:
    images, labels = blobs(4, 5)
    whole = FewShotClassifier(Colours()).fit(images, labels)
    parts = FewShotClassifier(Colours()).partial_fit(images[5:12], labels[5:12])
    parts.partial_fit(images[12:], labels[12:]).partial_fit(images[:5], labels[:5])
    assert parts.classes_.tolist() == whole.classes_.tolist()
    queries, _ = blobs(4, 3, seed=1)
    np.testing.assert_allclose(
        parts.predict_proba(queries), whole.predict_proba(queries), atol=1e-5
    )
    assert parts.expected_.auroc == pytest.approx(whole.expected_.auroc)
    assert [len(t) for t in parts.support_thumbnails_] == [5, 5, 5, 5]


def test_partial_fit_leaves_the_network_as_fit_conditioned_it() -> None:
    model, _ = random_model()
    images, labels = blobs(3, 4)
    classifier = FewShotClassifier(model).fit(images[:8], labels[:8])
    before = copy.deepcopy(classifier.predictor_.network.state_dict())
    support = classifier.support_embeddings_
    classifier.partial_fit(images[8:], labels[8:])
    after = classifier.predictor_.network.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    np.testing.assert_array_equal(classifier.support_embeddings_[:8], support)
    assert classifier.classes_.tolist() == ["c0", "c1", "c2"]


def test_partial_fit_with_labels_of_another_kind_is_one_sentence(fitted: FewShotClassifier) -> None:
    assert "mix text" in refusal(lambda: fitted.partial_fit(blobs(1, 2)[0], [1, 2]))
    assert fitted.classes_.tolist() == ["c0", "c1", "c2"]


# ---- none of these


def test_an_image_unlike_any_class_is_unknown_and_a_known_one_is_not() -> None:
    images, labels = blobs(3, 20)
    classifier = FewShotClassifier(Colours()).fit(images, labels)
    strange = np.zeros((4, 16, 16, 3), np.uint8)
    strange[:, ::2] = 255  # black and white stripes: the spread of no class
    assert classifier.predict(strange, reject=True).tolist() == ["unknown"] * 4
    assert set(classifier.predict(strange)) <= {"c0", "c1", "c2"}
    known = classifier.predict(blobs(3, 40, seed=3)[0], reject=True)
    assert (known == "unknown").mean() < 0.12
    predictions = classifier.classify([strange[0], images[20]], reject=True)
    assert [(p.label, p.unknown) for p in predictions] == [("unknown", True), ("c1", False)]
    strangeness = [p.strangeness or 0 for p in predictions]
    assert strangeness[0] > 1 > strangeness[1]


def test_a_threshold_of_ones_own_is_used() -> None:
    images, labels = blobs(3, 4)
    queries, _ = blobs(3, 20, seed=1)
    usual = FewShotClassifier(Colours()).fit(images, labels).classify(queries)
    for threshold in (1e-9, 0.5, 2.0):
        classifier = FewShotClassifier(Colours(), reject_threshold=threshold).fit(images, labels)
        answers = classifier.predict(queries, reject=True)
        assert (answers == "unknown").tolist() == [(p.strangeness or 0) > threshold for p in usual]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [([1, 2], -1), ([0.5, 1.5], -1.0), ([False, True], None), ([("a",), ("b",)], None)],
)
def test_none_of_these_for_labels_that_are_not_text(labels: Any, expected: str) -> None:
    images, _ = blobs(2, 1)
    classifier = FewShotClassifier(Colours()).fit(images, labels)
    classifier.reject_threshold_ = -1e9
    answers = classifier.predict(blobs(2, 1, seed=1)[0], reject=True).tolist()
    assert answers == [expected, expected]


def test_a_class_that_is_called_unknown_is_one_sentence() -> None:
    images, _ = blobs(2, 1)
    for labels in (["unknown", "known"], [-1, 1]):
        classifier = FewShotClassifier(Colours()).fit(images, labels)
        classifier.predict(images)
        assert "rename the class" in refusal(partial(classifier.predict, images, reject=True))


# ---- models


def test_a_run_folder_a_file_and_an_object_are_the_same_model(tmp_path: Path) -> None:
    model, info = random_model()
    save_model(tmp_path / "best.safetensors", model, info)
    images, labels = blobs(3, 3)
    rows = [
        FewShotClassifier(given_model).fit(images, labels).predict_proba(images)
        for given_model in (model, tmp_path, str(tmp_path / "best.safetensors"))
    ]
    assert (rows[0] == rows[1]).all()
    assert (rows[0] == rows[2]).all()


def test_a_shipped_model_is_found_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tadam.models.find.WEIGHTS", tmp_path)
    model, info = random_model()
    save_model(tmp_path / "fc100.safetensors", model, info)
    images, labels = blobs(3, 3)
    expected = FewShotClassifier(model).fit(images, labels).predict_proba(images)
    for name in ("fc100", None):  # None: the default
        rows = FewShotClassifier(name).fit(images, labels).predict_proba(images)
        assert (rows == expected).all()
    message = refusal(lambda: FewShotClassifier("fc10").fit(images, labels))
    assert "no model 'fc10'" in message
    assert "(fc100)" in message


def test_the_callers_model_stays_as_it_is() -> None:
    backbone = Colours().train()
    classifier = FewShotClassifier(backbone).fit(*blobs(2, 2))
    assert backbone.training
    assert backbone.seen == 0
    before = classifier.predict_proba(blobs(2, 2)[0])
    backbone.gain.fill_(0.0)
    assert (classifier.predict_proba(blobs(2, 2)[0]) == before).all()


def test_a_model_that_gives_no_numbers_ends_in_a_sentence() -> None:
    backbone = Colours()
    backbone.gain.fill_(float("nan"))
    with pytest.raises(RunFailed, match="not finite"):
        FewShotClassifier(backbone).fit(*blobs(2, 2))


@pytest.mark.parametrize(
    "parameters", [{"alpha": 0.0}, {"alpha": -1}, {"alpha": "x"}, {"reject_threshold": -1}]
)
def test_a_senseless_parameter_is_one_sentence_before_an_image_is_read(
    parameters: dict[str, Any], fitted: FewShotClassifier
) -> None:
    name = next(iter(parameters))
    for call in (FewShotClassifier(Colours(), **parameters).fit, fitted.fit, fitted.partial_fit):
        fitted.set_params(**parameters)
        assert f"{name} must be above 0" in refusal(partial(call, ["no.png"] * 2, [0, 1]))


def test_a_fit_that_fails_leaves_what_was_learnt_before(fitted: FewShotClassifier) -> None:
    queries, _ = blobs(3, 2, seed=1)
    before = fitted.predict_proba(queries)
    blind = Colours()
    blind.gain.fill_(float("nan"))
    fitted.set_params(model=blind)
    with pytest.raises(RunFailed):
        fitted.fit(*blobs(2, 2))
    assert (fitted.predict_proba(queries) == before).all()
    images, _ = blobs(2, 1)
    with pytest.raises(UserError):
        fitted.partial_fit([images[0], "no.png"], ["c0", "c1"])
    assert (fitted.predict_proba(queries) == before).all()


def test_a_model_of_another_type_is_one_sentence() -> None:
    assert "got int" in refusal(
        lambda: FewShotClassifier(5).fit(*blobs(2, 2))  # type: ignore[arg-type]
    )


# ---- scikit-learn's contract


def test_the_constructor_only_stores_its_arguments() -> None:
    backbone = Colours()
    classifier = FewShotClassifier(backbone, alpha=2.0, reject_threshold=0.5, device="cpu")
    assert vars(classifier) == {
        "model": backbone,
        "alpha": 2.0,
        "reject_threshold": 0.5,
        "image_size": None,
        "cache": False,
        "device": "cpu",
    }
    assert classifier.get_params() == vars(classifier)
    assert classifier.set_params(alpha=3.0) is classifier
    assert classifier.alpha == 3.0
    assert "no parameter 'beta'" in refusal(lambda: classifier.set_params(beta=1))
    assert "alpha=3.0" in repr(classifier)


def test_an_unfitted_classifier_says_so() -> None:
    classifier = FewShotClassifier(Colours())
    for call in (classifier.predict, classifier.predict_proba, classifier.classify):
        assert "call fit first" in refusal(partial(call, blobs(2, 1)[0]))
    assert "call fit first" in refusal(lambda: classifier.save("x.tadam"))
    with pytest.raises(NotFittedError):
        check_is_fitted(classifier)


def test_clone_gives_an_unfitted_copy(fitted: FewShotClassifier) -> None:
    copied = clone(fitted)
    assert not copied.__sklearn_is_fitted__()
    assert copied.get_params().keys() == fitted.get_params().keys()
    images, labels = blobs(3, 4)
    assert (copied.fit(images, labels).predict_proba(images) == fitted.predict_proba(images)).all()


def test_fit_returns_self_and_forgets_the_past(fitted: FewShotClassifier) -> None:
    images, labels = blobs(2, 3, seed=4)
    assert fitted.fit(images, labels) is fitted
    assert fitted.classes_.tolist() == ["c0", "c1"]
    fresh = FewShotClassifier(Colours()).fit(images, labels)
    assert (fitted.predict_proba(images) == fresh.predict_proba(images)).all()


def test_predicting_changes_nothing_and_gives_the_same_again(fitted: FewShotClassifier) -> None:
    images, _ = blobs(3, 4, seed=1)
    before = {k: copy.deepcopy(v) for k, v in vars(fitted).items() if isinstance(v, np.ndarray)}
    original = images.copy()
    first = fitted.predict_proba(images)
    assert (fitted.predict_proba(images) == first).all()
    assert (images == original).all()
    for name, value in before.items():
        assert (getattr(fitted, name) == value).all()


def test_predicting_in_parts_is_predicting_at_once(fitted: FewShotClassifier) -> None:
    images, _ = blobs(3, 40, seed=1)
    parts = np.concatenate([fitted.predict_proba(images[i : i + 7]) for i in range(0, 120, 7)])
    np.testing.assert_allclose(parts, fitted.predict_proba(images), atol=1e-6)


def test_it_works_in_a_pipeline_a_grid_search_and_cross_validation() -> None:
    images, labels = blobs(3, 6)
    assert is_classifier(FewShotClassifier())
    scores = cross_val_score(FewShotClassifier(Colours()), images, labels, cv=3)
    assert scores.tolist() == [1.0, 1.0, 1.0]
    darker = FunctionTransformer(lambda x: x // 2)
    pipeline = make_pipeline(darker, FewShotClassifier(Colours())).fit(images, labels)
    assert pipeline.score(images, labels) == 1.0
    assert isinstance(clone(pipeline), Pipeline)
    search = GridSearchCV(
        FewShotClassifier(Colours()), {"alpha": [0.1, 10.0]}, scoring="neg_log_loss", cv=2
    )
    assert search.fit(images, labels).best_params_ == {"alpha": 10.0}


def test_cross_validation_takes_a_list_of_paths(tmp_path: Path) -> None:
    images, labels = blobs(2, 6)
    paths = []
    for i, image in enumerate(images):
        paths.append(str(tmp_path / f"{i}.png"))
        Image.fromarray(image).save(paths[-1])
    assert cross_val_score(FewShotClassifier(Colours()), paths, labels, cv=3).mean() == 1.0


class _Weighted(Colours):
    """A backbone of one's own with something to change."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(self.feature_size, self.feature_size)

    def embed(self, x: Tensor, film: Film | None = None) -> Tensor:
        return torch.as_tensor(self.layer(super().embed(x)))


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("make", [lambda: random_model()[0], _Weighted, lambda: ResNet12(width=4)])
def test_a_classifier_and_the_model_it_was_given_leave_each_other_alone(
    make: Callable[[], nn.Module], mode: str
) -> None:
    model = getattr(make(), mode)()
    before = copy.deepcopy(model.state_dict())
    images, labels = blobs(3, 3)
    classifier = FewShotClassifier(model).fit(images, labels)
    first = classifier.predict_proba(images)
    assert all(module.training == (mode == "train") for module in model.modules())
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    with torch.no_grad():
        for parameter in (*model.parameters(), *model.buffers()):
            parameter.add_(1)
    model.double().train()
    assert (classifier.predict_proba(images) == first).all()


def test_score_is_sklearns_accuracy(fitted: FewShotClassifier) -> None:
    images, labels = blobs(3, 5, seed=1)
    wrong = labels[1:] + labels[:1]
    assert fitted.score(images, wrong) == accuracy_score(wrong, fitted.predict(images))


def test_a_fitted_classifier_can_be_pickled_and_copied(fitted: FewShotClassifier) -> None:
    images, _ = blobs(3, 2)
    for twin in (pickle.loads(pickle.dumps(fitted)), copy.deepcopy(fitted)):
        assert (twin.predict_proba(images) == fitted.predict_proba(images)).all()


def test_a_backbone_of_ones_own_needs_only_embed() -> None:
    class Mean(Backbone):
        feature_size = 3

        def embed(self, x: Tensor, film: Film | None = None) -> Tensor:
            return x.mean(dim=(2, 3))

    images, labels = blobs(3, 4)
    assert FewShotClassifier(Mean()).fit(images, labels).score(images, labels) == 1.0


def test_a_prediction_reads_as_one_line_without_arrays(
    tmp_path: Path, fitted: FewShotClassifier
) -> None:
    Image.fromarray(blobs(3, 1, seed=5)[0][1]).save(tmp_path / "a.png")
    (prediction,) = fitted.classify(tmp_path / "a.png", thumbnails=True)
    text = repr(prediction)
    assert text.startswith(f"Prediction(path={str(tmp_path / 'a.png')!r}, label='c1', confidence=")
    assert f"strangeness={prediction.strangeness:.3f}" in text
    assert len(text.replace(str(tmp_path), "")) < 100
    assert "array" not in text
    assert "\n" not in text


def test_a_classifier_that_is_told_to_stop_keeps_the_batches_that_it_has_done(
    fitted: FewShotClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tadam.classify.reading._PIXELS_AT_ONCE", 1)  # batches of 64
    images, _ = blobs(3, 70, seed=1)
    whole = fitted.classify(images)
    asked: list[None] = []

    def stop() -> bool:
        asked.append(None)
        return len(asked) == 2

    some = fitted.classify(images, stop=stop)
    assert len(asked) == 2
    assert 64 < len(some) < len(whole) == 210
    assert [p.label for p in some] == [p.label for p in whole[: len(some)]]
    assert len(fitted.classify(images, stop=lambda: False)) == 210


def test_python_is_warned_of_a_default_model_that_is_worse_for_want_of_an_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    images, labels = blobs(2, 2)
    monkeypatch.setattr(EfficientNetLite0, "is_installed", classmethod(lambda cls: False))
    with pytest.warns(UserWarning, match=r"27 and 55 points.*'tadam-fewshot\[imagenet\]'") as told:
        classifier = FewShotClassifier().fit(images, labels)
    assert classifier.model_name_ == "fc100"
    assert told[0].filename == __file__
    with warnings.catch_warnings(action="error"):
        FewShotClassifier("fc100").fit(images, labels)


def test_an_image_size_of_ones_own_is_what_the_network_sees_and_the_file_keeps(
    tmp_path: Path,
) -> None:
    images, labels = blobs(2, 3)
    classifier = FewShotClassifier("fc100", image_size=48).fit(images, labels)
    assert classifier.predictor_.image_size == 48
    expected = classifier.predict_proba(images)
    assert not np.allclose(
        expected, FewShotClassifier("fc100").fit(images, labels).predict_proba(images)
    )
    classifier.save(tmp_path / "c.tadam")
    loaded = FewShotClassifier.load(tmp_path / "c.tadam")
    assert (loaded.image_size, loaded.predictor_.image_size) == (48, 48)
    np.testing.assert_allclose(loaded.predict_proba(images), expected, atol=1e-6)


def test_an_image_size_that_cannot_be_is_refused_in_one_sentence(tmp_path: Path) -> None:
    images, labels = blobs(2, 3)
    cases: list[tuple[Any, Any, str]] = [
        ("fc100", 8, "`image_size` must be a whole number from 16 to 1024, got 8"),
        ("fc100", 20.5, "from 16 to 1024, got 20.5"),
        (Colours(), 48, "build the backbone with the size you want"),
    ]
    for model, size, words in cases:
        classifier = FewShotClassifier(model, image_size=size)
        assert words in refusal(partial(classifier.fit, images, labels))
