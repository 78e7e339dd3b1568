"""FewShotClassifier: a handful of labelled images in, a classifier out, without any training.

It keeps scikit-learn's contract by its methods alone, so scikit-learn need not be installed.
"""

import copy
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tadam.classify import classifier_file
from tadam.classify.cached_reading import CachedReader, with_cache
from tadam.classify.fitted_support import FittedSupport
from tadam.classify.inference import answer, embed, reader_of, until
from tadam.classify.labels import class_array, numbered, plain_labels, unknown_label
from tadam.classify.predictions import Prediction, predictions_from
from tadam.classify.predictor import Predictor
from tadam.classify.reading import Reader, sources
from tadam.classify.support import class_numbers, labelled
from tadam.classify.support_embedding import embed_support, read_support
from tadam.classify.thumbnails import THUMBNAILS, Picture, by_class, shrunk, thumbnail
from tadam.data.decode import Pixels
from tadam.errors import RunFailed, UserError
from tadam.methods.tadam import Tadam
from tadam.models.modelfile import ModelInfo
from tadam.models.resolve import model_name, resolve_method
from tadam.nn.backbone import Backbone
from tadam.system.device import choose_device
from tadam.system.forking import one_thread_after_fork
from tadam.system.progress import Progress

if TYPE_CHECKING:
    from tadam.classify.export import Exported


one_thread_after_fork()


