"""`folder:PATH`: one sub-folder per class, classes divided into train, val and test.

The split comes from `PATH/splits.toml` (`train = ["cat", ...]`, `val = [...]`, `test = [...]`) if
it exists, else from a seed: 64/16/20 percent, but at least 5 classes (or a third) for val and test.
"""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from tadam.config import DataConfig
from tadam.data.cache import cached_array, fingerprint
from tadam.data.decode import DECODER_VERSION, EXTENSIONS, decode, decode_into
from tadam.data.episodes import bits, uniforms
from tadam.data.source import Source
from tadam.data.store import ImageStore, split_stores
from tadam.data.walk import files_below
from tadam.errors import UserError
from tadam.system.progress import Progress

FOLDER_PREFIX = "folder:"
_DEFAULT_IMAGE_SIZE = 84
SPLITS_FILE = "splits.toml"


def class_files(folder: Path) -> dict[str, list[Path]]:
    """The image files of every class; classes and files are sorted by name."""
    if folder.is_file():
        raise UserError(f"{folder} is a file: give a folder with a sub-folder for each class")
    if not folder.is_dir():
        raise UserError(f"the image folder {folder} does not exist: check the path")
    classes = {
        sub.name: image_files(sub)
        for sub in sorted(folder.iterdir())
        if sub.is_dir() and not sub.name.startswith(".")
    }
    if not classes:
        raise UserError(
            f"{folder} has no sub-folders: put each class's images in a folder of its own"
        )
    for name, files in classes.items():
        if not files:
            kinds = ", ".join(sorted(EXTENSIONS))
            raise UserError(
                f"class folder {folder / name} has no images ({kinds}): add some or remove it"
            )
    return classes


def image_files(folder: Path, closed: list[Path] | None = None) -> list[Path]:
    """All image files under a folder, sorted; a folder in it that cannot be read is an error.

    Args:
        folder: Where to look.
        closed: Gets the folders that cannot be read, which are then left out.
    """
    return [f for f in files_below(folder, closed) if _is_image(f, folder)]


def _is_image(path: Path, folder: Path) -> bool:
    """Judges by the name alone."""
    return named_like_image(path) and not _is_hidden(path, folder) and path.is_file()


def named_like_image(path: Path) -> bool:
    """Whether the ending of the name is one of an image."""
    return path.suffix.lower() in EXTENSIONS


def _is_hidden(path: Path, folder: Path) -> bool:
    """Hidden images are thumbnails and macOS's `._` files."""
    return any(part.startswith(".") for part in path.relative_to(folder).parts)


def left_out(folder: Path, used: Sequence[Path]) -> list[str]:
    """At most one sentence: which files under a folder are not used, and why."""
    folders = {file.parent for file in used}
    taken = {*used, *folders, *(parent for below in folders for parent in below.parents)}
    reasons: dict[str, list[str]] = {}
    closed: list[Path] = []
    found = files_below(folder, closed)
    if closed:
        reasons["in folders that cannot be read"] = [f"{path}" for path in closed]
    for path in found:
        if path in taken or _is_hidden(path, folder):
            continue
        if not path.is_file():
            reason = "links to folders or to missing files"
        else:
            is_image = named_like_image(path)
            reason = "outside any class folder" if is_image else "without an image extension"
        reasons.setdefault(reason, []).append(path.name)
    if not reasons:
        return []
    counted = (f"{len(n)} {reason}, such as {n[0]}" for reason, n in reasons.items())
    return [f"files under {folder}: {'; '.join(counted)}"]


