"""FiLM scales and shifts each task's channels by that task's own vectors."""

import numpy as np
import pytest
import torch

from tadam.nn.film import film


def test_each_task_gets_its_own_scale_and_shift() -> None:
    x = torch.arange(8.0).reshape(4, 2, 1, 1)  # two tasks of two images of two channels
    gamma = torch.tensor([[1.0, 2.0], [10.0, 0.0]])
    beta = torch.tensor([[0.0, 1.0], [-1.0, 5.0]])
    expected = [[0, 3], [2, 7], [39, 5], [59, 5]]
    assert film(x, gamma, beta).flatten(1).tolist() == expected


def test_agrees_with_numpy_broadcasting_over_space() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 4, 5, 6, 7))  # (T, N, C, H, W)
    gamma, beta = rng.normal(size=(2, 3, 5))
    ours = film(*(torch.from_numpy(a) for a in (x.reshape(12, 5, 6, 7), gamma, beta)))
    expected = gamma[:, None, :, None, None] * x + beta[:, None, :, None, None]
    np.testing.assert_allclose(ours.numpy().reshape(x.shape), expected, rtol=1e-12)


def test_gamma_one_and_beta_zero_are_the_exact_identity() -> None:
    x = torch.randn(6, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(film(x, torch.ones(2, 3), torch.zeros(2, 3)), x)


def test_memory_format_is_kept() -> None:
    x = torch.zeros(4, 3, 5, 5).contiguous(memory_format=torch.channels_last)
    y = film(x, torch.ones(2, 3), torch.zeros(2, 3))
    assert y.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("shape", [(5, 3, 2, 2), (4, 2, 2, 2)])
def test_activations_that_do_not_fit_the_tasks_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(
        ValueError, match=rf"gamma \(2, 3\) .* do not fit {shape[0]} images of {shape[1]} channels"
    ):
        film(torch.zeros(shape), torch.ones(2, 3), torch.zeros(2, 3))
