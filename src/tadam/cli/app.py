"""The command line put together, and how a command ends.

Each command is a thin call to a function that Python users can call too. torch is imported inside
the commands, so that --help answers at once.
"""

import errno
import io
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console

from tadam.cli.bench import bench
from tadam.cli.cache import cache_app
from tadam.cli.check import check
from tadam.cli.classifier_files import add, info, remove
from tadam.cli.data import data_app
from tadam.cli.evaluate import evaluate
from tadam.cli.export import export
from tadam.cli.fit import fit
from tadam.cli.flags import with_flags
from tadam.cli.predict import predict
from tadam.cli.reproduce import reproduce_app
from tadam.cli.serve import serve
from tadam.cli.settings import settings
from tadam.cli.sort_photos import undo
from tadam.cli.suggest import suggest
from tadam.cli.sweep import sweep_app
from tadam.cli.train import demo, recipes, train
from tadam.cli.typer_app import App
from tadam.errors import Interrupted, LostProcess, RunFailed, UserError
from tadam.reports.terminal import alarm, err, out
from tadam.system.torchrun import place
from tadam.system.untrusted_text import printable

#: What the system says of a path that was mistyped; all else, such as a full disk, is a failure.
_USERS_ERRORS = {errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP}

app = App(
    name="tadam",
    help="Few-shot image classification that works (TADAM, NeurIPS 2018).",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(data_app, name="data")
app.add_typer(cache_app, name="cache")
app.add_typer(sweep_app, name="sweep")
app.add_typer(reproduce_app, name="reproduce")
_PHOTOS = (fit, check, predict, undo, evaluate, suggest, add, remove, info, export, serve)
for command in (*_PHOTOS, demo, train, recipes, settings, bench):
    app.command()(command)


def main() -> None:
    """Runs the command line; a mistake ends in one sentence, never in a traceback."""
    for stream in (sys.stdout, sys.stderr):  # a terminal without "±" shows "?", not a traceback
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        with _notes():
            app(prog_name="tadam")
    except SystemExit as ended:
        if ended.code == 130:  # Ctrl-C, of which Typer says nothing
            err.print("stopped")
        raise
    except UserError as error:
        _fail(str(error), 2)
    except (LostProcess, MemoryError) as error:
        _fail(str(error) or "out of memory", 1, alarm)
    except OSError as error:
        _fail(_about_file(error), 2 if error.errno in _USERS_ERRORS else 1, alarm)
    except Interrupted as stop:  # asked for, so no error, but not all that was wanted either
        err.print(with_flags(str(stop)), soft_wrap=True)
        sys.exit(1)
    except RunFailed as error:
        _fail(str(error), 1)
    except RuntimeError as error:
        if "allocate memory" not in str(error) and "out of memory" not in str(error):
            raise
        _fail("out of memory: try fewer tasks, a smaller width or smaller images", 1, alarm)


@contextmanager
def _notes() -> Iterator[None]:
    """Shows warnings of ours as sentences, without the line of code that they came from."""
    others = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if category.__module__.startswith("tadam."):
            err.print(f"note: {message}", soft_wrap=True)
        else:
            others(message, category, *where, **more)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = others


def _about_file(error: OSError) -> str:
    """What the system refused, as a sentence."""
    if error.filename is None or error.strerror is None:
        return error.strerror or str(error)
    name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else "a file"
    return (
        f"{name} cannot be used ({error.strerror}): check the path, your permissions and the disk"
    )


def _fail(sentence: str, code: int, console: Console = err) -> None:
    console.print("error:", style="bold red", end=" ")
    console.print(printable(with_flags(sentence)), soft_wrap=True)
    sys.exit(code)


def _version(wanted: bool) -> None:
    if wanted:
        from tadam import __version__

        out.print(f"tadam {__version__}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Few-shot image classification that works (TADAM, NeurIPS 2018)."""
    if place().size > 1 and context.invoked_subcommand not in ("train", "evaluate"):
        raise UserError("torchrun is for 'tadam train' and 'tadam evaluate': leave it out here")
