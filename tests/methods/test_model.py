"""The model is the paper: NumPy agrees, conditioning starts as identity, batch norm is right."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from gradients import grad
from pairwise import pairwise
from reference import Reference, convolved, normalised, random_weights
from tadam import native
from tadam.config import Config
from tadam.methods.base import InputSpec
from tadam.methods.tadam import Tadam
from tadam.methods.task_description import task_representation
from tadam.metric import DISTANCES
from toy_backbones import random_model

WAY = 3
LABELS = np.array([[0, 0, 1, 2, 2, 2], [2, 0, 1, 1, 0, 1]])  # shots 2, 1, 3 and 2, 3, 1
LAYERS = {
    "resnet12": {"all": range(1, 13), "pre_pool": (3, 6, 9, 12), "last": (12,)},
    "conv4": {"all": range(1, 5), "pre_pool": range(1, 5), "last": (4,)},
}


def make_model(
    size: int = 16,
    channels: int = 3,
    auxiliary_classes: int = 0,
    seed: int = 0,
    **tables: dict[str, Any],
) -> tuple[Tadam, dict[str, Any]]:
    """A model with random weights, and the same weights as NumPy arrays."""
    tables.setdefault("backbone", {})
    tables["backbone"] = {"width": 2, **tables["backbone"]}
    model = Tadam.build(Config().updated(tables), InputSpec(channels, size, auxiliary_classes))
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    weights = random_weights(shapes, seed)
    model.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
    return model.eval(), weights


@pytest.fixture(params=["core as built", "plain PyTorch"])
def any_core(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "plain PyTorch":
        monkeypatch.setattr(native, "available", lambda: False)


def make_images(
    size: int = 16, channels: int = 3, queries: int = 4, seed: int = 0
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Support and query images of two tasks; each image has its own colour and contrast."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(0, 1, (2, LABELS.shape[1] + queries, channels, size, size))
    colour = rng.uniform(60, 190, (*noise.shape[:3], 1, 1))
    images = colour + noise * rng.uniform(5, 60, (*noise.shape[:3], 1, 1))
    pixels = images.clip(0, 255).astype(np.uint8)
    return pixels[:, : LABELS.shape[1]], pixels[:, LABELS.shape[1] :]


def run(
    model: Tadam, support: npt.NDArray[Any], query: npt.NDArray[Any], condition: bool = True
) -> npt.NDArray[np.float32]:
    with torch.no_grad():
        logits = model(
            torch.from_numpy(support),
            torch.from_numpy(LABELS),
            torch.from_numpy(query),
            WAY,
            condition,
        )
    return np.asarray(logits.numpy())


def assert_same(logits: npt.NDArray[np.float32], expected: npt.NDArray[np.float64]) -> None:
    assert logits.shape == expected.shape == (2, 4, WAY)
    # the comparison would be empty if all distances were alike
    assert expected.std(axis=2).min() > 2e-3
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("representation", "layers", "distance", "size_and_pools"),
    pairwise(["mean", "mean_std"], list(LAYERS["resnet12"]), list(DISTANCES), [(16, 4), (17, 3)]),
)
def test_resnet12_agrees_with_numpy(
    representation: str, layers: str, distance: str, size_and_pools: tuple[int, int]
) -> None:
    size, pools = size_and_pools
    model, weights = make_model(
        size,
        backbone={"pools": pools},
        metric={"distance": distance},
        conditioning={"layers": layers, "representation": representation},
    )
    support, query = make_images(size)
    reference = Reference(
        pools=pools,
        distance=distance,
        conditioned=LAYERS["resnet12"][layers],
        spread=representation == "mean_std",
    )
    assert_same(run(model, support, query), reference.logits(weights, support, LABELS, query, WAY))


@pytest.mark.parametrize("distance", ["euclidean", "sqeuclidean", "cosine"])
@pytest.mark.parametrize("enabled", [True, False])
def test_resnet12_without_conditioning_agrees_with_numpy(distance: str, enabled: bool) -> None:
    model, weights = make_model(
        17, metric={"distance": distance}, conditioning={"enabled": enabled}
    )
    support, query = make_images(17)
    expected = Reference(distance=distance).logits(weights, support, LABELS, query, WAY)
    assert_same(run(model, support, query, condition=False), expected)


@pytest.mark.parametrize("layers", ["all", "pre_pool", "last"])
@pytest.mark.parametrize(
    ("size", "activation", "embedding"), [(17, "swish", "pooled"), (37, "relu", "flat")]
)
def test_conv4_agrees_with_numpy(size: int, activation: str, embedding: str, layers: str) -> None:
    model, weights = make_model(
        size,
        backbone={"name": "conv4", "width": 3, "activation": activation, "embedding": embedding},
        conditioning={"layers": layers},
    )
    support, query = make_images(size)
    reference = Reference(
        backbone="conv4",
        activation=activation,
        flat=embedding == "flat",
        conditioned=LAYERS["conv4"][layers],
    )
    assert_same(run(model, support, query), reference.logits(weights, support, LABELS, query, WAY))


@pytest.mark.parametrize("enabled", [True, False])
def test_training_normalises_every_pass_with_its_own_batch_statistics(
    enabled: bool, any_core: None
) -> None:
    model, weights = make_model(conditioning={"enabled": enabled})
    support, query = make_images()
    conditioned = LAYERS["resnet12"]["all"] if enabled else ()
    reference = Reference(conditioned=conditioned, training=True)
    assert_same(
        run(model.train(), support, query),
        reference.logits(weights, support, LABELS, query, WAY),
    )


def test_shuffled_support_images_give_the_same_logits() -> None:
    model, _ = make_model()
    support, query = make_images()
    straight = run(model, support, query)
    order = np.array([4, 2, 0, 5, 3, 1])
    with torch.no_grad():
        shuffled = model(
            torch.from_numpy(support[:, order]),
            torch.from_numpy(LABELS[:, order]),
            torch.from_numpy(query),
            WAY,
        )
    np.testing.assert_allclose(shuffled.numpy(), straight, atol=1e-5)


def test_a_task_is_conditioned_on_itself_alone() -> None:
    model, _ = make_model()
    support, query = make_images()
    together = run(model, support, query)
    other = support.copy()
    other[1] = 255 - other[1]
    changed = run(model, other, query)
    np.testing.assert_allclose(changed[0], together[0], atol=1e-6)
    assert np.abs(changed[1] - together[1]).max() > 1e-2


def zero_multipliers(model: Tadam) -> None:
    for name, parameter in model.named_parameters():
        if name.endswith(("gamma0", "beta0")):
            parameter.data.zero_()


@pytest.mark.parametrize("layers", ["all", "pre_pool", "last"])
def test_conditioning_is_identity_while_gamma0_and_beta0_are_zero(layers: str) -> None:
    model, _ = make_model(conditioning={"layers": layers})
    zero_multipliers(model)
    images = make_images()
    np.testing.assert_array_equal(run(model, *images), run(model, *images, condition=False))


@pytest.mark.parametrize(
    ("layer", "multiplier"), [(i, ("gamma0", "beta0")[i % 2]) for i in range(12)] + [(11, "gamma0")]
)
def test_conditioning_acts_once_a_multiplier_of_any_layer_moves(
    layer: int, multiplier: str
) -> None:
    model, _ = make_model()
    zero_multipliers(model)
    assert model.ten is not None
    getattr(model.ten.conditioners[str(layer)], multiplier).data.fill_(0.3)
    images = make_images()
    change = run(model, *images) - run(model, *images, condition=False)
    assert np.abs(change).max() > 1e-4


def test_condition_false_ignores_the_task_embedding_network() -> None:
    model, _ = make_model()
    images = make_images()
    before = run(model, *images, condition=False)
    assert model.ten is not None
    for parameter in model.ten.parameters():
        parameter.data.fill_(float("nan"))
    np.testing.assert_array_equal(run(model, *images, condition=False), before)
    assert np.isnan(run(model, *images)).all()


def test_task_representation_is_the_mean_and_the_spread_of_prototypes() -> None:
    c = torch.tensor([[[1.0, 5.0], [3.0, 5.0]], [[0.0, -2.0], [4.0, 4.0]]])  # (T, K, D) = (2, 2, 2)
    assert task_representation(c, "mean").tolist() == [[2, 5], [2, 1]]
    expected = [[2, 5, 1, 0], [2, 1, 2, 3]]
    np.testing.assert_allclose(task_representation(c, "mean_std"), expected, atol=2e-6)


def test_spread_of_equal_prototypes_has_a_finite_gradient() -> None:
    c = torch.ones(1, 3, 2, requires_grad=True)
    task_representation(c, "mean_std").sum().backward()
    assert torch.isfinite(grad(c)).all()


def batches_tracked(model: Tadam) -> set[int]:
    return {int(v) for k, v in model.state_dict().items() if k.endswith("num_batches_tracked")}


@pytest.mark.parametrize(("enabled", "passes"), [(True, 3), (False, 2)])
def test_batch_norm_counts_every_training_pass(enabled: bool, passes: int, any_core: None) -> None:
    model, _ = make_model(conditioning={"enabled": enabled}, auxiliary_classes=4)
    support, query = make_images()
    assert batches_tracked(model) == {7}
    run(model.train(), support, query)
    assert batches_tracked(model) == {7 + passes}
    model.auxiliary_logits(torch.from_numpy(query[0]))
    assert batches_tracked(model) == {7 + passes + 1}


def test_running_statistics_are_one_sequence_of_updates_with_momentum_005(any_core: None) -> None:
    model, weights = make_model(auxiliary_classes=4)
    support, query = make_images()
    model.train()
    run(model, support, query)
    model.auxiliary_logits(torch.from_numpy(query[1]))

    unit = "backbone.blocks.0.units.0."
    mean = np.float64(weights[unit + "norm.running_mean"])
    variance = np.float64(weights[unit + "norm.running_var"])
    # the first convolution sees the same support images in both passes
    for images in (support, support, query, query[1:]):
        x = convolved(normalised(weights, images), weights[unit + "conv.weight"])
        mean = 0.95 * mean + 0.05 * x.mean(axis=(0, 1, 3, 4))
        variance = 0.95 * variance + 0.05 * x.var(axis=(0, 1, 3, 4), ddof=1)
    state = model.state_dict()
    np.testing.assert_allclose(state[unit + "norm.running_mean"], mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(state[unit + "norm.running_var"], variance, rtol=1e-5)


def test_evaluation_mode_changes_no_weight_and_no_statistic() -> None:
    model, weights = make_model(auxiliary_classes=4)
    support, query = make_images()
    run(model, support, query)
    model.auxiliary_logits(torch.from_numpy(query[0]))
    for name, tensor in model.state_dict().items():
        np.testing.assert_array_equal(tensor.numpy(), weights[name], err_msg=name)


def test_auxiliary_head_is_linear_on_the_unconditioned_embedding() -> None:
    model, weights = make_model(auxiliary_classes=4)
    _, query = make_images()
    with torch.no_grad():
        logits = model.auxiliary_logits(torch.from_numpy(query[0])).numpy()
    z = Reference().embed(weights, query[:1], [{}])[0]  # (Q, D)
    expected = z @ weights["auxiliary_head.weight"].T + weights["auxiliary_head.bias"]
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-4)


def test_a_model_without_auxiliary_head_says_so() -> None:
    model, _ = make_model()
    with pytest.raises(ValueError, match="no auxiliary head"):
        model.auxiliary_logits(torch.zeros(1, 3, 16, 16))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_bytes_and_floats_on_the_0_255_scale_mean_the_same(kind: type[Any]) -> None:
    model, _ = make_model()
    support, query = make_images()
    as_float = run(model, support.astype(kind), query.astype(kind))
    np.testing.assert_array_equal(run(model, support, query), as_float)


def test_input_is_channels_last_whatever_the_images_layout() -> None:
    model, _ = make_model()
    images = torch.from_numpy(make_images()[1][0])  # (N, C, H, W)
    expected = model.backbone.preprocess(images)
    for order in ((0, 1, 2, 3), (2, 0, 3, 1), (3, 2, 1, 0)):
        lying = images.permute(order).contiguous().permute(tuple(np.argsort(order)))
        x = model.backbone.preprocess(lying)
        assert x.is_contiguous(memory_format=torch.channels_last)
        assert torch.equal(x, expected)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [16, 21, 84, 256])
@pytest.mark.parametrize("backbone", ["resnet12", "conv4"])
def test_any_image_size_and_channel_count_gives_finite_logits(
    backbone: str, size: int, channels: int
) -> None:
    model, _ = make_model(size, channels, backbone={"name": backbone, "width": 1})
    support, query = make_images(size, channels, queries=2)
    logits = run(model, support, query)
    assert logits.shape == (2, 2, WAY)
    assert np.isfinite(logits).all()


def initialised(seed: int) -> dict[str, torch.Tensor]:
    config = Config().updated({"backbone": {"width": 2}, "run": {"seed": seed}})
    model = Tadam.build(config, InputSpec(3, 16, 4))
    model.initialise(config, [1.0, 2.0, 3.0], [4.0, 5.0, 6.0])
    return model.state_dict()


def test_the_seed_alone_decides_the_initial_weights() -> None:
    torch.manual_seed(1)
    one = initialised(seed=5)
    torch.manual_seed(2)
    same, other = initialised(seed=5), initialised(seed=6)
    assert all(torch.equal(one[name], same[name]) for name in one)
    drawn = [n for n in one if one[n].ndim >= 2 and ".pixel_" not in n]
    assert len(drawn) == 16 + 12 * 2 * 3 + 1  # convolutions, TEN, auxiliary head
    assert not any(torch.equal(one[name], other[name]) for name in drawn)


def test_initialisation_sets_input_statistics_and_leaves_conditioning_at_identity() -> None:
    state = initialised(seed=0)
    assert state["backbone.pixel_mean"].flatten().tolist() == [1, 2, 3]
    assert state["backbone.pixel_std"].flatten().tolist() == [4, 5, 6]
    multipliers = [v.item() for k, v in state.items() if k.endswith(("gamma0", "beta0"))]
    assert multipliers == [0.0] * 24
    assert state["auxiliary_head.bias"].tolist() == [0.0] * 4


def test_building_and_initialising_leave_the_global_rng_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    initialised(seed=0)
    assert torch.equal(torch.rand(4), expected)


def test_a_mirrored_model_sees_an_image_and_its_mirror_image_alike_but_not_in_training() -> None:
    model, _ = random_model(backbone={"name": "resnet12", "width": 2, "mirrored": True})
    plain, _ = random_model()
    images = torch.randint(0, 256, (3, 3, 16, 16), dtype=torch.uint8)
    mirror = images.flip(-1)
    with torch.no_grad():
        z = model.embed(images)
        torch.testing.assert_close(z, (plain.embed(images) + plain.embed(mirror)) / 2)
        torch.testing.assert_close(z, model.embed(mirror))
        assert (plain.embed(images) - plain.embed(mirror)).abs().max() > 0.01 * z.abs().max()
        assert torch.equal(model.train().embed(images), plain.train().embed(images))
