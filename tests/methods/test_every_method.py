"""What every method must do: train, resume, be measured, classify, and treat tasks as they are.

The rows are those of Table 1: each method's own recipe, made tiny.
"""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import tadam as package
from tadam.config import Config
from tadam.data.catalogue import load_splits
from tadam.data.store import ImageStore
from tadam.errors import Interrupted, UserError
from tadam.methods.base import InputSpec, Method, build_model
from tadam.models.modelfile import open_tensors
from tadam.recipes.method_recipes import (
    METHOD_DATASETS,
    METHOD_SHOTS,
    MethodRecipe,
    all_method_recipes,
    method_rows,
)
from tadam.registry import METHODS
from tadam.training.run import train
from tadam.training.trainer import StepResult, Trainer
from tiny import write_image_folder

WAY, SIDE = 3, 16
#: Any method's recipe in a second; what a method does not have is left out.
TINY = {
    "data.image_size": SIDE,
    "episode.way": WAY,
    "episode.shot": 2,
    "episode.queries": 6,
    "episode.tasks": 2,
    "backbone.width": 4,
    "auxiliary.batch_size": 6,
    "method.batch_size": 6,
    "method.inner_steps": 2,
    "method.test_steps": 2,
    "schedule.episodes": 4,
    "schedule.warmup": 0,
    "schedule.kind": "cosine",
    "optimiser.learning_rate": 0.01,
    "validation.every": 2,
    "validation.tasks": 2,
    "validation.queries": 6,
    "validation.way": WAY,
    "run.log_every": 1,
    "run.checkpoint_every": 1,
}
#: Methods whose answer depends on which class is called 0, and the setting that ends it, if any.
NUMBERED = {
    "maml": "method.shared_head=true",
    "meta_lstm": "method.shared_head=true",
    "snail": "",  # labels are inputs
    "adaresnet": "",  # each class has an output of its own
}
#: Of `TINY`, what a recipe may have less of: MAML with one inner step is computed another way.
AT_MOST = ("method.inner_steps", "method.test_steps")
#: Methods -> numbers of classes that they refuse when they were trained with `WAY`.
REFUSED_WAYS = {
    "snail": (2, 4),  # labels are inputs
    "adaresnet": (4,),  # each class has an output of its own
}
#: Parameters that move no answer: a shared head's bias adds the same to every logit.
IDLE = {"maml": {"head.bias"}}
#: Rows for which the order of the support images means something.
ORDERED = ("matching_fce",)
ROWS = method_rows()


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_image_folder(tmp_path_factory.mktemp("images"), classes=16, side=SIDE)


def tiny(
    row: str,
    images: Path,
    *changes: str,
    dataset: str = "omniglot",
    shot: int = 1,
    cpu: bool = True,
) -> Config:
    config = MethodRecipe(row, dataset, shot, cpu).config()
    settings = []
    for key, value in TINY.items():
        old = _setting(config, key)
        if old is not None:
            settings.append(f"{key}={min(old, value) if key in AT_MOST else value}")
    return config.with_settings([*settings, f"data.name=folder:{images}", *changes])


def _setting(config: Config, key: str) -> Any:
    """Its value; None if the recipe has no such setting."""
    table, _, name = key.partition(".")
    return vars(getattr(config, table)).get(name) if table in config.sections() else None


def untrained(config: Config) -> Method:
    """A method with weights that tell images apart, not trained."""
    training = config.method.has_class_head(config)
    model = build_model(config, InputSpec(3, SIDE, 8 if training else 0))
    model.initialise(config, [110.0] * 3, [60.0] * 3)
    return model.eval()


def task_of(seed: int, labels: list[int], queries: int = 5) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shape = (1, len(labels) + queries, 3, SIDE, SIDE)
    pixels = torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
    return pixels[:, : len(labels)], torch.tensor([labels]), pixels[:, len(labels) :]


