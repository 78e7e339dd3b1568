"""Encoders that others made: what they have in common."""

from tadam.config import BackboneConfig
from tadam.nn.backbone import Backbone


class ForeignEncoder(Backbone):
    """A frozen network of somebody else's, described by its settings.

    Attributes:
        config: Its table in a recipe, from which it can be built again.
        one_by_one: Whether threads may run it side by side, each with its own images.
    """

    config: BackboneConfig
    one_by_one: bool = False

    def open(self) -> object:
        """Makes it ready; takes a moment the first time."""
        raise NotImplementedError


def token_rule(tokens: int) -> str:
    """What stands for an image among `tokens` vectors: the first of them, or their mean.

    Patches form a square; whatever comes on top of that starts with a class token.
    """
    return "mean" if round(tokens**0.5) ** 2 == tokens else "first"
