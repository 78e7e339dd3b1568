"""What a fitted classifier knows of its support set, and what follows from parts of it."""

import copy
from collections.abc import Hashable
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tadam.classify.adapted_predictor import AdaptedPredictor
from tadam.classify.estimator import Estimator
from tadam.classify.metric_fit import LeftOutAnswers, left_out_answers
from tadam.classify.predictor import Predictor
from tadam.classify.strangeness_limits import Expected
from tadam.classify.thumbnails import Picture, jpegs
from tadam.errors import UserError


class FittedSupport(Estimator):
    """The part of a classifier that needs its support embeddings alone, and no images."""

    classes_: npt.NDArray[Any]
    predictor_: Predictor
    support_embeddings_: npt.NDArray[np.float32]
    support_labels_: npt.NDArray[np.int64]
    support_pictures_: list[list[Picture]]
    expected_: Expected
    #: What the fit knows already of photos left out in turn.
    _left_out: LeftOutAnswers | None = None

    def _settle(
        self,
        predictor: Predictor,
        classes: npt.NDArray[Any],
        z: Tensor,
        numbers: npt.NDArray[np.int64],
        pictures: list[list[Picture]],
    ) -> None:
        raise NotImplementedError

    def require_embeddings(self, what: str) -> None:
        """Refuses a classifier whose method adapts to images instead of comparing embeddings.

        Args:
            what: What it cannot do.
        """
        if isinstance(self.predictor_, AdaptedPredictor):
            name = self.predictor_.backbone_name
            raise UserError(
                f"a classifier by method {name!r} cannot {what}: fit one with a model that "
                "embeds, such as fc100"
            )

    @property
    def shots_(self) -> npt.NDArray[np.int64]:
        """Number of support images of each class, (K,)."""
        return np.bincount(self.support_labels_, minlength=len(self.classes_))

    @property
    def support_thumbnails_(self) -> list[list[bytes]]:
        """Small JPEGs of the first support images, a list for each class."""
        return [jpegs(some) for some in self.support_pictures_]

    @torch.no_grad()
    def standardised(self, z: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Embeddings as the metric compares them, (N, D)."""
        metric = self.predictor_.metric
        return np.asarray(metric.standardised(torch.from_numpy(z).to(metric.weight.device)).cpu())

    def leave_one_out(self) -> LeftOutAnswers:
        """Classifies each support image as if it had not been in the support set."""
        self._check_fitted()
        self.require_embeddings("leave photos out in turn")
        return self._left_out or left_out_answers(
            self.predictor_.metric,
            torch.from_numpy(self.support_embeddings_),
            torch.from_numpy(self.support_labels_),
        )

    def subset(self, rows: npt.ArrayLike) -> Self:
        """A classifier of the same classes that has learnt from some of the support images only.

        Args:
            rows: Places of the images to keep, at least one of each class.
        """
        self._check_fitted()
        kept = np.asarray(rows)
        return self._refitted(self.classes_, kept, self.support_labels_[kept])

    def remove(self, label: Hashable) -> Self:
        """Forgets a class, as if the classifier had never seen an image of it."""
        self._check_fitted()
        names = self.classes_.tolist()
        if label not in names:
            raise UserError(f"there is no class {label!r}: the classes are {_some(names)}")
        if len(names) < 3:
            raise UserError(
                f"without {label!r} only one class would be left: a classifier needs at least 2"
            )
        gone = names.index(label)
        kept = np.flatnonzero(self.support_labels_ != gone)
        numbers = self.support_labels_[kept]
        smaller = self._refitted(np.delete(self.classes_, gone), kept, numbers - (numbers > gone))
        smaller.support_pictures_ = [
            some for k, some in enumerate(self.support_pictures_) if k != gone
        ]
        self.__dict__.update(smaller.__dict__)
        return self

    def _refitted(
        self,
        classes: npt.NDArray[Any],
        rows: npt.NDArray[np.int64],
        numbers: npt.NDArray[np.int64],
    ) -> Self:
        """A copy that has learnt from some of the support images; it shares the network."""
        predictor = copy.copy(self.predictor_)  # `_settle` gives it another metric
        predictor._modules = dict(predictor._modules)
        z = torch.from_numpy(self.support_embeddings_[rows]).to(predictor.metric.weight.device)
        other = copy.copy(self)
        other._settle(predictor, classes, z, numbers, [[] for _ in classes])
        return other


def _some(names: list[Hashable]) -> str:
    return ", ".join(map(str, names[:8])) + (", ..." if len(names) > 8 else "")
