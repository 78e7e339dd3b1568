"""What is left of a model once a task is settled: images in, probabilities out."""

import copy

import torch
from torch import Tensor, nn

from tadam.metric import DISTANCES
from tadam.nn.backbone import Backbone
from tadam.nn.film import Film


class Predictor(nn.Module):
    """A folded network, the prototypes of a task's classes and the scale of their distances.

    Nothing of the unfolded network is kept, only its preprocessing.

    Args:
        backbone: A trained network.
        film: The task's modulations, (1, C) each; None for an unconditioned task.
        distance: A key of `DISTANCES`.
        prototypes: (K, D).
        alpha: Scale of the distances.

    Attributes:
        preprocess: Images of any size -> what the network takes.
        network: What the network takes -> embeddings, conditioned on the task.
        backbone_name: The class of the backbone.
        mirrored: Whether an image is embedded as the mean of itself and its mirror image.
    """

    prototypes: Tensor
    alpha: Tensor

    def __init__(
        self,
        backbone: Backbone,
        film: Film | None,
        distance: str,
        prototypes: Tensor,
        alpha: float,
    ) -> None:
        super().__init__()
        self.preprocess = copy.deepcopy(backbone.preprocess)
        self.network = backbone.folded(film)
        self.backbone_name, self.mirrored = type(backbone).__name__, backbone.mirrored
        self.distance = distance
        self.register_buffer("prototypes", prototypes)
        self.register_buffer("alpha", torch.tensor(float(alpha), device=prototypes.device))

    @property
    def image_size(self) -> int:
        """Side of the square images that the network takes."""
        return self.preprocess.image_size

    @property
    def channels(self) -> int:
        """1 or 3."""
        return self.preprocess.channels

    def embed(self, images: Tensor) -> Tensor:
        """uint8 (N, H, W, C) of any one size -> (N, D)."""
        return self.network(self.preprocess(images.permute(0, 3, 1, 2)))  # type: ignore[no-any-return]

    def distances(self, z: Tensor) -> Tensor:
        """(N, D) embeddings -> (N, K) distances to the prototypes."""
        return DISTANCES[self.distance](z[None], self.prototypes[None])[0]

    def nearest(self, z: Tensor) -> Tensor:
        """(N, D) embeddings -> (N,) cosine distances, 0 to 4, to the nearest prototype.

        What "none of these" goes by, whatever the metric: on validation classes it told images of
        unseen classes apart better than the metric's own distance, or as well.
        """
        return DISTANCES["cosine"](z[None], self.prototypes[None])[0].amin(dim=1)

    def probabilities(self, z: Tensor) -> Tensor:
        """(N, D) embeddings -> (N, K)."""
        return (-self.alpha * self.distances(z)).softmax(dim=1)

    def forward(self, images: Tensor) -> Tensor:
        """uint8 (N, H, W, C) of any one size -> (N, K) probabilities."""
        return self.probabilities(self.embed(images))
