"""A predictor carries what it computes with, and nothing of the network it came from."""

import io
import pickle

import pytest
import torch
from torch import Tensor

from tadam.classify.adaptive_metric import AdaptiveMetric
from tadam.classify.classifier import FewShotClassifier
from tadam.classify.predictor import Predictor
from tadam.nn.backbone import Backbone
from tadam.nn.backbones.conv4 import Conv4
from tadam.nn.backbones.pixels import RawPixels
from tadam.nn.backbones.resnet12 import ResNet12
from toy_backbones import Colours, blobs, random_model

IMAGES, LABELS = blobs(3, 4)


def tensors_within(thing: object) -> dict[int, Tensor]:
    """All tensors that go along when an object is pickled, by where they are in memory."""
    found: dict[int, Tensor] = {}

    class Counting(pickle.Pickler):
        def persistent_id(self, obj: object) -> str | None:
            if not isinstance(obj, Tensor):
                return None
            found[obj.data_ptr()] = obj
            return "a tensor"

    Counting(io.BytesIO()).dump(thing)
    return found


def floats(tensors: object) -> int:
    return sum(tensor.numel() for tensor in tensors)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "backbone",
    [
        ResNet12(width=16, image_size=16),
        Conv4(width=16, image_size=16),
        RawPixels(image_size=16),
        Colours(),
    ],
    ids=lambda backbone: type(backbone).__name__,
)
def test_every_number_that_a_predictor_carries_is_part_of_its_state(backbone: Backbone) -> None:
    predictor = Predictor(backbone.eval(), None, AdaptiveMetric(2, backbone.feature_size))
    with torch.no_grad():
        predictor(torch.from_numpy(IMAGES))  # what is packed for the kernels is kept elsewhere
    state = predictor.state_dict()
    assert floats(tensors_within(predictor).values()) == floats(state.values())


def test_a_fitted_classifier_carries_no_unfolded_network() -> None:
    model, _ = random_model()
    classifier = FewShotClassifier(model).fit(IMAGES, LABELS)
    classifier.model = None  # what the user gave is the user's
    inside = floats(tensors_within(vars(classifier)).values())
    assert inside == floats(classifier.predictor_.state_dict().values())


def test_the_predictor_does_not_share_its_preprocessing() -> None:
    backbone = Colours()
    predictor = Predictor(backbone, None, AdaptiveMetric(2, 6))
    backbone.pixel_mean.fill_(9.0)
    assert predictor.preprocess.pixel_mean.abs().max() == 0
    assert (predictor.image_size, predictor.channels) == (16, 3)
    assert (predictor.backbone_name, predictor.mirrored) == ("Colours", False)
