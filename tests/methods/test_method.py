"""The socket for methods: a toy method trains, resumes and is evaluated by its own answers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import tadam as package
from tadam.config import Config, MethodConfig
from tadam.data.episodes import EpisodeSampler
from tadam.errors import Interrupted, UserError
from tadam.evaluation.tasks import evaluate_tasks
from tadam.methods.base import InputSpec, Method, Update
from tadam.methods.tadam import Tadam
from tadam.metric import prototypes
from tadam.models.modelfile import open_tensors
from tadam.registry import BACKBONES, METHODS
from tadam.training.log import read_log
from tadam.training.run import prepare
from tadam.training.trainer import Trainer
from tiny import write_image_folder


@dataclass(frozen=True)
class ToyConfig(MethodConfig):
    """Settings of the toy."""

    name: str = "toy"
    features: int = 4
    """Length of an embedding."""


@METHODS.register("toy", ToyConfig)
class Toy(Method):
    """Negative distances to the prototypes of a linear embedding."""

    def __init__(self, inputs: int, features: int) -> None:
        super().__init__()
        self.layer = nn.Linear(inputs, features)

    @classmethod
    def from_config(cls, config: Config, spec: InputSpec) -> Self:
        assert isinstance(config.method, ToyConfig)
        return cls(spec.channels * spec.image_size**2, config.method.features)

    def forward(self, support: Tensor, labels: Tensor, query: Tensor, way: int) -> Tensor:
        z, zq = (self.layer(x.flatten(2) / 255) for x in (support, query))
        return -torch.cdist(zq, prototypes(z, labels, way))


RECIPE = (
    "method.name=toy",
    "data.image_size=16",
    "episode.way=2",
    "episode.shot=1",
    "episode.queries=3",
    "schedule.episodes=6",
    "validation.every=3",
    "validation.tasks=3",
    "validation.queries=3",
    "run.log_every=1",
    "run.checkpoint_every=2",
)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_image_folder(tmp_path_factory.mktemp("images"))


def train_toy(images: Path, out: Path, **kwargs: Any) -> Any:
    return package.train(
        Config(), out, dataset=f"folder:{images}", settings=RECIPE, device="cpu", **kwargs
    )


def test_a_toy_method_trains_and_what_is_saved_is_the_toy(images: Path, tmp_path: Path) -> None:
    result = train_toy(images, tmp_path / "run")
    assert result.steps == 6
    model, info = package.load_model(tmp_path / "run" / "best.safetensors")
    assert isinstance(model, Toy)
    assert info.config.method == ToyConfig()
    records = read_log(tmp_path / "run")
    assert [r["step"] for r in records if "loss" in r] == [1, 2, 3, 4, 5, 6]
    assert not any("alpha" in r or "auxiliary_loss" in r for r in records)  # TADAM's own


def test_a_toy_method_resumes_bit_for_bit(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train_toy(images, tmp_path / "whole")
    original = Trainer.step

    def stopped(self: Trainer, t: int) -> Any:
        if t == 4:
            raise Interrupted("stopped")
        return original(self, t)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "step", stopped)
        with pytest.raises(Interrupted):
            train_toy(images, tmp_path / "run")
    train_toy(images, tmp_path / "run", resume=True)
    for name in ("best.safetensors", "last.safetensors"):
        whole, resumed = (open_tensors(tmp_path / run / name)[0] for run in ("whole", "run"))
        assert whole.keys() == resumed.keys()
        for key, tensor in whole.items():
            assert torch.equal(tensor, resumed[key]), key


def test_a_toy_method_is_measured_by_its_own_answers(images: Path, tmp_path: Path) -> None:
    train_toy(images, tmp_path / "run")
    model, _ = package.load_model(tmp_path / "run" / "best.safetensors")
    result = package.evaluate(
        tmp_path / "run", dataset=f"folder:{images}", way=2, shot=1, tasks=4, queries=3
    )
    _, validation = prepare(Config().with_settings([*RECIPE, f"data.name=folder:{images}"]), "cpu")
    assert result.accuracy_unconditioned is None  # it has no such control
    ours = evaluate_tasks(model, validation, 5)
    assert ours.accuracy == pytest.approx(by_hand(model, validation, 5))


def by_hand(model: Method, sampler: EpisodeSampler, tasks: int) -> float:
    """Accuracy from the forward pass of one task after the other."""
    right = []
    for number in range(tasks):
        episode = sampler.task(number)

        def pixels(rows: Any) -> Tensor:
            return torch.from_numpy(sampler.store.images[rows]).permute(0, 1, 4, 2, 3)

        with torch.no_grad():
            logits = model(
                pixels(episode.support),
                torch.from_numpy(episode.support_labels),
                pixels(episode.query),
                sampler.way,
            )
        right.append((logits.argmax(dim=2).numpy() == episode.query_labels).mean())
    return float(np.mean(right))


class Contrary(Tadam):
    """TADAM that names the class it believes in least, and counts how often it is asked."""

    asked = 0

    def forward(
        self, support: Tensor, labels: Tensor, query: Tensor, way: int, condition: bool = True
    ) -> Tensor:
        type(self).asked += 1
        return -super().forward(support, labels, query, way, condition)


def test_a_subclass_that_overrides_forward_is_evaluated_by_its_forward(make_store: Any) -> None:
    config = Config().updated({"backbone": {"width": 2}, "auxiliary": {"enabled": False}})
    model = Contrary.build(config, InputSpec(3, 16, 0)).eval()
    model.initialise(config, [100.0] * 3, [50.0] * 3)
    plain = Tadam.build(config, InputSpec(3, 16, 0)).eval()
    plain.load_state_dict(model.state_dict())
    sampler = EpisodeSampler(make_store([8] * 4, size=16), 2, 2, 8, seed=0)
    ours, theirs = (evaluate_tasks(m, sampler, 20) for m in (model, plain))
    assert Contrary.asked > 0
    assert ours.accuracy == pytest.approx(1 - theirs.accuracy)  # of two classes
    assert ours.accuracy_unconditioned is None  # the inherited control answers for another forward


class Squared(Toy):
    """The toy with a loss of its own."""

    def updates(self, config: Config) -> list[Update]:
        return [Update("few_shot", self, loss=lambda logits, targets, _: logits.square().mean())]


def test_an_update_brings_its_own_loss(make_store: Any) -> None:
    config = Config().with_settings(list(RECIPE))
    spec = InputSpec(3, 16, 0)
    model, store = Squared.build(config, spec), make_store([8] * 3, size=16)
    trainer = Trainer(config, model, store, torch.device("cpu"))
    episode = trainer.sampler.batch(0, config.episode.tasks)

    def pixels(rows: Any) -> Tensor:
        return torch.from_numpy(store.images[rows]).permute(0, 1, 4, 2, 3)

    labels = torch.from_numpy(episode.support_labels)
    with torch.no_grad():
        logits = model(pixels(episode.support), labels, pixels(episode.query), 2)
    loss = trainer.step(0).numbers["loss"]
    assert loss.item() == pytest.approx(logits.square().mean().item(), rel=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["method.feature=3"], r"unknown key method\.feature \(did you mean method\.features\?\)"),
        (["metric.alpha=2.0"], r"method 'toy' does not use \[metric\]: leave it out"),
        (["conditioning.layers=last"], r"method 'toy' does not use \[conditioning\]: leave it out"),
    ],
)
def test_settings_that_a_method_does_not_have_are_refused(
    settings: list[str], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        Config().with_settings(["method.name=toy", *settings])


def test_another_method_drops_what_a_recipe_says_in_tables_that_it_does_not_use() -> None:
    config = Config().with_settings(["metric.alpha=2.0", "episode.shot=3"])
    other = config.with_settings(["method.name=toy"])
    assert (other.metric, other.episode.shot) == (Config().metric, 3)


def test_a_recipe_is_written_without_the_tables_that_its_method_does_not_use() -> None:
    text = Config().with_settings(["method.name=toy"]).to_toml()
    assert '[method]\nname = "toy"\nfeatures = 4\n' in text
    assert "[metric]" not in text
    assert Config.from_toml(text, "toy.toml") == Config().with_settings(["method.name=toy"])


class Mirrored:
    """Overrides `forward` from outside the tree of methods."""

    def forward(self, support: Tensor, labels: Tensor, query: Tensor, way: int) -> Tensor:
        return torch.zeros(len(query), query.shape[1], way)


class Mixed(Mirrored, Tadam):  # type: ignore[misc]
    """Tadam with the forward pass of a mixin."""


def test_a_forward_pass_from_a_mixin_disables_inherited_shortcuts_too() -> None:
    assert Mixed.answer is Method.answer
    assert Mixed.embed_once is Method.embed_once
    assert Tadam.answer is not Method.answer


def test_a_classifier_refuses_a_subclass_whose_forward_it_would_not_call(images: Path) -> None:
    config = Config().updated({"backbone": {"width": 2}, "auxiliary": {"enabled": False}})
    model = Contrary.build(config, InputSpec(3, 16, 0))
    with pytest.raises(UserError, match="Contrary has its own forward, which a classifier does"):
        package.FewShotClassifier(model).fit(images)


class TwiceNamed(Toy):
    """Two updates of one name."""

    def updates(self, config: Config) -> list[Update]:
        return [Update("few_shot", self), Update("few_shot", self)]


def test_updates_of_one_name_are_refused(make_store: Any) -> None:
    config = Config().with_settings(list(RECIPE))
    model = TwiceNamed.build(config, InputSpec(3, 16, 0))
    with pytest.raises(ValueError, match="updates must have different names"):
        Trainer(config, model, make_store([8] * 3, size=16), torch.device("cpu"))


class Flat(Toy):
    """Logits of the wrong shape."""

    def forward(self, support: Tensor, labels: Tensor, query: Tensor, way: int) -> Tensor:
        return super().forward(support, labels, query, way).flatten(0, 1)


def test_logits_of_another_shape_are_an_error_that_names_it(make_store: Any) -> None:
    config = Config().with_settings(list(RECIPE))
    sampler = EpisodeSampler(make_store([8] * 3, size=16), 2, 1, 3, seed=0)
    with pytest.raises(ValueError, match=r"Flat returned logits of shape .* expected \(tasks"):
        evaluate_tasks(Flat.build(config, InputSpec(3, 16, 0)), sampler, 2)


class Halved(Toy):
    """The toy, and how it does with half the logits."""

    def controls(self) -> tuple[str, ...]:
        return ("halved",)


def test_controls_of_ones_own_are_reported(make_store: Any) -> None:
    config = Config().with_settings(list(RECIPE))
    sampler = EpisodeSampler(make_store([8] * 3, size=16), 2, 1, 3, seed=0)
    result = evaluate_tasks(Halved.build(config, InputSpec(3, 16, 0)), sampler, 4)
    assert result.controls == {
        "halved": {
            "accuracy": result.accuracy,
            "ci95": result.ci95,
            "difference": 0.0,
            "difference_ci95": 0.0,
        }
    }


def test_a_backbone_that_is_not_installed_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = BACKBONES.find("conv4")
    monkeypatch.setattr(kind, "is_installed", lambda: False)
    monkeypatch.setattr(kind, "how_to_install", "pip install convolutions")
    with pytest.raises(UserError, match="'conv4' is not installed: pip install convolutions"):
        Tadam.build(Config().updated({"backbone": {"name": "conv4"}}), InputSpec(3, 16, 0))