def answers(model: Method, task: tuple[Tensor, Tensor, Tensor], way: int = WAY) -> Tensor:
    with torch.set_grad_enabled(model.needs_gradients):
        return model(*task, way).detach()  # type: ignore[no-any-return]


EQUAL = [0, 0, 1, 1, 2, 2]


def test_every_method_has_a_row_and_every_recipe_builds() -> None:
    shipped = [n for n in METHODS.names() if METHODS.find(n).__module__.startswith("tadam.")]
    configs = {recipe.name: recipe.config() for recipe in all_method_recipes()}
    assert set(shipped) == {config.method.name for config in configs.values()}
    seen = set()
    for name, config in configs.items():
        shape = (config.method, config.backbone, config.conditioning, config.data.name)
        if shape in seen:
            continue
        seen.add(shape)
        sides = {"omniglot_rotated": (1, 28), "mini_imagenet": (3, 84)}
        channels, side = sides.get(config.data.name, (3, 32))
        with torch.device("meta"):
            spec = InputSpec(channels, config.data.image_size or side, 64)
            model = build_model(config, spec)
        assert sum(p.numel() for p in model.parameters()) > 1000, name


@pytest.mark.parametrize("row", ROWS)
def test_it_trains_resumes_bit_for_bit_is_measured_and_classifies(
    row: str, images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny(row, images)
    train(config, tmp_path / "whole", device="cpu")
    original = Trainer.step

    def stopped(self: Trainer, t: int) -> StepResult:
        if t == 3:
            raise Interrupted("stopped")
        return original(self, t)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "step", stopped)
        with pytest.raises(Interrupted):
            train(config, tmp_path / "run", device="cpu")
    train(config, tmp_path / "run", resume=True, device="cpu")
    for name in ("best.safetensors", "last.safetensors"):
        whole, resumed = (open_tensors(tmp_path / run / name)[0] for run in ("whole", "run"))
        assert whole.keys() == resumed.keys()
        for key, tensor in whole.items():
            assert torch.equal(tensor, resumed[key]), f"{name}: {key}"

    measured = package.evaluate(
        tmp_path / "run", dataset=f"folder:{images}", way=WAY, shot=2, tasks=3, queries=6
    )
    assert 0 <= measured.accuracy <= 1
    folders = sorted(images.iterdir())[:WAY]
    support = [file for folder in folders for file in sorted(folder.iterdir())[:2]]
    queries = [sorted(folder.iterdir())[3] for folder in folders]
    names = [file.parent.name for file in support]
    classifier = package.FewShotClassifier(tmp_path / "run", device="cpu").fit(support, names)
    probabilities = classifier.predict_proba(queries)
    assert probabilities.sum(axis=1) == pytest.approx(1, abs=1e-5)
    # Each answer is the image's own, whoever comes with it ...
    alone = np.concatenate([classifier.predict_proba([query]) for query in queries])
    assert probabilities == pytest.approx(alone, abs=1e-4)
    # ... and that of the file.
    classifier.save(tmp_path / "c.tadam")
    again = package.FewShotClassifier.load(tmp_path / "c.tadam", device="cpu")
    assert again.predict_proba(queries) == pytest.approx(probabilities, abs=1e-6)


@pytest.mark.parametrize("row", ROWS)
def test_every_recipe_takes_two_steps(row: str, images: Path) -> None:
    made: list[Config] = []
    for dataset, shot, cpu in itertools.product(METHOD_DATASETS, METHOD_SHOTS, (False, True)):
        config = tiny(row, images, dataset=dataset, shot=shot, cpu=cpu)
        if config in made:  # made tiny, most are alike
            continue
        made.append(config)
        model, store = drawn(config)
        trainer = Trainer(config, model, store, torch.device("cpu"))
        for t in range(2):
            assert all(number.isfinite() for number in trainer.step(t).numbers.values())


def drawn(config: Config) -> tuple[Method, ImageStore]:
    store = load_splits(config.data)["train"]
    spec = InputSpec(3, SIDE, len(store.class_names) if config.method.has_class_head(config) else 0)
    model = build_model(config, spec)
    model.initialise(config, [110.0] * 3, [60.0] * 3)
    return model, store


