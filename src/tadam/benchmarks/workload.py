"""The benchmark workload: random images of FC100's shape and the paper's training step."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch

from tadam.benchmarks.naive import NaiveTrainer
from tadam.config import Config
from tadam.data.store import ImageStore
from tadam.methods.base import InputSpec
from tadam.methods.tadam import Tadam
from tadam.system.allocator import keep_large_blocks
from tadam.training.trainer import Trainer

_AUGMENT = {"flip": True, "crop_padding": 4, "brightness": 0.4, "contrast": 0.4, "saturation": 0.4}


@dataclass(frozen=True)
class Setup:
    """Sizes of a step; otherwise as in the paper: 2 tasks and an auxiliary batch of 64."""

    width: int = 16
    image_size: int = 32
    way: int = 5
    shot: int = 5
    queries: int = 32
    classes: int = 60  # FC100's training split: 60 classes of 600 images
    images_per_class: int = 600
    augmented: bool = False
    conditioned: bool = True

    def config(self) -> Config:
        """The recipe for this step."""
        return Config().updated(
            {
                "episode": {"way": self.way, "shot": self.shot, "queries": self.queries},
                "backbone": {"width": self.width},
                "conditioning": {"enabled": self.conditioned},
                "auxiliary": {"probability": 1.0, "decay": 1.0},  # in every step
                "augment": _AUGMENT if self.augmented else {},
            }
        )

    def store(self) -> ImageStore:
        """Random pixels."""
        shape = (self.classes * self.images_per_class, self.image_size, self.image_size, 3)
        images = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
        names = [str(k) for k in range(self.classes)]
        return ImageStore.from_counts(images, [self.images_per_class] * self.classes, names)

    def model(self, store: ImageStore) -> Tadam:
        """A model with initial weights."""
        config = self.config()
        model = Tadam.build(config, InputSpec(3, self.image_size, self.classes))
        model.initialise(config, *store.channel_statistics(most=1000))
        return model


@cache  # one per process: all turns of a measurement share a trainer
def our_trainer(setup: Setup) -> Trainer:
    """A trainer set up as in `tadam train`."""
    keep_large_blocks()
    store = setup.store()
    return Trainer(setup.config(), setup.model(store), store, torch.device("cpu"))


@cache
def naive_trainer(setup: Setup) -> NaiveTrainer:
    """The same step written the obvious way, with glibc's allocator unchanged."""
    store = setup.store()
    return NaiveTrainer(setup.config(), setup.model(store), store)
