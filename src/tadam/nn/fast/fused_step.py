"""What follows a convolution in training, as one step of autograd that remembers little.

Plain autograd keeps the outputs of batch norm, FiLM, sum, swish and max-pool for the backward pass,
which is most of the memory of a training step. This keeps only the positions of the maxima and
recomputes the rest from the convolutions' outputs. Norms and FiLM become one scale and one shift
per channel.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tadam.nn.fast.max_pool import max_pool, max_pool_backward
from tadam.nn.fast.switch import refuse_second_order
from tadam.nn.film import check_modulation


def _of_images(vectors: Tensor, images: int) -> Tensor:
    """Each image's own vector, (T, C) -> (N, C, 1, 1); or (1, C, 1, 1) if there is only one."""
    tasks, channels = vectors.shape
    if tasks > 1:
        vectors = vectors[:, None].expand(tasks, images // tasks, channels).reshape(-1, channels)
    return vectors[:, :, None, None]


def _statistics(x: Tensor, norm: nn.BatchNorm2d) -> tuple[Tensor, Tensor]:
    """Mean and 1/std of a batch, (C,) each; the running statistics move."""
    if norm.num_batches_tracked is not None:
        norm.num_batches_tracked.add_(1)
    momentum, running = norm.momentum or 0.0, (norm.running_mean, norm.running_var)
    if x.device.type == "cpu":
        mean, variance = torch.ops.aten.batch_norm_update_stats(x, *running, momentum)
        return mean, variance.add_(norm.eps).rsqrt_()
    learnt = (norm.weight, norm.bias)
    _, mean, invstd = torch.native_batch_norm(x, *learnt, *running, True, momentum, norm.eps)
    return mean, invstd


class _Normed(NamedTuple):
    """A batch norm at work: its input, (N, C, H, W); scale, mean and 1/std, (C,) each."""

    x: Tensor
    scale: Tensor
    mean: Tensor
    invstd: Tensor

    def shift(self, bias: Tensor) -> Tensor:
        """What is added to the scaled input, (C,)."""
        return torch.addcmul(bias, self.mean, self.scale, value=-1)

    def sums(self, grad: Tensor, tasks: int) -> Tensor:
        """Of gradient times normalised input and of the gradient alone, (T, 2, C)."""
        sums: list[Tensor] = []
        weight = self.invstd  # any: these sums do not depend on it, but a GPU wants one
        wanted = [False, True, True]  # gradients of weight and bias, not of the input
        for of_task in zip(grad.chunk(tasks), self.x.chunk(tasks), strict=True):
            sums += torch.ops.aten.native_batch_norm_backward(
                *of_task, weight, None, None, self.mean, self.invstd, True, 0.0, wanted
            )[1:]
        return torch.stack(sums).view(tasks, 2, -1)

    def input_gradient(self, grad: Tensor, scale: Tensor, sums: Tensor) -> Tensor:
        """Gradient of the input.

        Args:
            grad: Of what follows the scale, (N, C, H, W).
            scale: Of each image, with FiLM's.
            sums: Gradients of the norm's weight and bias, (2, C).
        """
        # The statistics come from the whole batch, so every value contributes to each gradient.
        share = self.scale * (-self.x.shape[1] / self.x.numel())
        factor = share * self.invstd * sums[0]
        rest = torch.addcmul(share * sums[1], factor, self.mean, value=-1)
        factor, rest = factor[:, None, None], rest[:, None, None]
        out = torch.addcmul(rest, self.x, factor, out=torch.empty_like(self.x))
        return out.addcmul_(grad, scale)


def _normed(x: Tensor, norm: nn.BatchNorm2d) -> _Normed:
    mean, invstd = _statistics(x, norm)
    return _Normed(x, norm.weight * invstd, mean, invstd)


def _before_swish(x: Tensor, scale: Tensor, shift: Tensor, side: Sequence[Tensor]) -> Tensor:
    """`scale * x + shift`, plus the side: a shortcut's scale and itself. Vectors are of images."""
    y = torch.addcmul(shift, x, scale, out=torch.empty_like(x))
    return y.addcmul_(*side) if side else y


class _NormFilmSwish(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        gamma: Tensor | None,
        beta: Tensor | None,
        shortcut: Tensor | None,
        shortcut_weight: Tensor | None,
        shortcut_bias: Tensor | None,
        norm: nn.BatchNorm2d,
        shortcut_norm: nn.BatchNorm2d | None,
        pool: str | None,
    ) -> Tensor:
        main = _normed(x, norm)
        scale, shift = main.scale[None], main.shift(bias)[None]  # (1, C)
        if gamma is not None and beta is not None:
            scale, shift = gamma * scale, torch.addcmul(beta, gamma, shift)  # (T, C)
        side: tuple[Tensor, ...] = ()
        if shortcut is not None and shortcut_norm is not None:
            normed = _normed(shortcut, shortcut_norm)
            shift = shift + normed.shift(shortcut_norm.bias)
            side = (_of_images(normed.scale[None], len(x)), *normed)
        scale, shift = _of_images(scale, len(x)), _of_images(shift, len(x))
        y = F.silu(_before_swish(x, scale, shift, side[:2]), inplace=True)
        y, places = max_pool(y, pool) if pool else (y, None)
        ctx.save_for_backward(weight, bias, gamma, scale, shift, places, *main, *side)
        ctx.pool = pool
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_order()
        weight, bias, gamma, scale, shift, places, *rest = ctx.saved_tensors
        main, side = _Normed(*rest[:4]), rest[4:]
        y = _before_swish(main.x, scale, shift, side[:2])
        if ctx.pool:
            grad = max_pool_backward(grad, y, ctx.pool, places)
        grad = torch.ops.aten.silu_backward(grad, y, grad_input=y)
        of_film: tuple[Tensor | None, ...] = (None, None)
        of_side: tuple[Tensor | None, ...] = (None, None, None)
        sums = main.sums(grad, 1 if gamma is None else len(gamma))  # (T, 2, C)
        if gamma is None:
            of_norm = sums[0]
        else:
            of_norm = (gamma[:, None] * sums).sum(dim=0)
            with_input, alone = sums.unbind(dim=1)
            of_film = (torch.addcmul(bias * alone, weight, with_input), alone)
        of_x = main.input_gradient(grad, scale, of_norm)
        if side:
            normed = _Normed(*side[1:])
            of_side_norm = normed.sums(grad, 1)[0]
            of_shortcut = normed.input_gradient(grad, side[0], of_side_norm)
            of_side = (of_shortcut, *of_side_norm)
        return of_x, *of_norm, *of_film, *of_side, None, None, None


def norm_film_swish(
    x: Tensor,
    norm: nn.BatchNorm2d,
    modulation: tuple[Tensor, Tensor] | None = None,
    shortcut: tuple[Tensor, nn.BatchNorm2d] | None = None,
    pool: str | None = None,
) -> Tensor:
    """`pool(swish(gamma * norm(x) + beta + norm_s(shortcut)))` with the statistics of the batch.

    Args:
        x: Output of a convolution, (N, C, H, W).
        norm: Its weights are used and its running statistics updated.
        modulation: gamma and beta, each (T, C).
        shortcut: Output of the shortcut's convolution, (N, C, H, W), and its batch norm.
        pool: A 2x2 max-pool at the end, sizes rounded `up` or `down`; None for none.
    """
    gamma, beta = modulation if modulation is not None else (None, None)
    if gamma is not None and beta is not None:
        check_modulation(len(x), x.shape[1], gamma, beta)
    xs, norm_s = shortcut if shortcut is not None else (None, None)
    weight_s, bias_s = (norm_s.weight, norm_s.bias) if norm_s is not None else (None, None)
    out: Tensor = _NormFilmSwish.apply(  # type: ignore[no-untyped-call]
        x, norm.weight, norm.bias, gamma, beta, xs, weight_s, bias_s, norm, norm_s, pool
    )
    return out
