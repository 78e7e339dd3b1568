"""SNAIL's blocks: causal convolutions over time and causal attention (Mishra et al., 2018, fig. 2).

A task is a sequence of N labelled images with one query at its end, for each of its Q queries.
Nothing looks ahead, so what happens to the labelled images is the same in all Q sequences. A block
therefore takes them once, (T, N, C), and beside them the last steps of all sequences, (T, Q, C).
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Sequences(nn.Module):
    """A part of SNAIL: adds channels to every step of every sequence."""

    def forward(self, support: Tensor, query: Tensor) -> tuple[Tensor, Tensor]:
        """(T, N, C) and (T, Q, C) -> (T, N, C') and (T, Q, C')."""
        raise NotImplementedError


class DenseBlock(Sequences):
    """`tanh(xf) * sigmoid(xg)` beside its input; xf and xg see a step and the one `dilation` ago.

    Args:
        channels: Of its input.
        dilation: How far back the convolution, of size 2, looks; before the start are zeros.
        filters: Channels that it adds.
    """

    def __init__(self, channels: int, dilation: int, filters: int) -> None:
        super().__init__()
        self.dilation = dilation
        self.now = nn.Linear(channels, 2 * filters)
        self.before = nn.Linear(channels, 2 * filters, bias=False)

    def forward(self, support: Tensor, query: Tensor) -> tuple[Tensor, Tensor]:
        """See `Sequences`."""
        steps = support.shape[1]
        before = F.pad(self.before(support), (0, 0, self.dilation, 0))  # (T, d + N, 2F)
        return (
            _gated(support, self.now(support) + before[:, :steps]),
            _gated(query, self.now(query) + before[:, steps : steps + 1]),
        )


def _gated(x: Tensor, both: Tensor) -> Tensor:
    content, gate = both.chunk(2, dim=-1)
    return torch.cat([x, content.tanh() * gate.sigmoid()], dim=-1)


class TCBlock(Sequences):
    """Dense blocks with dilations 1, 2, 4, … until the last step sees the first.

    Args:
        channels: Of its input.
        steps: Length of a sequence.
        filters: Channels that each dense block adds.
    """

    def __init__(self, channels: int, steps: int, filters: int) -> None:
        super().__init__()
        count = max(1, math.ceil(math.log2(steps)))
        self.blocks = nn.ModuleList(
            DenseBlock(channels + i * filters, 2**i, filters) for i in range(count)
        )
        self.channels = channels + count * filters

    def forward(self, support: Tensor, query: Tensor) -> tuple[Tensor, Tensor]:
        """See `Sequences`."""
        for block in self.blocks:
            support, query = block(support, query)
        return support, query


class AttentionBlock(Sequences):
    """What a step reads from itself and the steps before it, beside its input.

    Args:
        channels: Of its input.
        keys: Length of a key.
        values: Length of a value, which is what it adds.
    """

    def __init__(self, channels: int, keys: int, values: int) -> None:
        super().__init__()
        self.query = nn.Linear(channels, keys)
        self.key = nn.Linear(channels, keys)
        self.value = nn.Linear(channels, values)
        self.channels = channels + values

    def forward(self, support: Tensor, query: Tensor) -> tuple[Tensor, Tensor]:
        """See `Sequences`."""
        scale = self.key.out_features**-0.5
        keys, values = self.key(support), self.value(support)
        scores = scale * self.query(support) @ keys.mT  # (T, N, N)
        future = torch.ones_like(scores[0], dtype=torch.bool).triu(1)
        of_support = scores.masked_fill(future, -torch.inf).softmax(dim=-1) @ values
        asked = scale * self.query(query)
        own = (asked * self.key(query)).sum(dim=-1, keepdim=True)  # (T, Q, 1)
        shares = torch.cat([asked @ keys.mT, own], dim=-1).softmax(dim=-1)  # (T, Q, N + 1)
        of_query = shares[..., :-1] @ values + shares[..., -1:] * self.value(query)
        return torch.cat([support, of_support], dim=-1), torch.cat([query, of_query], dim=-1)
