"""`tadam predict --out DIR`: any number of images, in parts, here or on a cluster."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from tadam.cli.files import check_inputs
from tadam.cli.options import JobOptions, RejectOptions
from tadam.cli.skipped import told
from tadam.errors import UserError
from tadam.reports.terminal import JobReporter, out, print_json
from tadam.system.untrusted_text import printable

#: A path with this ending is a list of images, one a line.
_LIST = ".txt"


@dataclass(frozen=True)
class BulkOptions(JobOptions):
    """Predictions in parts, and where they are made."""

    folder: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Write files of 1000 rows there, for any number of images; the same command "
            "continues what was stopped. A PATH may then be a .txt list of images.",
        ),
    ] = None
    form: Annotated[
        str | None, typer.Option("--format", help="Of these files: parquet, the default, or csv.")
    ] = None

    def wanted(self, others: bool) -> bool:
        """Whether predictions are to be made in parts, which rules `others` out."""
        if self.folder is None and (self.form or self.cluster()):
            raise UserError("`ray` and `format` are for predictions in parts: add `out`")
        if self.folder is not None and others:
            raise UserError(
                "with `out`, leave --csv, --report, --copy-to, --move-to and --strict out"
            )
        return self.folder is not None


def predict_parts(
    classifier: Path,
    paths: Sequence[Path],
    options: BulkOptions,
    top: int | None,
    rejection: RejectOptions,
    as_json: bool,
) -> None:
    """Predicts the images of all paths, and says what was written."""
    from tadam.distributed.jobs import open_pool
    from tadam.evaluation.bulk import SKIPPED, BulkRequest, predict_in_bulk

    assert options.folder is not None
    check_inputs([classifier, *paths])
    form, threshold = options.form or "parquet", rejection.reject_threshold
    request = BulkRequest(classifier, form, top, rejection.asked(), threshold)
    with told() as problems:
        files = [file for path in paths for file in _images(path, problems)]
    with open_pool(options.cluster(), JobReporter(live=True), alike=True) as pool:
        result = predict_in_bulk(request, files, options.folder, pool)
    if as_json:
        print_json({**asdict(result), "folder": str(result.folder)})
        return
    sentence = f"{result.folder}: {result.images:,} images in {result.parts:,} files"
    if result.skipped:
        sentence += f"; {result.skipped:,} cannot be read, see {result.folder / SKIPPED}"
    out.print(printable(sentence), soft_wrap=True)


def _images(path: Path, problems: list[str]) -> list[Path]:
    """The images that a path means; what a folder has besides goes to `problems`."""
    from tadam.data.folder import image_files, left_out

    if path.is_dir():
        images = image_files(path, closed=[])  # `left_out` names those
        problems += left_out(path, images)
        return images
    if path.suffix.lower() != _LIST:
        return [path]
    try:
        lines = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    return [Path(line) for line in lines if line.strip()]
