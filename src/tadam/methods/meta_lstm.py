"""Meta-LSTM: an LSTM learns the update rule of a small network (Ravi and Larochelle, 2017).

Optimization as a Model for Few-Shot Learning, ICLR 2017. The learner's parameters are the cell
state of an LSTM whose candidate is the negative gradient of the support loss (eq. 2 and 3):

    theta_t = f_t * theta_{t-1} - i_t * grad_t
    f_t = sigmoid(W_F [h_t, theta_{t-1}, f_{t-1}] + b_F),   i_t likewise with W_I and b_I

h_t is the output of an ordinary LSTM (4 -> 20) over the loss and the gradient, each as the pair of
numbers that Andrychowicz et al. (2016) propose (sec. 3.2). All coordinates share these weights and
have states of their own. theta_0 is learnt. Gradients of the learner are inputs, not differentiated
through (sec. 3.3). A task starts with fresh batch-norm statistics: in training the queries are
normalised by their own, at test by those of the support set (sec. 3.4), so queries stay apart.

What the paper leaves open, or we do differently:

- Each inner step takes the whole support set, which is what the authors' batches of 5 (one shot)
  and 25 images (five) come to.
- Their code divides the gradient of the mean loss once more by the number of images; we do not.
- f_{t-1} and i_{t-1} are the gates, as in the equations, and 0 before the first step. Their code
  keeps what stands before the sigmoid.
- The gates' first biases are settings: `forget_bias` drawn from 4 to 6 around 5, `input_bias` from
  -5 to -4 around -4.5 in the authors' code, which is a first learning rate of about 0.01.
- Every support image counts the same in the inner loss, so classes with more shots count more.
- `shared_head` is as in MAML.
- `support_norm` normalises the queries by the support set under the learner's last parameters, in
  training too. The paper's way left a gap between training and test here: on Omniglot 92 % of the
  training queries were right, and 79 % of the validation's.
"""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor, nn
from torch.func import grad_and_value, vmap
from torch.nn.modules.batchnorm import _BatchNorm

from tadam.config import Config, MethodConfig
from tadam.config.checks import require
from tadam.methods.base import InputSpec
from tadam.methods.inner_network import InnerNetwork, Named
from tadam.methods.with_backbone import installed_backbone
from tadam.nn.backbone import Backbone
from tadam.registry import METHODS

#: p of the preprocessing: numbers below exp(-p) are scaled up rather than taken as logarithms.
_P = 10.0


@dataclass(frozen=True)
class MetaLstmConfig(MethodConfig):
    """Settings of the Meta-LSTM."""

    name: str = "meta_lstm"
    inner_steps: int = 12
    """Updates of the learner on a support set."""
    hidden: int = 20
    """Units of the LSTM that reads loss and gradient."""
    norm_momentum: float = 0.9
    """Share of the newest batch in batch norm's statistics of a task."""
    forget_bias: float = 5.0
    """First bias of the forget gate, give or take 1."""
    input_bias: float = -4.5
    """First bias of the input gate, give or take 0.5: its sigmoid is the first learning rate."""
    shared_head: bool = False
    """Start all classes from the same row of the head, which then fits any number of classes."""
    support_norm: bool = False
    """Normalise queries by the support set, in training too; else in training by themselves."""

    def __post_init__(self) -> None:
        require(self.inner_steps >= 1, "method.inner_steps", "at least 1", self.inner_steps)
        require(1 <= self.hidden <= 1024, "method.hidden", "between 1 and 1024", self.hidden)
        ok = 0 < self.norm_momentum <= 1
        require(ok, "method.norm_momentum", "above 0 and at most 1", self.norm_momentum)


def preprocess_number(x: Tensor) -> Tensor:
    """A number as two of similar size, (…) -> (…, 2) (Andrychowicz et al., 2016, appendix A)."""
    size = x.abs()
    large = size >= torch.exp(torch.tensor(-_P))
    first = torch.where(large, size.clamp_min(1e-30).log() / _P, -torch.ones_like(x))
    second = torch.where(large, x.sign(), x * torch.exp(torch.tensor(_P)))
    return torch.stack([first, second], dim=-1)


class LearnerState:
    """Where the meta-learner is: the learner's parameters and its own memory of each.

    Attributes:
        theta: Parameters of the learners, (T, P).
        gates: Forget and input gate of the step before, (T, P) each.
        lstm: Output and cell of the LSTM, (T * P, hidden) each; None before the first step.
    """

    def __init__(self, theta: Tensor) -> None:
        self.theta = theta
        self.gates = (torch.zeros_like(theta), torch.zeros_like(theta))
        self.lstm: tuple[Tensor, Tensor] | None = None


