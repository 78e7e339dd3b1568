"""Pieces of a step: shares, weights, and running statistics that do not care who computed what."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tadam.config import Config
from tadam.distributed.ranks import ALONE, Ranks
from tadam.errors import UserError
from tadam.methods.base import Update
from tadam.system.torchrun import Place
from tadam.training.pieces import Pieces


def config(*settings: str) -> Config:
    return Config().with_settings(["episode.tasks=4", "auxiliary.batch_size=10", *settings])


def pieces(ranks: Ranks, *settings: str, norm: nn.BatchNorm2d | None = None) -> Pieces:
    recipe = config(*settings)
    updates = [Update("few_shot", nn.Identity())]
    if recipe.auxiliary.enabled:
        updates.append(Update("auxiliary", nn.Identity(), images=recipe.auxiliary.batch_size))
    return Pieces(recipe, updates, list(norm.buffers()) if norm else [], ranks)


def ranks(size: int) -> list[Ranks]:
    return [Ranks(Place(rank, size)) for rank in range(size)]


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("statistics", ["batch", "task"])
@pytest.mark.parametrize("total", [4, 10])  # tasks, and an auxiliary batch that does not divide
def test_every_item_belongs_to_one_piece_of_one_process(
    size: int, statistics: str, total: int
) -> None:
    setting = f"backbone.statistics={statistics}"
    found = [list(pieces(r, setting).of(total)) for r in ranks(size)]
    items = [i for own in found for piece in own for i in range(total)[piece.items]]
    assert items == list(range(total))
    assert [len(own) for own in found] == [4 // size if statistics == "task" else 1] * size
    assert [[piece.last for piece in own] for own in found] == [
        [False] * (len(own) - 1) + [True] for own in found
    ]


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("statistics", ["batch", "task"])
def test_the_mean_over_processes_of_weighted_means_is_the_mean_over_all(
    size: int, statistics: str
) -> None:
    values = np.random.default_rng(0).normal(size=10)
    sums = [
        sum(
            p.weight * values[p.items].mean()
            for p in pieces(r, f"backbone.statistics={statistics}").of(10)
        )
        for r in ranks(size)
    ]
    assert np.mean(sums) == pytest.approx(values.mean())


def test_tasks_are_cut_alike_whatever_the_number_of_processes() -> None:
    cuts = [
        [
            (p.start, p.stop)
            for r in ranks(size)
            for p in pieces(r, "backbone.statistics=task").of(10)
        ]
        for size in (1, 2, 4)
    ]
    assert cuts == [[(0, 2), (2, 5), (5, 7), (7, 10)]] * 3


def moved_by(norm: nn.BatchNorm2d, batches: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    for batch in batches:
        norm(batch)
    names = ("running_mean", "running_var", "num_batches_tracked")
    return tuple(norm.get_buffer(name).clone() for name in names)


def test_running_statistics_are_the_means_over_pieces_computed_alone() -> None:
    generator = torch.Generator().manual_seed(0)
    data = torch.randn(4, 2, 8, 3, 5, 5, generator=generator) * 3 + 1  # 4 pieces, 2 passes each
    norm = nn.BatchNorm2d(3, momentum=0.3)
    norm.get_buffer("running_mean").fill_(7.0)
    for piece in pieces(ALONE, "backbone.statistics=task", norm=norm).of(4):
        for batch in data[piece.start]:
            norm(batch)

    alone = []
    for passes in data:
        single = nn.BatchNorm2d(3, momentum=0.3)
        single.get_buffer("running_mean").fill_(7.0)
        alone.append(moved_by(single, list(passes)))
    mean, var, tracked = zip(*alone, strict=True)
    torch.testing.assert_close(norm.running_mean, torch.stack(mean).mean(dim=0))
    torch.testing.assert_close(norm.running_var, torch.stack(var).mean(dim=0))
    assert norm.num_batches_tracked == tracked[0] == 2


def test_a_single_piece_leaves_the_running_statistics_to_the_network() -> None:
    norm, twin = nn.BatchNorm2d(3), nn.BatchNorm2d(3)
    batch = torch.randn(4, 3, 2, 2, generator=torch.Generator().manual_seed(0))
    for _ in pieces(ALONE, norm=norm).of(4):
        norm(batch)
    twin(batch)
    for name in ("running_mean", "running_var"):
        assert torch.equal(norm.get_buffer(name), twin.get_buffer(name))


@pytest.mark.parametrize(
    ("size", "settings", "words"),
    [
        (3, (), "episode.tasks is 4, which 3 processes cannot share evenly: set it to a multiple"),
        (8, (), "episode.tasks is 4, which 8 processes cannot share evenly"),
        (4, ("auxiliary.batch_size=3",), "auxiliary.batch_size is 3, but .* into 4 pieces"),
        (
            1,
            ("auxiliary.batch_size=3", "backbone.statistics=task"),
            "auxiliary.batch_size is 3, but .* into 4 pieces",
        ),
    ],
)
def test_sizes_that_cannot_be_split_are_refused(
    size: int, settings: tuple[Any, ...], words: str
) -> None:
    with pytest.raises(UserError, match=words):
        pieces(Ranks(Place(0, size)), *settings)


def test_without_co_training_its_batch_size_does_not_matter() -> None:
    pieces(Ranks(Place(0, 4)), "auxiliary.enabled=false", "auxiliary.batch_size=2")
