"""FewShotClassifier: a handful of labelled images in, a classifier out, without any training.

It keeps scikit-learn's contract by its methods alone, so scikit-learn need not be installed.
"""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tadam.classify import classifier_file
from tadam.classify.calibration import calibrated_alpha, leave_one_out, rejection_threshold
from tadam.classify.estimator import Estimator
from tadam.classify.inference import answer, embed, reader_of, until
from tadam.classify.labels import class_array, numbered, plain_labels, unknown_label
from tadam.classify.predictions import Prediction, predictions_from
from tadam.classify.predictor import Predictor
from tadam.classify.reading import sources
from tadam.classify.support import class_numbers, labelled
from tadam.classify.support_embedding import embed_support
from tadam.classify.thumbnails import THUMBNAILS, Picture, by_class, jpegs, shrunk, thumbnail
from tadam.errors import RunFailed, UserError
from tadam.methods.tadam import Tadam
from tadam.metric import prototypes
from tadam.models.modelfile import ModelInfo
from tadam.models.resolve import model_name, resolve_model
from tadam.nn.backbone import Backbone
from tadam.system.device import choose_device
from tadam.system.forking import one_thread_after_fork
from tadam.system.progress import Progress

if TYPE_CHECKING:
    from tadam.classify.export import Exported


one_thread_after_fork()


