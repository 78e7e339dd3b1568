"""Photos into a folder for each class: nothing is overwritten, and a list can undo all of it.

The list is on disk, complete, before the first photo is touched. So whatever happens, a full disk
or a power cut, `undo_sorting` puts back what was moved and removes what was copied.
"""

import contextlib
import filecmp
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tadam.classify.predictions import Prediction
from tadam.errors import UserError
from tadam.system.files import write_text
from tadam.system.folder_lock import PATIENCE, locked
from tadam.system.progress import Progress

UNDO_FORMAT = 1
_LIST = "tadam-undo"
#: Characters that some system does not allow in a file's name.
_FORBIDDEN = re.compile(r'[<>:"\\|?*\x00-\x1f]')
_LONGEST_FOLDER = 100


@dataclass(frozen=True)
class Filing:
    """A photo and where it goes; both paths are absolute."""

    source: Path
    target: Path


def alone_in(folder: Path) -> contextlib.AbstractContextManager[None]:
    """Other commands that sort into the folder, or undo that, wait while the block runs."""
    return locked(folder / f".{_LIST}.lock", folder, PATIENCE)


def plan_sorting(predictions: Sequence[Prediction], folder: Path) -> list[Filing]:
    """Where each photo would go: `folder/CLASS/name`, with a number if that name is taken.

    Photos that are in their place already, and those that are no files, are left out.
    """
    root = folder.absolute()
    taken: dict[Path, set[str]] = {}
    homes: dict[str, Path] = {}
    plan, seen = [], set()
    for p in predictions:
        source = None if p.path is None else Path(p.path).absolute()
        if source is None or not source.is_file() or source in seen:
            continue
        seen.add(source)
        home = homes.get(str(p.label))
        if home is None:
            home = homes[str(p.label)] = _home(root, str(p.label), homes)
        if home == source.parent or (home.is_dir() and home.samefile(source.parent)):
            continue
        if home not in taken:
            there = home.iterdir() if home.is_dir() else ()
            taken[home] = {file.name.casefold() for file in there}
        plan.append(Filing(source, home / _free(source.name, taken[home])))
    return plan


def _home(root: Path, label: str, homes: dict[str, Path]) -> Path:
    """The folder of a class, below `root` whatever the class is called."""
    parts = []
    for part in label.split("/"):
        clean = _FORBIDDEN.sub("_", part).rstrip(". ")[:_LONGEST_FOLDER]
        parts.append(clean or "_")
    others = {os.fspath(home).casefold() for home in homes.values()}
    home, number = root.joinpath(*parts), 2
    while os.fspath(home).casefold() in others:
        home, number = root.joinpath(*parts[:-1], f"{parts[-1]}-{number}"), number + 1
    return home


def _free(name: str, taken: set[str]) -> str:
    """The name, or the first of `name-2`, `name-3` ... that is not taken; takes it."""
    stem, suffix = os.path.splitext(name)
    free, number = name, 2
    while free.casefold() in taken:
        free, number = f"{stem}-{number}{suffix}", number + 1
    taken.add(free.casefold())
    return free


