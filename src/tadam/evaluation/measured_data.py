"""The data set that a model is measured on: the one named, or else its recipe's own."""

from dataclasses import dataclass
from pathlib import Path

from tadam.config import DataConfig
from tadam.data.catalogue import is_resizable, load_split
from tadam.data.store import ImageStore
from tadam.errors import UserError
from tadam.models.modelfile import ModelInfo
from tadam.system.progress import Progress


@dataclass(frozen=True)
class MeasuredData:
    """A data set, at a model's image size.

    Attributes:
        model: The model's name in errors.
        info: What its file says about it.
        dataset: A name from the catalogue, or folder:PATH; None for the recipe's own.
    """

    model: str | Path
    info: ModelInfo
    dataset: str | None

    @property
    def name(self) -> str:
        """Name of the data set."""
        return self.info.config.data.name if self.dataset is None else self.dataset

    def load(self, split: str, progress: Progress | None = None) -> ImageStore:
        """Loads a split; refuses images the model cannot take, and classes it was trained on."""
        try:
            size = self.info.spec.image_size if is_resizable(self.name) else 0
            data = DataConfig(self.name, size, self.info.config.data.split_seed)
            store = load_split(data, split, progress)
        except UserError as error:
            if self.dataset is not None:
                raise
            raise UserError(
                f"{self.model} is measured on {self.name}, the data set of its recipe, unless "
                f"`dataset` names another, and {error}"
            ) from None
        if store.channels != self.info.spec.channels:
            raise UserError(
                f"{self.model} takes images with {self.info.spec.channels} channels, but "
                f"{self.name} has {store.channels}: evaluate it on other data"
            )
        known = sorted(set(store.class_names) & set(self.info.classes))
        if known and split != "train" and self.name == self.info.config.data.name:
            raise UserError(
                f"{self.model} was trained on {len(known)} classes of the {split} split of "
                f"{self.name}, such as {known[0]!r}: the folder has changed since, so list the "
                "classes of each split in its splits.toml"
            )
        return store