class FewShotClassifier(FittedSupport):
    """Classifies images by a few examples of each class.

    Args:
        model: A shipped model's name, a run folder or a `.safetensors` file of any method, a
            `Tadam`, or a `Backbone` of one's own; None for the best one that is installed.
        alpha: Scale of the logits; None estimates it from the support set.
        reject_threshold: Strangeness beyond which `reject=True` answers "none of these"; None for
            1, the limit that the support set sets.
        image_size: Side in pixels of the squares that the network looks at; None for the model's
            own.
        cache: Keep embeddings of image files in the user's cache folder, for the next time.
        device: auto, cpu, cuda or mps.

    Attributes:
        classes_: The labels, sorted, (K,).
        predictor_: The network that is left once the task is settled; what gets exported.
        reject_threshold_: The threshold in use.
        expected_: What the support set says about "none of these".
        support_embeddings_: (N, D), what the metric is estimated from; pixels for a method that
            adapts to images.
        support_labels_: Their classes as places in `classes_`, (N,).
        support_pictures_: The first support images of each class, small: pixels or JPEGs.
        model_name_: The name or path of the model; None for one that was given as an object.
        origin_: The recipe behind the network; None for one that was given as an object.

    Examples:
        >>> import numpy as np
        >>> from tadam.nn.backbones.pixels import RawPixels
        >>> grey = [np.full((8, 8, 3), value, dtype=np.uint8) for value in (20, 200, 180)]
        >>> classifier = FewShotClassifier(RawPixels(image_size=8))
        >>> classifier.fit(grey[:2], ["night", "day"]).classes_
        array(['day', 'night'], dtype='<U5')
    """

    reject_threshold_: float
    model_name_: str | None
    origin_: ModelInfo | None

    def __init__(
        self,
        model: "str | Path | Tadam | Backbone | None" = None,
        *,
        alpha: float | None = None,
        reject_threshold: float | None = None,
        image_size: int | None = None,
        cache: bool = False,
        device: str = "auto",
    ) -> None:
        self.model = model
        self.alpha = alpha
        self.reject_threshold = reject_threshold
        self.image_size = image_size
        self.cache = cache
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
            images: Paths, PIL images, bytes, or arrays and tensors of any sizes; without labels, a
                folder or zip with a sub-folder for each class, or a CSV or JSON-lines list.
            labels: The class of each image: text or numbers.
            progress: Called with (images read, total images).
            problems: Gets a sentence for each image that cannot be read, which is then left out;
                without it the first such image is an error.
        """
        self._require_positive("alpha", "reject_threshold")
        found, given = labelled(images, labels)
        classes = class_array(given)
        if len(classes) < 2:
            raise UserError(f"there is only one class, {given[0]!r}: a classifier needs at least 2")
        model, origin = resolve_method(self.model, choose_device(self.device), self.image_size)
        known = origin if self.cache else None
        if isinstance(model, Tadam):
            support = embed_support(model, found, given, classes, progress, problems, known)
        else:
            assert origin is not None
            support = read_support(model, found, given, classes, progress, problems, origin)
        self._settle(support.predictor, classes, support.z, support.numbers, support.pictures)
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

        The network stays conditioned on the task as it was at `fit`; the metric is
        estimated anew from all examples. The arguments are those of `fit`.
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(images, labels, progress=progress, problems=problems)
        self._require_positive("alpha", "reject_threshold")
        found, given = labelled(images, labels)
        old = self.classes_[self.support_labels_].tolist()
        plain_labels([*old[:1], *given], 1 + len(given))  # of one kind with the old ones
        classes = class_array([*old, *given])
        batches = self._reader(shrunk).batches(found, progress, problems)
        rows, z, new = embed(self.predictor_.network, batches)
        numbers = class_numbers([*old, *(given[row] for row in rows)], classes)
        pictures = by_class(new, numbers[len(old) :], len(classes))
        places = numbered(self.classes_.tolist(), classes)
        for place, kept in zip(places, self.support_pictures_, strict=True):
            pictures[place] = (kept + pictures[place])[:THUMBNAILS]
        known = torch.from_numpy(self.support_embeddings_).to(z.device)
        z = torch.cat([known, z])
        self._settle(self.predictor_, classes, z, numbers, pictures)
        return self

    def _settle(
        self,
        predictor: Predictor,
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
        fitted = predictor.metric_of(z, numbers, len(classes), self.alpha)
        predictor.metric = fitted.metric.to(z.device)
        self.predictor_, self.expected_ = predictor, fitted.expected
        self._left_out = fitted.left_out
        self.classes_ = classes
        self.reject_threshold_ = self.reject_threshold or 1.0
        self.support_embeddings_ = z.cpu().numpy()
        self.support_labels_ = numbers
        self.support_pictures_ = pictures

    def _reader(self, small: Callable[[Pixels], Any] | None = None) -> Reader | CachedReader:
        """Reads images for the fitted network; keeps what `small` makes of each."""
        reader = reader_of(self.predictor_.preprocess, small, self.predictor_.network)
        return with_cache(reader, self.predictor_, self.origin_ if self.cache else None)

    def _unknown(self) -> Hashable:
        """The answer "none of these"."""
        self.require_embeddings("say 'none of these'")
        return unknown_label(self.classes_)

    def predict(self, images: Any, *, reject: bool = False) -> npt.NDArray[Any]:
        """The label of each image, (n,).

        Args:
            images: As for `fit`; a folder means all images below it.
            reject: Answer "none of these" for an image that is too strange: `unknown` if labels
                are text, -1 if they are numbers.
        """
        self._check_fitted()
        unknown = self._unknown() if reject else None
        batches = self._reader().batches(sources(images))
        answers = answer(self.predictor_, batches)
        labels = self.classes_[answers.best]
        if reject:
            strange = answers.strange(self.reject_threshold_)
            labels = np.where(strange, np.asarray(unknown), labels)
        return labels

    def predict_proba(self, images: Any) -> npt.NDArray[np.float32]:
        """Probability of each class, (n, K), in the order of `classes_`."""
        self._check_fitted()
        batches = self._reader().batches(sources(images))
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
        unknown = self._unknown() if reject else None
        found = sources(images)
        reader = self._reader(thumbnail if thumbnails else None)
        batches = reader.batches(found, progress, problems)
        answers = answer(self.predictor_, until(stop, batches) if stop else batches)
        strange = answers.strange(self.reject_threshold_) & reject
        return predictions_from(answers, found, self.classes_, strange, unknown)

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
        self.require_embeddings("be exported, since each answer starts from the support images")
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
