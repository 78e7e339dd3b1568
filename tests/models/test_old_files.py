"""What version 0.1.0 wrote still loads and answers as it did."""

from pathlib import Path

import numpy as np
import pytest

from tadam.classify.classifier import FewShotClassifier
from tadam.nn.backbones.efficientnet_lite import EfficientNetLite0

#: The model `imagenet` as 0.1.0 shipped it: 128 pixels, features before the head, centred.
OLD = Path(__file__).parents[1] / "files" / "imagenet-0.1.0.safetensors"
#: Computed by version 0.1.0 from the images below.
FIRST_FEATURES = [
    [0.0635727, 0.3125257, 1.1805079, -0.2144357],
    [-1.0185938, 2.1636455, 0.5044845, 0.3801885],
]


@pytest.mark.skipif(not EfficientNetLite0.is_installed(), reason="needs the extra imagenet")
def test_the_first_imagenet_model_embeds_as_it_did(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (6, 150, 140, 3), dtype=np.uint8)
    for i in range(6):
        images[i, :, :, i % 3] //= 2
    classifier = FewShotClassifier(OLD).fit(images, ["a", "b"] * 3)
    z = classifier.support_embeddings_
    assert (z.shape, classifier.predictor_.image_size) == ((6, 320), 128)
    np.testing.assert_allclose(z[:2, :4], FIRST_FEATURES, atol=1e-4)
    # A classifier's file has the same recipe inside, without the settings that are new.
    expected = classifier.predict_proba(images)
    classifier.save(tmp_path / "old.tadam")
    loaded = FewShotClassifier.load(tmp_path / "old.tadam")
    np.testing.assert_allclose(loaded.predict_proba(images), expected, atol=1e-6)