def split_names(folder: Path, names: Sequence[str], seed: int) -> dict[str, list[str]]:
    """Class names by split: train, val and test."""
    path = folder / SPLITS_FILE
    if path.exists():
        return read_splits(path, names)
    if len(names) < 3:
        raise UserError(
            f"{folder} has {len(names)} classes, but a train/val/test split needs at least 3: "
            "add classes"
        )
    order = np.argsort(uniforms(bits(seed, 0, 0), len(names)), kind="stable")
    shuffled = [names[i] for i in order]
    # With few classes, val and test get more than their share, to make 5-way tasks possible.
    val, test = (max(round(share * len(names)), min(5, len(names) // 3)) for share in (0.16, 0.20))
    train = len(names) - val - test
    return {
        "train": sorted(shuffled[:train]),
        "val": sorted(shuffled[train : train + val]),
        "test": sorted(shuffled[train + val :]),
    }


def read_splits(path: Path, names: Sequence[str]) -> dict[str, list[str]]:
    """Reads the class names of train, val and test from TOML; all must be in `names`."""
    try:
        splits = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:  # not TOML, or not UTF-8
        raise UserError(f"{path} is not valid TOML: {error}") from None
    if set(splits) != {"train", "val", "test"} or not all(
        isinstance(v, list) and v and all(isinstance(n, str) for n in v) for v in splits.values()
    ):
        raise UserError(f"{path} must hold three lists of class names: train, val and test")
    listed = [name for part in splits.values() for name in part]
    for name in listed:
        if name not in names:
            raise UserError(f"{path} lists class {name!r}, which has no folder next to it")
        if listed.count(name) > 1:
            raise UserError(f"{path} lists class {name!r} more than once: keep it in one split")
    return splits


def load_folder(
    folder: Path, image_size: int, seed: int, progress: Progress | None = None
) -> dict[str, ImageStore]:
    """Reads a folder into one store per split, decoding in parallel and caching the pixels.

    Args:
        folder: Has one sub-folder per class.
        image_size: Side of the square images, 0 for the default.
        seed: Splits the classes if there is no split file.
        progress: Called with (images decoded, total images).
    """
    files = class_files(folder)
    splits = split_names(folder, list(files), seed)
    chosen = {part: {name: files[name] for name in names} for part, names in splits.items()}
    return load_files("folder", folder, chosen, image_size, progress)


def load_files(
    label: str,
    root: Path,
    files: Mapping[str, Mapping[str, Sequence[Path]]],
    image_size: int,
    progress: Progress | None = None,
) -> dict[str, ImageStore]:
    """Reads image files, given by split and class, into one store per split.

    Args:
        label: Name of the array in the cache.
        root: Folder that contains all the files.
        files: Image files by split and class name.
        image_size: Side of the square images, 0 for the default.
        progress: Called with (images decoded, total images).
    """
    size = image_size or _DEFAULT_IMAGE_SIZE
    ordered = [p for classes in files.values() for paths in classes.values() for p in paths]
    images = cached_array(
        f"{label}-{fingerprint(root, ordered, DECODER_VERSION, size)}",
        (len(ordered), size, size, 3),
        lambda out: decode_into(
            out, ((row, partial(decode, path, size)) for row, path in enumerate(ordered)), progress
        ),
    )
    counts = {
        split: {name: len(paths) for name, paths in classes.items()}
        for split, classes in files.items()
    }
    return split_stores(images, counts)


def unreadable(files: Sequence[Path], progress: Progress | None = None) -> list[str]:
    """One sentence for each file that cannot be read as an image."""
    problems = []
    for i, path in enumerate(files):
        try:
            decode(path, _DEFAULT_IMAGE_SIZE)
        except UserError as error:
            problems.append(str(error))
        if progress:
            progress(i + 1, len(files))
    return problems


def folder_source(name: str) -> Source:
    """The data set called `folder:PATH`."""
    folder = _path(name)

    def load(root: Path, config: DataConfig, progress: Progress | None) -> dict[str, ImageStore]:
        return load_folder(folder, config.image_size, config.split_seed, progress)

    return own_images_source(
        name,
        "your own images, one sub-folder per class",
        "put each class's images in a sub-folder of PATH",
        folder,
        class_files,
        load,
    )


def own_images_source(
    name: str,
    summary: str,
    layout: str,
    folder: Path,
    files: Callable[[Path], dict[str, list[Path]]],
    load: Callable[[Path, DataConfig, Progress | None], dict[str, ImageStore]],
) -> Source:
    """A data set of the user's own files.

    Args:
        name: What it is called.
        summary: What it is.
        layout: Where its files go.
        folder: Where they are.
        files: The image files of every class below it.
        load: Reads them.
    """

    def verify(root: Path, progress: Progress | None) -> list[str]:
        classes = files(folder)
        problems = unreadable([f for some in classes.values() for f in some], progress)
        try:
            split_names(folder, list(classes), seed=0)
        except UserError as error:
            problems.append(str(error))
        return problems

    return Source(
        name=name,
        summary=summary,
        classes="your own",
        images="any",
        size="any size",
        licence="yours",
        layout=layout,
        load=load,
        verify=verify,
        resizable=True,
    )


def _path(name: str) -> Path:
    path = Path(name.removeprefix(FOLDER_PREFIX))
    if name == FOLDER_PREFIX:
        raise UserError("folder: needs a path, as in folder:flowers")
    try:
        return path.expanduser()
    except RuntimeError:  # ~nobody
        return path
