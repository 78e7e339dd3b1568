"""A recipe's optimiser: weight decay by parameter, gradient clipping, and the step itself."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from tadam.config import OptimiserConfig
from tadam.errors import UserError
from tadam.methods.base import Method


def make_optimiser(
    model: Method, trains: Callable[[str], bool], config: OptimiserConfig
) -> torch.optim.Optimizer:
    """An optimiser for the parameters whose names `trains` accepts, each with its weight decay."""
    groups: dict[float, list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if trains(name):
            groups.setdefault(model.weight_decay(name, parameter, config), []).append(parameter)
    if not groups:
        raise UserError("this recipe has nothing to train: evaluate it, or change backbone.name")
    params = [{"params": group, "weight_decay": decay} for decay, group in groups.items()]
    # Fused: one pass over a parameter, its gradient and its state instead of five.
    fused = next(model.parameters()).device.type in ("cpu", "cuda")
    if config.name == "adamw":
        return torch.optim.AdamW(params, lr=config.learning_rate, fused=fused, foreach=not fused)
    return torch.optim.SGD(
        params, config.learning_rate, config.momentum, fused=fused, foreach=not fused
    )


def clip_gradients(parameters: Iterable[nn.Parameter], config: OptimiserConfig) -> None:
    """Clips gradient norms: each parameter's own, as the authors do, or the global norm."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    if config.clip == "none":
        return
    norms = torch._foreach_norm(gradients)
    if config.clip == "global":
        norms = (torch.stack(norms).norm(),) * len(gradients)
    # One kernel for all the factors; a Python loop over 200 parameters costs more than the maths.
    factors = (config.clip_norm / torch.stack(norms).clamp_min(1e-12)).clamp_max(1.0)
    if factors.device.type != "cpu":  # reading the factors would wait for the device
        torch._foreach_mul_(gradients, list(factors.unbind()))
        return
    for gradient, factor in zip(gradients, factors.tolist(), strict=True):
        if factor < 1:
            gradient.mul_(factor)


def take_step(optimiser: torch.optim.Optimizer) -> None:
    """Steps the optimiser, with convolution weights viewed in the order they have in memory.

    They are channels last. PyTorch's fused kernels first copy anything that is not contiguous,
    which takes three times as long as the step, and they compute a wrong step if a gradient's
    strides differ from its weight's.
    """
    updated = [p for group in optimiser.param_groups for p in group["params"] if p.grad is not None]
    for parameter in updated:
        if parameter.grad.stride() != parameter.stride():
            parameter.grad = torch.empty_like(parameter).copy_(parameter.grad)
    last = torch.channels_last
    turned = [p for p in updated if not p.is_contiguous() and p.is_contiguous(memory_format=last)]
    _permute(optimiser, turned, (0, 2, 3, 1))
    try:
        optimiser.step()
    finally:
        _permute(optimiser, turned, (0, 3, 1, 2))


def _permute(
    optimiser: torch.optim.Optimizer, parameters: list[nn.Parameter], order: tuple[int, ...]
) -> None:
    """Permutes parameters, their gradients and their state in place; no data moves."""
    for parameter in parameters:
        gradient, parameter.grad = parameter.grad, None
        assert gradient is not None
        parameter.data = parameter.data.permute(order)
        parameter.grad = gradient.permute(order)
        state = optimiser.state[parameter]
        for name, value in state.items():
            if isinstance(value, Tensor) and value.ndim == len(order):
                state[name] = value.permute(order)
