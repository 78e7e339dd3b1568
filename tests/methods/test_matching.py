"""Matching Networks: attention, full context and the classifier, against NumPy."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import expit, softmax
from torch import Tensor

from tadam.config import Config
from tadam.errors import UserError
from tadam.methods.base import InputSpec, Tasks
from tadam.methods.matching import FullContext, MatchingNetwork
from tadam.metric import ScaledMetric
from tadam.nn.backbones.pixels import RawPixels


def pixels_of(*shape: int) -> Tensor:
    return torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(sum(shape)))


def network(distance: str, alpha: float, context: bool = False) -> MatchingNetwork:
    backbone = RawPixels(1, 4)
    backbone.pixel_std.fill_(100.0)
    torch.manual_seed(0)
    inner = FullContext(backbone.feature_size, 3) if context else None
    return MatchingNetwork(backbone, ScaledMetric(distance, alpha), inner).eval()


SUPPORT = pixels_of(2, 6, 1, 4, 4).to(torch.uint8)
LABELS = torch.tensor([[0, 0, 1, 2, 2, 2], [2, 1, 0, 0, 1, 2]])  # unequal shots in the first task
QUERY = pixels_of(2, 5, 1, 4, 4).to(torch.uint8)


def attention_by_hand(similarities: Any, labels: Any) -> Any:
    """Logarithm of each class's share of the attention, (Q, K)."""
    weights = softmax(similarities, axis=1)
    return np.log(np.stack([weights[:, labels == k].sum(axis=1) for k in range(3)], axis=1))


@pytest.mark.parametrize("alpha", [0.5, 7.0])
@pytest.mark.parametrize("distance", ["cosine", "sqeuclidean"])
def test_a_query_takes_the_labels_of_the_support_images_like_it(
    distance: str, alpha: float
) -> None:
    model = network(distance, alpha)
    logits = model(SUPPORT, LABELS, QUERY, 3).log_softmax(-1)
    for t in range(2):
        z, zq = (x[t].flatten(1).numpy() / 100.0 for x in (SUPPORT, QUERY))
        if distance == "cosine":  # with alpha 0.5 this is the paper's plain cosine
            cosines = (zq @ z.T) / np.outer(np.linalg.norm(zq, axis=1), np.linalg.norm(z, axis=1))
            similarities = 2 * alpha * cosines
        else:
            similarities = -alpha * ((zq[:, None] - z[None]) ** 2).sum(-1)
        expected = attention_by_hand(similarities, LABELS[t].numpy())
        assert logits[t].detach().numpy() == pytest.approx(expected, rel=1e-4, abs=1e-4)


def test_with_one_shot_and_cosine_the_answer_is_the_nearest_neighbour() -> None:
    support, labels = pixels_of(1, 5, 1, 4, 4), torch.tensor([[3, 0, 4, 1, 2]])
    query = pixels_of(1, 40, 1, 4, 4)
    answers = network("cosine", 0.5)(support, labels, query, 5)[0].argmax(-1)
    z, zq = (x[0].flatten(1).double() for x in (support, query))
    z, zq = z / z.norm(dim=1, keepdim=True), zq / zq.norm(dim=1, keepdim=True)
    assert answers.tolist() == labels[0][(zq @ z.T).argmax(-1)].tolist()


def lstm_by_hand(x: Any, h: Any, c: Any, parts: dict[str, Any]) -> tuple[Any, Any]:
    gates = parts["ih"] @ x + parts["bih"] + parts["hh"] @ h + parts["bhh"]
    i, f, g, o = np.split(gates, 4)
    c = expit(f) * c + expit(i) * np.tanh(g)
    return expit(o) * np.tanh(c), c


def weights_of(module: torch.nn.Module, end: str) -> dict[str, Any]:
    state = {n: t.detach().double().numpy() for n, t in module.state_dict().items()}
    return {
        "ih": state[f"weight_ih{end}"],
        "hh": state[f"weight_hh{end}"],
        "bih": state[f"bias_ih{end}"],
        "bhh": state[f"bias_hh{end}"],
    }