def sort_photos(
    plan: Sequence[Filing],
    folder: Path,
    move: bool,
    problems: list[str],
    progress: Progress | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> tuple[list[Filing], Path | None]:
    """Copies or moves photos.

    Args:
        plan: What goes where.
        folder: Holds the class folders and gets the list for `undo_sorting`.
        move: Whether to move them; otherwise they are copied.
        problems: Gets a sentence for each photo that stays where it is.
        progress: Called with (photos done, total photos).
        stop: Asked before each photo; once it says yes, the others stay where they are.

    Returns:
        What was done, and the list that can undo it; None if there was nothing to do.
    """
    if not plan:
        return [], None
    record = _write_list(plan, folder.absolute(), move)
    done = []
    for number, filing in enumerate(plan):
        if stop():
            break
        try:
            if move and filing.source.is_symlink():
                raise UserError(f"{filing.source} is a link: it stays where it is")
            filing.target.parent.mkdir(parents=True, exist_ok=True)
            (_move if move else _copy)(filing.source, filing.target)
            done.append(filing)
        except UserError as error:
            problems.append(str(error))
        except OSError as error:
            action = "moved" if move else "copied"
            problems.append(f"{filing.source} cannot be {action}: {error.strerror or error}")
        if progress:
            progress(number + 1, len(plan))
    return done, record


def _write_list(plan: Sequence[Filing], root: Path, move: bool) -> Path:
    new = {parent for filing in plan for parent in _below(filing.target.parent, root)}
    head = {
        "tadam_undo": UNDO_FORMAT,
        "action": "move" if move else "copy",
        "folders": sorted(os.path.relpath(home, root) for home in new if not home.exists()),
    }
    rows = [{"from": os.fspath(f.source), "to": os.path.relpath(f.target, root)} for f in plan]
    record, number = root / f"{_LIST}.jsonl", 2
    while record.exists():
        record, number = root / f"{_LIST}-{number}.jsonl", number + 1
    write_text(record, "".join(json.dumps(row) + "\n" for row in (head, *rows)))
    return record


def _below(folder: Path, root: Path) -> list[Path]:
    """The folder and those above it that are below `root`."""
    return [
        home for home in (folder, *folder.parents) if home.is_relative_to(root) and home != root
    ]


def _move(source: Path, target: Path) -> None:
    """Moves a file; FileExistsError if there is one. It is never in neither of the two places."""
    try:
        os.link(source, target)
    except FileExistsError:
        raise
    except OSError:  # another disk, or one without links
        _copy(source, target)
    os.unlink(source)


def _copy(source: Path, target: Path) -> None:
    """Copies a file completely or not at all; FileExistsError if there is one."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".", suffix=".tmp")
    os.close(handle)
    try:
        shutil.copy2(source, name)
        with open(name, "rb+") as file:
            os.fsync(file.fileno())
        try:
            os.link(name, target)
        except FileExistsError:
            raise
        except OSError:  # a disk without links
            if target.exists():
                raise FileExistsError(f"{target} exists") from None
            os.rename(name, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def undo_sorting(record: Path, problems: list[str], progress: Progress | None = None) -> int:
    """Puts back what was moved, or removes what was copied, and the folders that were made for it.

    A list whose photos are all back is removed. Otherwise it stays, and can be used again.

    Args:
        record: The list.
        problems: Gets a sentence for each photo that cannot be put back or removed.
        progress: Called with (photos done, total photos).

    Returns:
        Number of photos that were put back or removed.
    """
    head, filings = _read_list(record)
    before, undone = len(problems), 0
    for number, filing in enumerate(reversed(filings), start=1):
        try:
            undone += _undo_one(filing, head["action"] == "move")
        except (UserError, OSError) as error:
            problems.append(str(error))
        if progress:
            progress(number, len(filings))
    for name in sorted(head["folders"], key=len, reverse=True):
        with contextlib.suppress(OSError):  # not empty, or gone
            (record.absolute().parent / name).rmdir()
    if len(problems) == before:
        record.unlink()
    return undone


def _undo_one(filing: Filing, moved: bool) -> bool:
    source, target = filing.source, filing.target
    if not target.exists():
        if moved and not source.exists():
            raise UserError(f"{target} is not there any more: it cannot be put back")
        return False  # it was never sorted, or is back already
    if not moved:
        if not source.exists() or not filecmp.cmp(source, target, shallow=False):
            raise UserError(f"{target} differs from {source}: remove it yourself if you want")
        target.unlink()
        return True
    if source.exists():
        if not source.samefile(target):
            raise UserError(f"{source} is there again: {target} stays where it is")
        target.unlink()  # it had been linked but not yet removed
        return True
    source.parent.mkdir(parents=True, exist_ok=True)
    _move(target, source)
    return True


def _read_list(record: Path) -> tuple[dict[str, Any], list[Filing]]:
    root = record.absolute().parent
    try:
        head, *rows = (json.loads(line) for line in record.read_text("utf-8").splitlines())
        if head["tadam_undo"] != UNDO_FORMAT or head["action"] not in ("move", "copy"):
            raise ValueError("another format")
        filings = [Filing(Path(row["from"]), _inside(root, row["to"])) for row in rows]
        for name in head["folders"]:
            _inside(root, name)
    except OSError as error:
        raise UserError(f"{record} cannot be opened: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, RecursionError):
        raise UserError(
            f"{record} is not a list that `copy_to` or `move_to` wrote: name the "
            f"{_LIST}.jsonl in the folder they sorted into"
        ) from None
    return head, filings


def _inside(root: Path, name: str) -> Path:
    path = Path(os.path.normpath(root / name))
    if not path.is_relative_to(root) or path == root:
        raise ValueError(f"{name} is not below {root}")
    return path


def inside_any(folder: Path, paths: Sequence[Path]) -> Iterator[Path]:
    """The folders among `paths` that are, or contain, `folder`."""
    real = folder.resolve()
    return (path for path in paths if path.is_dir() and real.is_relative_to(path.resolve()))
