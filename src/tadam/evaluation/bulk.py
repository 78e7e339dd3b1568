"""Predicts any number of images in parts: each part is a job, here or on a cluster, and a file.

A part's file appears when it is complete, so whatever dies, only unfinished parts are repeated, and
the same command continues where it stopped.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from tadam.classify.classifier import FewShotClassifier
from tadam.classify.prediction_rows import csv_text, table_cells, table_columns
from tadam.classify.predictions import Prediction
from tadam.distributed.jobs import Job, Pool, run_jobs
from tadam.errors import UserError
from tadam.system.files import replacing, write_text

PART_FORMS = ("parquet", "csv")
#: Readers of Parquet folders pass over names with an underscore or a dot in front.
_ABOUT, SKIPPED = "_prediction.json", "_skipped.txt"


@dataclass(frozen=True)
class BulkRequest:
    """What is asked of the classifier.

    Attributes:
        classifier: A `.tadam` file that all workers can read.
        form: `parquet` or `csv`.
        top: Only the most probable classes; None for all.
        reject: Whether to answer "unknown".
        reject_threshold: Replaces the classifier's own.
        part_size: Images in a part.
    """

    classifier: Path
    form: str = "parquet"
    top: int | None = None
    reject: bool = False
    reject_threshold: float | None = None
    part_size: int = 1000


@dataclass(frozen=True)
class BulkResult:
    """What was done: how many images were predicted and skipped, in how many files."""

    folder: Path
    images: int
    skipped: int
    parts: int


def predict_in_bulk(
    request: BulkRequest, files: Sequence[Path], folder: Path, pool: Pool
) -> BulkResult:
    """Predicts all files; continues what a previous call began.

    Args:
        request: The classifier and what to write.
        files: The images; every one ends up in a part's file, or as a line of `_skipped.txt`.
        folder: Receives the parts; on storage that all workers share.
        pool: Where the jobs run.
    """
    _check(request, files)
    _claim(request, files, folder)
    jobs = []
    for number, some in enumerate(_parts(files, request.part_size)):
        if not _skipped_file(folder, number).exists():
            arguments = {"request": request, "files": some, "folder": folder, "number": number}
            jobs.append(Job(f"part {number}", predict_part, arguments))
    run_jobs(jobs, pool)
    parts = -(-len(files) // request.part_size)
    skipped = [
        line
        for number in range(parts)
        for line in _skipped_file(folder, number).read_text(encoding="utf-8").splitlines()
    ]
    write_text(folder / SKIPPED, "".join(f"{line}\n" for line in skipped))
    return BulkResult(folder, len(files) - len(skipped), len(skipped), parts)


def predict_part(request: BulkRequest, files: Sequence[Path], folder: Path, number: int) -> int:
    """Predicts one part and writes its file; runs in a worker. Returns the images predicted."""
    if not (folder / _ABOUT).is_file():
        raise UserError(f"a worker cannot see {folder}: it must be on storage that all share")
    classifier = _loaded(request.classifier)
    if request.reject_threshold is not None:
        classifier.reject_threshold_ = request.reject_threshold
    problems: list[str] = []
    try:
        found = classifier.classify(files, reject=request.reject, problems=problems)
    except UserError:
        if len(problems) < len(files):
            raise
        found = []  # not one of them can be read
    names = [str(label) for label in classifier.classes_.tolist()]
    _write(folder / f"part-{number:05}.{request.form}", request, names, found)
    # Last of all: with this file the part counts as done.
    write_text(_skipped_file(folder, number), "".join(f"{_line(p)}\n" for p in problems))
    return len(found)


def _skipped_file(folder: Path, number: int) -> Path:
    return folder / f".part-{number:05}.skipped"


def _line(sentence: str) -> str:
    return " ".join(sentence.encode("utf-8", "replace").decode().split())


@lru_cache(maxsize=1)
def _loaded(file: Path) -> FewShotClassifier:
    return FewShotClassifier.load(file)


def _write(
    file: Path, request: BulkRequest, names: Sequence[str], found: Sequence[Prediction]
) -> None:
    if request.form == "csv":
        write_text(file, csv_text(names, found, request.top))
        return
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [table_cells(p, names, request.top) for p in found]
    columns = table_columns(names, request.top)
    texts = {"path", *(c for c in columns if c.startswith("class"))}
    arrays: dict[str, Any] = {}
    for place, column in enumerate(columns):
        cells = [row[place] for row in rows]
        if column in texts:
            cells = [str(cell).encode("utf-8", "replace").decode() for cell in cells]
        label = pa.string() if found and isinstance(cells[0], str) else None
        kind = pa.string() if column in texts else label if column == "label" else pa.float32()
        arrays[column] = pa.array(cells, type=kind)
    with replacing(file) as temporary:
        pq.write_table(pa.table(arrays), temporary)


def _parts(files: Sequence[Path], size: int) -> Iterator[list[Path]]:
    remaining = iter(files)
    while some := list(islice(remaining, size)):
        yield some


def _check(request: BulkRequest, files: Sequence[Path]) -> None:
    if not files:
        raise UserError("there are no images: give at least one")
    if request.form not in PART_FORMS:
        raise UserError(f"`form` must be parquet or csv, got {request.form!r}")
    if request.part_size < 1:
        raise UserError(f"a part needs at least 1 image, got part_size={request.part_size}")
    if request.form == "parquet":
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            raise UserError(
                "Parquet needs the package pyarrow: pip install 'tadam-fewshot[cluster]', or "
                "choose csv"
            ) from None


def _claim(request: BulkRequest, files: Sequence[Path], folder: Path) -> None:
    """Writes down what the folder is for, or makes sure that it is for this."""
    with request.classifier.open("rb") as content:
        classifier = hashlib.file_digest(content, "sha256").hexdigest()
    digest = hashlib.sha256()
    for file in files:
        digest.update(str(file).encode("utf-8", "surrogateescape") + b"\0")
    about = {
        **asdict(request),
        "classifier": classifier,
        "files": digest.hexdigest(),
    }
    text = json.dumps(about, indent=1) + "\n"
    note = folder / _ABOUT
    if note.exists():
        if note.read_text(encoding="utf-8") != text:
            raise UserError(
                f"{folder} holds predictions of other images, or by another classifier: choose "
                "another folder"
            )
        return
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} exists and is not empty: choose another folder")
    write_text(note, text)