def test_full_context_follows_the_papers_equations() -> None:
    model = network("sqeuclidean", 0.3, context=True)
    assert model.context is not None
    logits = model(SUPPORT, LABELS, QUERY, 3).log_softmax(-1)
    forwards = weights_of(model.context.over_support, "_l0")
    backwards = weights_of(model.context.over_support, "_l0_reverse")
    cell = weights_of(model.context.over_query, "")
    for t in range(2):
        z, zq = (x[t].flatten(1).double().numpy() / 100.0 for x in (SUPPORT, QUERY))
        g, size = z.copy(), z.shape[1]
        for parts, order in ((forwards, range(6)), (backwards, range(5, -1, -1))):
            h = c = np.zeros(size)
            for i in order:
                h, c = lstm_by_hand(z[i], h, c, parts)
                g[i] += h
        f = []
        for x in zq:
            h, c = x, np.zeros(size)
            for _ in range(3):
                read = softmax(g @ h) @ g
                out, c = lstm_by_hand(np.concatenate([x, read]), h, c, cell)
                h = out + x
            f.append(h)
        similarities = -0.3 * ((np.array(f)[:, None] - g[None]) ** 2).sum(-1)
        expected = attention_by_hand(similarities, LABELS[t].numpy())
        assert logits[t].detach().numpy() == pytest.approx(expected, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("context", [False, True])
def test_labels_permuted_permute_the_predictions(context: bool) -> None:
    model = network("cosine", 5.0, context)
    places = torch.tensor([2, 0, 1])
    logits = model(SUPPORT, LABELS, QUERY, 3)
    renamed = model(SUPPORT, places[LABELS], QUERY, 3)
    assert torch.allclose(renamed[:, :, places], logits, atol=1e-6)


def test_the_order_of_the_support_matters_with_full_context_alone() -> None:
    order = torch.tensor([3, 5, 0, 2, 1, 4])
    for context in (False, True):
        model = network("cosine", 5.0, context)
        one = model(SUPPORT, LABELS, QUERY, 3)
        other = model(SUPPORT[:, order], LABELS[:, order], QUERY, 3)
        assert torch.allclose(one, other, atol=1e-6) is not context


@pytest.mark.parametrize("context", [False, True])
def test_embedding_images_once_changes_no_answer(context: bool) -> None:
    model = network("sqeuclidean", 0.2, context)
    once = tuple(
        embedded.unflatten(0, x.shape[:2])
        for x in (SUPPORT, QUERY)
        if (embedded := model.embed_once(x.flatten(0, 1))) is not None
    )
    assert len(once) == 2
    tasks = Tasks(LABELS, 3, (once[0], once[1]), lambda: torch.cat([SUPPORT, QUERY], 1))
    assert torch.allclose(model.answer(tasks), model(SUPPORT, LABELS, QUERY, 3))


def test_only_plain_embeddings_are_those_of_a_classifier() -> None:
    plain = network("cosine", 5.0)
    assert plain.as_embedding() == (plain.backbone, "cosine")
    assert network("cosine", 5.0, context=True).as_embedding() is None


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(UserError, match=r"method.steps must be between 1 and 100, got 0"):
        Config().updated({"method": {"name": "matching", "steps": 0}})


def test_a_recipe_has_its_parts_and_gradients_reach_all_of_them() -> None:
    config = Config().with_settings(
        [
            "method.name=matching",
            "method.full_context=true",
            "method.steps=2",
            "metric.alpha=3",
            "metric.learn_alpha=true",
            "backbone.name=conv4",
            "backbone.width=2",
        ]
    )
    model = MatchingNetwork.build(config, InputSpec(1, 16, 0))
    model.initialise(config, [120.0], [60.0])
    images = torch.randint(0, 256, (1, 8, 1, 16, 16), generator=torch.Generator().manual_seed(1))
    labels = torch.tensor([[0, 1, 2, 0]])
    logits = model(images[:, :4], labels, images[:, 4:], 3)
    logits[0, :, 1].logsumexp(0).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name
    assert model.logged() == {"alpha": pytest.approx(3.0)}