class FewShotClassifier(Estimator):
    """Classifies images by a few examples of each class.

    Args:
        model: A shipped model's name, a run folder, a `.safetensors` file, a `Tadam`, or a
            `Backbone` of one's own; None for the best one that is installed.
        alpha: Scale of the distances; None adapts the model's own to the support set.
        reject_threshold: Cosine distance (0 to 4) from the nearest prototype beyond which
            `reject=True` answers "none of these"; None takes it from the support set.
        device: auto, cpu, cuda or mps.

    Attributes:
        classes_: The labels, sorted, (K,).
        predictor_: The network that is left once the task is settled; what gets exported.
        reject_threshold_: The threshold in use.
        support_embeddings_: (N, D), what the prototypes are the means of.
        support_labels_: Their classes as places in `classes_`, (N,).
        support_pictures_: The first support images of each class, small: pixels or JPEGs.
        model_name_: The name or path of the model; None for one that was given as an object.
        origin_: The recipe behind the network; None for one that was given as an object.
        trained_alpha_: The model's own alpha.

    Examples:
        >>> import numpy as np
        >>> from tadam.nn.backbones.pixels import RawPixels
        >>> grey = [np.full((8, 8, 3), value, dtype=np.uint8) for value in (20, 200, 180)]
        >>> classifier = FewShotClassifier(RawPixels(image_size=8))
        >>> classifier.fit(grey[:2], ["night", "day"]).classes_
        array(['day', 'night'], dtype='<U5')
    """

    classes_: npt.NDArray[Any]
    predictor_: Predictor
    reject_threshold_: float
    support_embeddings_: npt.NDArray[np.float32]
    support_labels_: npt.NDArray[np.int64]
    support_pictures_: list[list[Picture]]
    model_name_: str | None
    origin_: ModelInfo | None
    trained_alpha_: float

    def __init__(
        self,
        model: "str | Path | Tadam | Backbone | None" = None,
        *,
        alpha: float | None = None,
        reject_threshold: float | None = None,
        device: str = "auto",
    ) -> None:
        self.model = model
        self.alpha = alpha
        self.reject_threshold = reject_threshold
        self.device = device

    def fit(
        self,
        images: Any,
        labels: Any = None,
        *,
        progress: Progress | None = None,
        problems: list[str] | None = None,
    ) -> Self:
        """Learns the classes of a task from its support set; forgets what it learnt before.

        Args:
            images: Paths, PIL images, uint8 arrays of any sizes, an (N, H, W, C) array, or a folder
                with a sub-folder for each class.
            labels: The class of each image: text or numbers. Not with a folder.
            progress: Called with (images read, total images).
            problems: Gets a sentence for each image that cannot be read, which is then left out;
                without it the first such image is an error.
        """
        self._require_positive("alpha", "reject_threshold")
        found, given = labelled(images, labels)
        classes = class_array(given)
        if len(classes) < 2:
            raise UserError(f"there is only one class, {given[0]!r}: a classifier needs at least 2")
        model, origin = resolve_model(self.model, choose_device(self.device))
        alpha = model.metric.alpha.item()
        support = embed_support(model, found, given, classes, progress, problems)
        self._settle(
            support.predictor, alpha, classes, support.z, support.numbers, support.pictures
        )
        self.model_name_, self.origin_ = model_name(self.model), origin
        return self

    def partial_fit(
        self,
        images: Any,
        labels: Any = None,
        *,
        progress: Progress | None = None,
        problems: list[str] | None = None,
    ) -> Self:
        """Adds examples of old or new classes, without the images that were learnt from before.

        The network stays conditioned on the task as it was at `fit`; prototypes, alpha and the
        threshold are computed anew from all examples. The arguments are those of `fit`.
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(images, labels, progress=progress, problems=problems)
        self._require_positive("alpha", "reject_threshold")
        found, given = labelled(images, labels)
        old = self.classes_[self.support_labels_].tolist()
        plain_labels([*old[:1], *given], 1 + len(given))  # of one kind with the old ones
        classes = class_array([*old, *given])
        batches = reader_of(self.predictor_.preprocess, shrunk).batches(found, progress, problems)
        rows, z, new = embed(self.predictor_.network, batches)
        numbers = class_numbers([*old, *(given[row] for row in rows)], classes)
        pictures = by_class(new, numbers[len(old) :], len(classes))
        places = numbered(self.classes_.tolist(), classes)
        for place, kept in zip(places, self.support_pictures_, strict=True):
            pictures[place] = (kept + pictures[place])[:THUMBNAILS]
        known = torch.from_numpy(self.support_embeddings_).to(z.device)
        z = torch.cat([known, z])
        self._settle(self.predictor_, self.trained_alpha_, classes, z, numbers, pictures)
        return self

    def _settle(
        self,
        predictor: Predictor,
        trained_alpha: float,
        classes: npt.NDArray[Any],
        z: Tensor,
        numbers: npt.NDArray[np.int64],
        pictures: list[list[Picture]],
    ) -> None:
        """Everything that follows from the support embeddings, (N, D), and their classes.

        Nothing changes before all of it is known: a `fit` that fails leaves what was learnt before.
        """
        if not z.isfinite().all():
            raise RunFailed("the model's embeddings are not finite numbers: use another model")
        labels = torch.from_numpy(numbers).to(z.device)
        c = prototypes(z[None], labels[None], len(classes))[0]
        left_out = leave_one_out(z, labels, c, predictor.distance)
        alpha = self.alpha or calibrated_alpha(left_out, trained_alpha)
        threshold = self.reject_threshold or rejection_threshold(z, labels, c)
        predictor.prototypes = c
        predictor.alpha.fill_(alpha)
        self.predictor_, self.trained_alpha_ = predictor, trained_alpha
        self.classes_ = classes
        self.reject_threshold_ = threshold
        self.support_embeddings_ = z.cpu().numpy()
        self.support_labels_ = numbers
        self.support_pictures_ = pictures

    @property
    def support_thumbnails_(self) -> list[list[bytes]]:
        """Small JPEGs of the first support images, a list for each class."""
        return [jpegs(some) for some in self.support_pictures_]

    def predict(self, images: Any, *, reject: bool = False) -> npt.NDArray[Any]:
        """The label of each image, (n,).

        Args:
            images: As for `fit`; a folder means all images below it.
            reject: Answer "none of these" for an image that is far from every prototype: `unknown`
                if labels are text, -1 if they are numbers.
        """
        self._check_fitted()
        unknown = unknown_label(self.classes_) if reject else None
        batches = reader_of(self.predictor_.preprocess).batches(sources(images))
        answers = answer(self.predictor_, batches)
        labels = self.classes_[answers.best]
        if reject:
            far = answers.far(self.reject_threshold_)
            labels = np.where(far, np.asarray(unknown), labels)
        return labels

    def predict_proba(self, images: Any) -> npt.NDArray[np.float32]:
        """Probability of each class, (n, K), in the order of `classes_`."""
        self._check_fitted()
        batches = reader_of(self.predictor_.preprocess).batches(sources(images))
        return answer(self.predictor_, batches).probabilities

    def classify(
        self,
        images: Any,
        *,
        reject: bool = False,
        thumbnails: bool = False,
        progress: Progress | None = None,
        problems: list[str] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> list[Prediction]:
        """Everything known about each image.

        Args:
            images: As for `predict`.
            reject: As for `predict`.
            thumbnails: Keep a small JPEG of each image.
            progress: Called with (images read, total images).
            problems: Gets a sentence for each image that cannot be read; without it, the first
                such image is an error.
            stop: Asked after each batch; once it says yes, the images so far are all there is.
        """
        self._check_fitted()
        unknown = unknown_label(self.classes_) if reject else None
        found = sources(images)
        reader = reader_of(self.predictor_.preprocess, thumbnail if thumbnails else None)
        batches = reader.batches(found, progress, problems)
        answers = answer(self.predictor_, until(stop, batches) if stop else batches)
        far = answers.far(self.reject_threshold_) & reject
        return predictions_from(answers, found, self.classes_, far, unknown)

    def score(self, images: Any, labels: Any = None) -> float:
        """Share of the images whose label is predicted; a folder brings its labels along."""
        self._check_fitted()
        found, given = labelled(images, labels)
        answers = self.predict(found).tolist()
        return float(np.mean([a == b for a, b in zip(answers, given, strict=True)]))

    def save(self, path: str | Path) -> None:
        """Writes everything that was learnt to one `.tadam` file; an old one is replaced."""
        self._check_fitted()
        classifier_file.save(Path(path), self)

    def export(self, path: str | Path) -> "Exported":
        """Writes an ONNX file that gives the same answers without tadam.

        It is compared with PyTorch before it takes its name; an old one is replaced. Needs the
        extra `export`.
        """
        self._check_fitted()
        from tadam.classify.export import export

        return export(path, self.predictor_, self.classes_.tolist(), self.reject_threshold_)

    @classmethod
    def load(
        cls, path: str | Path, *, backbone: Backbone | Tadam | None = None, device: str = "auto"
    ) -> Self:
        """Reads what `save` wrote; it predicts as it did before.

        Args:
            path: A `.tadam` file.
            backbone: An object of the same architecture, if the classifier was fitted with one.
            device: auto, cpu, cuda or mps.
        """
        own = backbone.backbone if isinstance(backbone, Tadam) else backbone
        classifier = cls(device=device)
        classifier_file.load(Path(path), classifier, copy.deepcopy(own))
        if backbone is not None:
            classifier.model = backbone
        return classifier
