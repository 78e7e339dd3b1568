"""`tadam reproduce photos`: our metric beside scikit-learn's, on photos of one's own."""

import json
from typing import Annotated

import typer

from tadam.cli.options import DataDir, Json
from tadam.cli.tables import FOLDER, Out, print_table, print_written
from tadam.errors import UserError
from tadam.reports.terminal import print_json, progress_bar
from tadam.system.files import write_text


def photos(
    sources: Annotated[
        list[str],
        typer.Argument(metavar="FOLDER", help="Class folders of photos, or a data set's name."),
    ],
    model: Annotated[str, typer.Option(help="Embeds the photos.")] = "imagenet",
    ways: Annotated[str, typer.Option(metavar="N,N", help="Classes in a task.")] = "5,20,50",
    shots: Annotated[str, typer.Option(metavar="N,N", help="Photos of each.")] = "1,2,5,10,20",
    effort: Annotated[
        float, typer.Option(min=0.01, metavar="X", help="Factor on the number of tasks.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the tasks.")] = 0,
    alone: Annotated[
        bool, typer.Option("--alone", help="Measure ours only: calibration and unknown photos.")
    ] = False,
    folder: Out = FOLDER,
    data: DataDir = None,
    as_json: Json = False,
) -> None:
    """Our metric against scikit-learn on the same embeddings of photos."""
    from tadam.reproduce import photos_table
    from tadam.reproduce.photos import compare_photos

    with progress_bar("comparing") as progress:
        results = compare_photos(
            sources, model, _numbers(ways), _numbers(shots), effort, seed, not alone, progress
        )
    name = "photos-alone" if alone else "photos"
    written = [folder / f"{name}.json", folder / f"{name}.md"]
    write_text(written[0], json.dumps(results.to_json(), indent=1) + "\n")
    photos_table.write_tables(written[1], results, alone)
    if as_json:
        print_json(results.to_json())
        return
    if not alone:
        print_table("Accuracy", photos_table.SUMMARY_COLUMNS, photos_table.summary_rows(results))
    print_table("Trust", photos_table.TRUST_COLUMNS, photos_table.trust_rows(results))
    print_written(written)


def _numbers(text: str) -> list[int]:
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 1:
        raise UserError(f"`ways` and `shots` are whole numbers such as 5,20: got {text}")
    return found
