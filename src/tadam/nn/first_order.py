"""Gradients by hand are of first order: a second derivative through them would be wrong."""

import torch


def refuse_second_order() -> None:
    """For the start of a backward pass: raises if its gradients are to be differentiated again."""
    if torch.is_grad_enabled():  # in a backward pass only with create_graph=True
        raise RuntimeError("these networks have no second derivatives: leave create_graph out")
