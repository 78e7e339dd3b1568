"""A forked child computes, although the threads of its parent's pool are not there."""

import os
import subprocess
import sys

import pytest

FORKS = """
import multiprocessing, sys
import numpy as np, torch
torch.set_num_threads(2)
from tadam import FewShotClassifier
from tadam.nn.backbones.pixels import RawPixels

images = [np.full((64, 64, 3), value, dtype=np.uint8) for value in (20, 200) * 40]
classifier = FewShotClassifier(RawPixels(image_size=64)).fit(images, [0, 1] * 40)
(torch.ones(600, 600) @ torch.ones(600, 600)).exp()  # the parent's pool is at work
expected = classifier.predict_proba(images)

def child():
    (torch.ones(600, 600) @ torch.ones(600, 600)).exp()
    assert np.allclose(classifier.predict_proba(images), expected)
    assert torch.get_num_threads() == 1

process = multiprocessing.get_context("fork").Process(target=child)
process.start()
process.join(60)
print(process.exitcode, torch.get_num_threads())
process.kill()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_predicts_after_its_parent_did() -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", FORKS], capture_output=True, text=True, env=environment, check=False
    )
    assert done.stdout == "0 2\n", done.stderr
