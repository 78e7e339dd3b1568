"""`families:PATH`: a folder per family, such as `animals/`, with a sub-folder per class, `cat/`.

The classes are called `animals/cat` and so on. They are divided into train, val and test as those
of `folder:PATH` are: by `PATH/splits.toml`, or else by a seed.
"""

from pathlib import Path

from tadam.config import DataConfig
from tadam.data.folder import class_files, load_files, own_images_source, split_names
from tadam.data.source import Source
from tadam.data.store import ImageStore
from tadam.errors import UserError
from tadam.system.progress import Progress

FAMILIES_PREFIX = "families:"


def family_class_files(folder: Path) -> dict[str, list[Path]]:
    """The image files of every class, by `family/class`; both are sorted by name."""
    if not folder.is_dir():
        raise UserError(f"the image folder {folder} does not exist: check the path")
    families = [f for f in sorted(folder.iterdir()) if f.is_dir() and not f.name.startswith(".")]
    if not families:
        raise UserError(f"{folder} has no sub-folders: give each family of classes a folder")
    return {
        f"{family.name}/{name}": files
        for family in families
        for name, files in class_files(family).items()
    }


def family_folder_source(name: str) -> Source:
    """The data set called `families:PATH`."""
    folder = Path(name.removeprefix(FAMILIES_PREFIX))
    if name == FAMILIES_PREFIX:
        raise UserError("families: needs a path, as in families:pictures")

    def load(root: Path, config: DataConfig, progress: Progress | None) -> dict[str, ImageStore]:
        files = family_class_files(folder)
        splits = split_names(folder, list(files), config.split_seed)
        chosen = {part: {name: files[name] for name in names} for part, names in splits.items()}
        stores = load_files("families", folder, chosen, config.image_size, progress)
        return {part: store.in_families(_family) for part, store in stores.items()}

    return own_images_source(
        name,
        "your own images, classes grouped in families",
        "put each class's images in PATH/FAMILY/CLASS",
        folder,
        family_class_files,
        load,
    )


def _family(name: str) -> str:
    return name.partition("/")[0]
