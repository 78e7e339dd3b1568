"""The fused and native variants of the networks' parts, and the switch that turns them off.

Backbones are written from plain parts (`conv_unit.py`, `residual_block.py`, `folded.py`). Here are
siblings with the same weights that compute the same numbers faster. `parts.py` chooses one when a
network is built; where an input does not suit it, it falls back to the plain `forward`.
"""

from tadam.nn.fast.parts import conv_unit, folded_unit, residual_block
from tadam.nn.fast.switch import plain_autograd
from tadam.nn.fast.weights import constant_weights

__all__ = ["constant_weights", "conv_unit", "folded_unit", "plain_autograd", "residual_block"]
