"""`cub`: Caltech-UCSD Birds-200-2011, read from the published archive or its unpacked folder.

The folder `cub` holds `CUB_200_2011/images/` or `CUB_200_2011.tgz`. `cub/splits.toml`, in the same
format as for `folder:PATH`, sets the split. Without it, classes are split as in Chen et al. (2019):
every other class for training, the rest alternately for validation and test.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from tadam.config import DataConfig
from tadam.data.archive import members
from tadam.data.cache import cached_stores, fingerprint
from tadam.data.checksum import require_md5
from tadam.data.decode import DECODER_VERSION, decode_bytes, decode_into
from tadam.data.folder import SPLITS_FILE, class_files, load_files, read_splits, unreadable
from tadam.data.source import Download, Source
from tadam.data.store import ImageStore
from tadam.errors import UserError
from tadam.system.progress import Progress

_DEFAULT_IMAGE_SIZE = 84
_FOLDER = "cub"
_IMAGES = "CUB_200_2011/images"
_ARCHIVE = "CUB_200_2011.tgz"
_CLASSES, _IMAGE_COUNT = 200, 11_788
_MD5 = "97eceeb196236b17998738112f37df78"

File = TypeVar("File", Path, str)


def find(root: Path) -> list[Path]:
    """The image folder if present, else the archive."""
    return [p for p in (root / _FOLDER / _IMAGES, root / _FOLDER / _ARCHIVE) if p.exists()][:1]


def split_classes(names: Sequence[str]) -> dict[str, list[str]]:
    """The split of Chen et al., by the number that starts each class name, 1 to 200."""
    splits: dict[str, list[str]] = {"train": [], "val": [], "test": []}
    for name in names:
        number = name.partition(".")[0]
        if not number.isdecimal():
            raise UserError(f"cub folder {name!r} is not a class such as 013.Bobolink: remove it")
        splits[("test", "train", "val", "train")[int(number) % 4]].append(name)
    return splits


def load(root: Path, config: DataConfig, progress: Progress | None = None) -> dict[str, ImageStore]:
    """One store per split, classes and images sorted by name."""
    (found,) = find(root)
    size = config.image_size or _DEFAULT_IMAGE_SIZE
    if found.is_dir():
        files = _by_split(root, class_files(found))
        return load_files(config.name, root / _FOLDER, files, size, progress)

    @cache
    def listed() -> dict[str, dict[str, list[str]]]:
        require_md5(found, _MD5)
        return _by_split(root, _archived(found))

    def jobs() -> Iterator[tuple[int, Any]]:
        ordered = [n for part in listed().values() for names in part.values() for n in names]
        rows = {name: row for row, name in enumerate(ordered)}
        for member in members(found):
            if member.name in rows:
                name = f"{member.name} in {found}"
                yield rows[member.name], partial(decode_bytes, member.read(), name, size)

    sources = [p for p in (found, root / _FOLDER / SPLITS_FILE) if p.exists()]
    key = f"{config.name}-{fingerprint(root, sources, DECODER_VERSION, size)}"
    return cached_stores(
        key,
        (size, size, 3),
        lambda: {s: {c: len(n) for c, n in part.items()} for s, part in listed().items()},
        lambda out: decode_into(out, jobs(), progress),
    )


def verify(root: Path, progress: Progress | None = None) -> list[str]:
    """Reads and counts the images in a folder, or checks the archive; then checks the split."""
    (found,) = find(root)
    problems: list[str] = []
    try:
        if found.is_dir():
            classes = class_files(found)
            files = [path for paths in classes.values() for path in paths]
            problems = unreadable(files, progress)
            if (len(classes), len(files)) != (_CLASSES, _IMAGE_COUNT):
                problems.append(
                    f"{found} has {len(classes)} classes and {len(files):,} images, "
                    f"expected {_CLASSES} and {_IMAGE_COUNT:,}: download it again"
                )
            _by_split(root, classes)
        else:
            if progress:
                progress(0, 1)
            require_md5(found, _MD5)
            _by_split(root, _archived(found))
    except UserError as error:
        problems.append(str(error))
    return problems


def _by_split(root: Path, files: Mapping[str, list[File]]) -> dict[str, dict[str, list[File]]]:
    """Groups the files of each class by split."""
    path = root / _FOLDER / SPLITS_FILE
    splits = read_splits(path, list(files)) if path.exists() else split_classes(list(files))
    return {split: {name: files[name] for name in names} for split, names in splits.items()}


def _archived(path: Path) -> dict[str, list[str]]:
    """Image names in the archive by class, sorted."""
    classes: dict[str, list[str]] = {}
    for name in sorted(member.name for member in members(path)):
        parts = PurePosixPath(name).parts
        if "/".join(parts[:-2]) == _IMAGES and not parts[-1].startswith("."):
            classes.setdefault(parts[-2], []).append(name)
    if not classes:
        raise UserError(f"{path} has no {_IMAGES}: download it again")
    return classes


CUB = Source(
    name="cub",
    summary="birds: Caltech-UCSD Birds-200-2011, split by Chen et al.",
    classes="100/50/50",
    images="11,788",
    size="84x84 or any",
    licence="research and education, not commercial",
    layout=f"{_FOLDER}/{_ARCHIVE} (or unpacked, {_FOLDER}/{_IMAGES}/)",
    load=load,
    verify=verify,
    find=find,
    downloads=(
        Download(
            f"https://data.caltech.edu/records/65de6-vp158/files/{_ARCHIVE}",
            path=f"{_FOLDER}/{_ARCHIVE}",
            md5=_MD5,
        ),
    ),
    resizable=True,
)