class MetaLearner(nn.Module):
    """The update rule: an LSTM over loss and gradient, and the gates of the learner's parameters.

    Args:
        hidden: Units of the LSTM.
    """

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.lstm = nn.LSTMCell(4, hidden)
        self.forget = nn.Linear(hidden + 2, 1)
        self.input = nn.Linear(hidden + 2, 1)

    def initialise(self, forget: float, enter: float, generator: torch.Generator) -> None:
        """Small weights, and biases around the given ones, so that it starts as plain descent."""
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.01, 0.01, generator=generator)
        nn.init.uniform_(self.forget.bias, forget - 1, forget + 1, generator=generator)
        nn.init.uniform_(self.input.bias, enter - 0.5, enter + 0.5, generator=generator)

    def forward(self, state: LearnerState, losses: Tensor, gradients: Tensor) -> LearnerState:
        """One update (eq. 3).

        Args:
            state: Before it.
            losses: Of the support sets, (T,).
            gradients: Of the losses, (T, P).
        """
        of_loss = preprocess_number(losses)[:, None].expand(*gradients.shape, 2)
        inputs = torch.cat([of_loss, preprocess_number(gradients)], dim=-1)  # (T, P, 4)
        after = LearnerState(state.theta)
        after.lstm = self.lstm(inputs.flatten(0, 1), state.lstm)
        h = after.lstm[0].unflatten(0, gradients.shape)  # (T, P, hidden)
        forget, enter = (
            _gate(layer, h, state.theta, before)
            for layer, before in zip((self.forget, self.input), state.gates, strict=True)
        )
        after.gates = (forget, enter)
        after.theta = forget * state.theta - enter * gradients
        return after


def _gate(layer: nn.Linear, h: Tensor, theta: Tensor, before: Tensor) -> Tensor:
    """sigmoid(W [h, theta, gate before] + b), (T, P), without putting the three side by side."""
    weight = layer.weight[0]
    of_theta, of_gate = weight[-2], weight[-1]
    return torch.sigmoid(h @ weight[:-2] + theta * of_theta + before * of_gate + layer.bias)


@METHODS.register("meta_lstm", MetaLstmConfig)
class MetaLstm(InnerNetwork):
    """A network whose initial weights and update rule are learnt.

    Args:
        backbone: The learner's feature extractor.
        way: Classes of a task.
        settings: The inner loop's.
    """

    def __init__(self, backbone: Backbone, way: int, settings: MetaLstmConfig) -> None:
        super().__init__(backbone, way, settings.shared_head, settings.support_norm)
        self.settings = settings
        self.meta_learner = MetaLearner(settings.hidden)
        for norm in backbone.modules():
            if isinstance(norm, _BatchNorm):
                norm.momentum = settings.norm_momentum

    @classmethod
    def from_config(cls, config: Config, spec: InputSpec) -> Self:
        """Builds a recipe's model."""
        assert isinstance(config.method, MetaLstmConfig)
        return cls(installed_backbone(config, spec), config.episode.way, config.method)

    def initialise_rest(self, config: Config, generator: torch.Generator) -> None:
        """Draws the head and the meta-learner."""
        super().initialise_rest(config, generator)
        settings = self.settings
        self.meta_learner.initialise(settings.forget_bias, settings.input_bias, generator)

    def learnt(self, x: Tensor, labels: Tensor, way: int) -> tuple[Named, Named]:
        """Parameters after the inner steps, and the statistics of the support sets.

        See `InnerNetwork.learnt`.
        """
        weights = self.weights(way)
        tasks, training = len(x), self.backbone.training
        statistics = {
            name: buffer.expand(tasks, *buffer.shape)
            for name, buffer in self.norm_statistics().items()
        }
        flat = torch.cat([weight.flatten() for weight in weights.values()])
        state = LearnerState(flat.expand(tasks, -1))
        step = vmap(grad_and_value(self.loss, has_aux=True))
        self.backbone.train()  # at test too, support sets are normalised by their own statistics
        try:
            for _ in range(self.settings.inner_steps):
                at = _unflatten(state.theta.detach(), weights)
                gradients, (losses, statistics) = step(at, statistics, x, labels)
                of_tasks = [gradients[name].flatten(1) for name in weights]
                state = self.meta_learner(state, losses, torch.cat(of_tasks, dim=1))
        finally:
            self.backbone.train(training)
        return _unflatten(state.theta, weights), statistics


def _unflatten(theta: Tensor, like: Named) -> Named:
    """Rows of parameters, (T, P), by name and in the shapes of `like`, (T, …)."""
    parts = theta.split([weight.numel() for weight in like.values()], dim=1)
    return {
        name: part.reshape(-1, *weight.shape)
        for (name, weight), part in zip(like.items(), parts, strict=True)
    }
