"""Class folders inside class folders: each a class of its own, or a warning that they are not."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tadam.data.folder import class_files


def nested_class_files(folder: Path) -> dict[str, list[Path]]:
    """Like `class_files`, but each folder that holds images is a class, `Fruit/Apple/Gala`."""
    found: dict[str, list[Path]] = {}
    for files in class_files(folder).values():
        for file in files:
            found.setdefault(file.parent.relative_to(folder).as_posix(), []).append(file)
    return dict(sorted(found.items()))


def merged_folders(folders: Mapping[str, Sequence[str]]) -> str | None:
    """A sentence if a class takes in the images of folders below its own.

    Args:
        folders: The folders of each class's images, from the root, with slashes.
    """
    below = {
        name: sorted({folder for folder in some if folder != name})
        for name, some in folders.items()
    }
    deep = {name: some for name, some in below.items() if some}
    if not deep:
        return None
    name, some = next(iter(deep.items()))
    more = f", and so do {len(deep) - 1} other classes" if len(deep) > 2 else ""
    more = ", and so does another class" if len(deep) == 2 else more
    count = f"{len(some)} folders" if len(some) > 1 else "a folder"
    return (
        f"class {name!r} takes in {count} below its own, such as {some[0]}{more}: "
        "add `nested` to make each folder a class"
    )
