"""What every feature extractor offers; subclass it to plug in one's own."""

from torch import Tensor, nn

from tadam.nn.film import Film


class Backbone(nn.Module):
    """Embeds images, optionally modulated by FiLM.

    Attributes:
        feature_size: Length D of an embedding.
        conditioned_widths: Channels of each layer that FiLM can reach, in order; may be empty.
        pre_pool_layers: Which of those layers precede a pool.
    """

    feature_size: int
    conditioned_widths: tuple[int, ...] = ()
    pre_pool_layers: tuple[int, ...] = ()

    def forward(self, x: Tensor, film: Film | None = None) -> Tensor:
        """(T*N, C, H, W) -> (T*N, D); `film` has an entry per conditioned layer."""
        raise NotImplementedError
