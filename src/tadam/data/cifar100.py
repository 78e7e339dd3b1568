"""`fc100` and `cifar_fs`: CIFAR-100's official Python files, with all 600 images of each class.

FC100 (Oreshkin et al. 2018) splits by superclass, so that test classes are unlike training classes;
CIFAR-FS (Bertinetto et al. 2019) is a fixed random split of the 100 classes.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tadam.config import DataConfig
from tadam.data.archive import members
from tadam.data.cache import cached_array, fingerprint
from tadam.data.checksum import require_md5
from tadam.data.source import Download, Source, require_size
from tadam.data.store import ImageStore, split_stores
from tadam.data.unpickle import load_pickle, load_pickled_bytes
from tadam.errors import UserError
from tadam.system.progress import Progress

_IMAGE_SIZE = 32
_IMAGES_PER_CLASS = 600  # 500 from `train`, then 100 from `test`
_FOLDER = "cifar-100-python"
_ARCHIVE = "cifar-100-python.tar.gz"
#: As published.
_MD5 = {
    _ARCHIVE: "eb9058c3a382ffc7106e4002c42a8d85",
    "train": "16019d7e3df5f24257cddd939b257f8d",
    "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
}
_PARTS = ("train", "test")
_PIXELS = 3 * _IMAGE_SIZE**2
_LARGEST_PICKLE = 512 * 2**20

_Batch = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]

#: Ordered by coarse label; the fine labels number all classes alphabetically.
SUPERCLASSES = {
    "aquatic_mammals": ("beaver", "dolphin", "otter", "seal", "whale"),
    "fish": ("aquarium_fish", "flatfish", "ray", "shark", "trout"),
    "flowers": ("orchid", "poppy", "rose", "sunflower", "tulip"),
    "food_containers": ("bottle", "bowl", "can", "cup", "plate"),
    "fruit_and_vegetables": ("apple", "mushroom", "orange", "pear", "sweet_pepper"),
    "household_electrical_devices": ("clock", "keyboard", "lamp", "telephone", "television"),
    "household_furniture": ("bed", "chair", "couch", "table", "wardrobe"),
    "insects": ("bee", "beetle", "butterfly", "caterpillar", "cockroach"),
    "large_carnivores": ("bear", "leopard", "lion", "tiger", "wolf"),
    "large_man-made_outdoor_things": ("bridge", "castle", "house", "road", "skyscraper"),
    "large_natural_outdoor_scenes": ("cloud", "forest", "mountain", "plain", "sea"),
    "large_omnivores_and_herbivores": ("camel", "cattle", "chimpanzee", "elephant", "kangaroo"),
    "medium_mammals": ("fox", "porcupine", "possum", "raccoon", "skunk"),
    "non-insect_invertebrates": ("crab", "lobster", "snail", "spider", "worm"),
    "people": ("baby", "boy", "girl", "man", "woman"),
    "reptiles": ("crocodile", "dinosaur", "lizard", "snake", "turtle"),
    "small_mammals": ("hamster", "mouse", "rabbit", "shrew", "squirrel"),
    "trees": ("maple_tree", "oak_tree", "palm_tree", "pine_tree", "willow_tree"),
    "vehicles_1": ("bicycle", "bus", "motorcycle", "pickup_truck", "train"),
    "vehicles_2": ("lawn_mower", "rocket", "streetcar", "tank", "tractor"),
}
_SUPERCLASS = {name: coarse for coarse, names in SUPERCLASSES.items() for name in names}
FINE_LABELS = tuple(sorted(name for names in SUPERCLASSES.values() for name in names))


def _of_superclasses(*coarse_labels: int) -> tuple[str, ...]:
    names = list(SUPERCLASSES.values())
    return tuple(sorted(name for label in coarse_labels for name in names[label]))


FC100_SPLITS = {
    "train": _of_superclasses(1, 2, 3, 4, 5, 6, 9, 10, 15, 17, 18, 19),
    "val": _of_superclasses(8, 11, 13, 16),
    "test": _of_superclasses(0, 7, 12, 14),
}

_CIFAR_FS_VAL = (
    "beaver", "beetle", "butterfly", "camel", "cattle", "crab", "crocodile", "flatfish", "lamp",
    "maple_tree", "motorcycle", "otter", "sea", "shark", "television", "tractor",
)  # fmt: skip
_CIFAR_FS_TEST = (
    "baby", "bed", "bicycle", "chimpanzee", "fox", "leopard", "man", "pickup_truck", "plain",
    "poppy", "rocket", "rose", "snail", "sweet_pepper", "table", "telephone", "wardrobe", "whale",
    "woman", "worm",
)  # fmt: skip
CIFAR_FS_SPLITS = {
    "train": tuple(c for c in FINE_LABELS if c not in (*_CIFAR_FS_VAL, *_CIFAR_FS_TEST)),
    "val": _CIFAR_FS_VAL,
    "test": _CIFAR_FS_TEST,
}


def find(root: Path) -> list[Path]:
    """The unpacked files if both are present, else the archive."""
    unpacked = [root / _FOLDER / part for part in _PARTS]
    if all(path.is_file() for path in unpacked):
        return unpacked
    return [path for path in [root / _ARCHIVE] if path.is_file()]


def load(
    splits: Mapping[str, Sequence[str]],
    root: Path,
    config: DataConfig,
    progress: Progress | None = None,
) -> dict[str, ImageStore]:
    """One store per split; each class has its `train` images, then its `test` images, in order."""
    require_size(config, _IMAGE_SIZE)
    files = find(root)
    order = [name for names in splits.values() for name in names]

    def fill(out: npt.NDArray[np.uint8]) -> None:
        images = read_classes(files, progress)
        out[:] = images[[FINE_LABELS.index(name) for name in order]].reshape(out.shape)

    images = cached_array(
        f"{config.name}-{fingerprint(root, files, order)}",
        (len(order) * _IMAGES_PER_CLASS, _IMAGE_SIZE, _IMAGE_SIZE, 3),
        fill,
    )
    stores = split_stores(
        images,
        {split: dict.fromkeys(names, _IMAGES_PER_CLASS) for split, names in splits.items()},
    )
    return {split: store.in_families(_SUPERCLASS.__getitem__) for split, store in stores.items()}


def read_classes(files: Sequence[Path], progress: Progress | None = None) -> npt.NDArray[np.uint8]:
    """All images by class, (100, 600, 32, 32, 3), checked against the published checksums."""
    for done, path in enumerate(files):
        if progress:
            progress(done, len(files))
        require_md5(path, _MD5[path.name])
    batches = _read_archive(files[0]) if len(files) == 1 else _read_files(files)
    pixels = np.concatenate([batch[0] for batch in batches])
    labels = np.concatenate([batch[1] for batch in batches])
    counts = np.bincount(labels, minlength=len(FINE_LABELS))
    if not (counts == _IMAGES_PER_CLASS).all():
        raise UserError(
            f"{files[0].parent} does not have {_IMAGES_PER_CLASS} images of every class: "
            "download it again"
        )
    by_class = pixels[np.argsort(labels, kind="stable")]
    planes = by_class.reshape(len(FINE_LABELS), _IMAGES_PER_CLASS, 3, _IMAGE_SIZE, _IMAGE_SIZE)
    return planes.transpose(0, 1, 3, 4, 2)


def verify(root: Path, progress: Progress | None = None) -> list[str]:
    """Checks the files against their checksums and counts their images."""
    try:
        read_classes(find(root), progress)
    except UserError as error:
        return [str(error)]
    return []


def _read_files(files: Sequence[Path]) -> list[_Batch]:
    return [_batch(load_pickle(path, _LARGEST_PICKLE), str(path)) for path in files]


def _read_archive(path: Path) -> list[_Batch]:
    batches = {}
    for member in members(path):
        if member.name in [f"{_FOLDER}/{part}" for part in _PARTS]:
            name = f"{member.name} in {path}"
            batches[member.name] = _batch(load_pickled_bytes(member.read(), name), name)
    if len(batches) < len(_PARTS):
        raise UserError(f"{path} lacks CIFAR-100's train and test batches: download it again")
    return [batches[f"{_FOLDER}/{part}"] for part in _PARTS]


def _batch(content: Any, name: str) -> _Batch:
    """Pixels (N, 3072) and fine labels (N,) of an unpickled file, which may contain anything."""
    try:
        pixels, labels = content["data"], np.array(content["fine_labels"], np.int64)
        known = labels.min() >= 0 and labels.max() < len(FINE_LABELS)
        ok = known and pixels.dtype == np.uint8 and pixels.shape == (*labels.shape, _PIXELS)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        ok = False
    if not ok:
        raise UserError(f"{name} is not a CIFAR-100 batch: download it again")
    return pixels, labels


def _source(name: str, summary: str, splits: Mapping[str, Sequence[str]]) -> Source:
    return Source(
        name=name,
        summary=summary,
        classes="/".join(str(len(names)) for names in splits.values()),
        images="60,000",
        size="32x32",
        licence="none stated (cite Krizhevsky 2009)",
        layout=f"{_ARCHIVE} (or {_FOLDER}/ with train and test)",
        find=find,
        load=partial(load, splits),
        verify=verify,
        downloads=(
            Download(
                f"https://www.cs.toronto.edu/~kriz/{_ARCHIVE}", path=_ARCHIVE, md5=_MD5[_ARCHIVE]
            ),
        ),
    )


FC100 = _source("fc100", "used in the paper: CIFAR-100 split by superclass", FC100_SPLITS)
CIFAR_FS = _source("cifar_fs", "CIFAR-100 split at random by Bertinetto et al.", CIFAR_FS_SPLITS)
