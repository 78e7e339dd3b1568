"""`tadam data ...`: list, prepare, verify and show data sets."""

from pathlib import Path
from typing import Annotated

import typer
from rich.padding import Padding

from tadam.cli.files import check_outputs
from tadam.cli.options import DataDir, Force, Json
from tadam.cli.typer_app import App
from tadam.errors import RunFailed
from tadam.reports.terminal import out, print_json, progress_bar

data_app = App(help="List, prepare, verify and show data sets.")

DataName = Annotated[str, typer.Argument(help="A name that 'tadam data list' shows.")]
ImageSize = Annotated[int, typer.Option(help="Side in pixels; 0 for the data set's own.")]


@data_app.command("list")
def data_list(data: DataDir = None, as_json: Json = False) -> None:
    """List the data sets, where they are, and how to get the missing ones."""
    from tadam.data.catalogue import describe

    descriptions = describe()
    if as_json:
        print_json(descriptions)
        return
    for about in descriptions:
        out.print(about["name"], style="bold", end="")
        out.print(f"  {about['summary']}")
        size = f"{about['classes']} classes, {about['images']} images, {about['size']}"
        lines = f"{size}; licence: {about['licence']}\n{about['where']}"
        out.print(Padding(lines, (0, 0, 1, 4), expand=False))


@data_app.command("prepare")
def data_prepare(name: DataName, image_size: ImageSize = 0, data: DataDir = None) -> None:
    """Download a data set if needed, and draw or decode it into the cache."""
    from tadam.config import DataConfig
    from tadam.data.catalogue import prepare

    stores = prepare(DataConfig(name, image_size), progress_bar)
    for split, store in stores.items():
        out.print(f"{split:>5}: {len(store.class_names)} classes, {len(store.images)} images")


@data_app.command("verify")
def data_verify(name: DataName, data: DataDir = None) -> None:
    """Check every image of a data set; exit code 1 if one is broken."""
    from tadam.data.catalogue import verify

    with progress_bar("verifying") as progress:
        problems = verify(name, progress)
    for problem in problems:
        out.print(problem, soft_wrap=True)
    if problems:
        found = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        raise RunFailed(f"{name}: {found} found")
    out.print(f"{name}: all good", soft_wrap=True)


@data_app.command("show")
def data_show(
    name: DataName,
    split: Annotated[str, typer.Option(help="train, val or test.")] = "train",
    file: Annotated[
        Path | None, typer.Option("--out", help="PNG to write; NAME-SPLIT.png by default.")
    ] = None,
    force: Force = False,
    data: DataDir = None,
) -> None:
    """Draw a contact sheet: a row of images per class."""
    from tadam.config import DataConfig
    from tadam.data.catalogue import load_split
    from tadam.data.contact_sheet import write_contact_sheet
    from tadam.data.folder import FOLDER_PREFIX

    folder = name.removeprefix(FOLDER_PREFIX)
    stem = name if folder == name else Path(folder).expanduser().resolve().name or "folder"
    file = file or Path(f"{stem}-{split}.png")
    check_outputs([file], force)
    with progress_bar("reading") as progress:
        store = load_split(DataConfig(name), split, progress)
    write_contact_sheet(store, file)
    out.print(f"written: {file}", soft_wrap=True)