@pytest.mark.parametrize("backbone", ["conv4", "resnet12"])
@pytest.mark.parametrize("row", ROWS)
def test_gradients_reach_every_parameter_with_either_network(
    row: str, backbone: str, images: Path
) -> None:
    name = MethodRecipe(row, "omniglot", 1, cpu=True).config().backbone.name
    other = () if name == backbone else (f"backbone.name={backbone}",)
    config = tiny(row, images, *other)
    model, store = drawn(config)
    trainer = Trainer(config, model, store, torch.device("cpu"))
    reached = set()
    for update in trainer.updates:  # each zeroes the gradients of the one before it
        trainer.step(0, only=[update.name])
        trainer.step(1, only=[update.name])  # multipliers that start at zero hide what is behind
        reached |= {n for n, p in model.named_parameters() if p.grad is not None and p.grad.any()}
    missing = {n for n, p in model.named_parameters() if p.requires_grad} - reached
    assert missing <= IDLE.get(config.method.name, set())


@pytest.mark.parametrize("row", ROWS)
def test_permuted_labels_permute_the_answers(row: str, images: Path) -> None:
    name = MethodRecipe(row, "omniglot", 1).config().method.name
    setting = NUMBERED.get(name)
    if setting == "":
        return  # a class is its number to this method: docs/reference/methods.md says so
    model = untrained(tiny(row, images, *([setting] if setting else [])))
    support, labels, query = task_of(0, EQUAL)
    places = torch.tensor([2, 0, 1])
    one = answers(model, (support, labels, query))
    other = answers(model, (support, places[labels], query))
    assert not torch.allclose(one, one[:, :, places], atol=1e-4), "the test sees nothing"
    assert torch.allclose(other[:, :, places], one, atol=1e-4)


@pytest.mark.parametrize("row", ROWS)
def test_the_order_of_the_support_set_does_not_matter(row: str, images: Path) -> None:
    model = untrained(tiny(row, images))
    support, labels, query = task_of(1, EQUAL)
    order = torch.tensor([4, 0, 3, 5, 1, 2])
    one = answers(model, (support, labels, query))
    other = answers(model, (support[:, order], labels[:, order], query))
    scale = one.abs().max().clamp(min=1).item()
    assert torch.allclose(one, other, atol=1e-4 * scale) is (row not in ORDERED)


@pytest.mark.parametrize("row", ROWS)
def test_tasks_are_apart_and_queries_are_as_it_says(row: str, images: Path) -> None:
    model = untrained(tiny(row, images))
    tasks = [task_of(seed, EQUAL) for seed in (2, 3)]
    both: Any = tuple(torch.cat(parts) for parts in zip(*tasks, strict=True))
    apart = torch.cat([answers(model, task) for task in tasks])
    assert torch.allclose(answers(model, both), apart, atol=1e-4)
    support, labels, query = tasks[0]
    fewer = answers(model, (support, labels, query[:, :2]))
    same = torch.allclose(fewer, apart[:1, :2], atol=1e-4)
    assert same is not model.sees_queries_together


@pytest.mark.parametrize("row", ROWS)
def test_unequal_shots_are_answered_and_other_numbers_of_classes_too_or_refused_in_a_sentence(
    row: str, images: Path
) -> None:
    config = tiny(row, images)
    model = untrained(config)
    for labels, way in (([0, 0, 0, 1, 2, 2], WAY), ([0, 1], 2), ([0, 1, 2, 3, 3], 4)):
        task = task_of(4, labels)
        if way in REFUSED_WAYS.get(config.method.name, ()):
            with pytest.raises(UserError, match=rf"{WAY} classes.* {way}") as refused:
                answers(model, task, way)
            assert "\n" not in str(refused.value)
            continue
        logits = answers(model, task, way)
        assert logits.shape == (1, 5, way)
        assert logits.isfinite().all()
