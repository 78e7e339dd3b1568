"""`tadam serve`: the studio in the browser, and the HTTP API."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tadam.distributed.jobs import Cluster
from tadam.errors import UserError
from tadam.reports.terminal import err, out
from tadam.system.untrusted_text import printable

if TYPE_CHECKING:
    from tadam.serve.serve_settings import ServeSettings

_NEEDED = ("fastapi", "uvicorn", "python_multipart")
Served = Annotated[
    Path | None,
    typer.Argument(
        metavar="[PROJECT_FOLDER|FILE.tadam]",
        help="A project, a folder of projects, a folder of classes, or a classifier; your own "
        "projects by default.",
    ),
]


@dataclass(frozen=True)
class ListenOptions:
    """Where to listen, and for whom."""

    host: Annotated[
        str, typer.Option(help="Address to listen on; all but this machine's own want the token.")
    ] = "127.0.0.1"
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 for a free one.")
    ] = 8000
    token: Annotated[
        str | None,
        typer.Option(envvar="TADAM_TOKEN", help="What requests carry; made up by default."),
    ] = None
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False
    max_upload: Annotated[
        int, typer.Option(min=1, metavar="MB", help="Most megabytes in a request.")
    ] = 2048
    sample: Annotated[
        bool, typer.Option("--sample", help="Add a project with drawn pictures to try.")
    ] = False


@dataclass(frozen=True)
class ScaleOptions:
    """How many processes or machines answer for a classifier."""

    workers: Annotated[
        int, typer.Option(min=1, metavar="N", help="With FILE.tadam: processes on this machine.")
    ] = 1
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS|local",
            help="With FILE.tadam: have replicas on a Ray cluster answer; '--ray local' starts one "
            "here.",
        ),
    ] = None
    replicas: Annotated[
        int, typer.Option(min=1, metavar="N", help="With --ray: how many of them.")
    ] = 2

    def check(self, is_file: bool) -> None:
        """Refuses what does not go together."""
        if not is_file and (self.workers > 1 or self.ray is not None):
            raise UserError(
                "a project is served by one process: give a .tadam file with `workers` or `ray`"
            )
        if self.workers > 1 and self.ray is not None:
            raise UserError("`workers` are processes of this machine: leave them out with `ray`")


def serve(path: Served = None, *, listen: ListenOptions, scale: ScaleOptions) -> None:
    """Teach a classifier in the browser, and let programs ask it over HTTP."""
    if any(find_spec(module) is None for module in _NEEDED):
        raise UserError("the studio is not installed: run pip install 'tadam-fewshot[serve]'")
    from tadam.serve.serve_settings import ServeSettings

    scale.check(is_file := path is not None and path.is_file())
    if is_file and listen.sample:
        raise UserError("`sample` makes a project: give a folder of projects with it")
    if listen.token is not None and (len(listen.token) < 8 or not listen.token.isascii()):
        raise UserError("`token` must have at least 8 letters, digits or signs: choose another")
    settings = ServeSettings(listen.host, listen.port, max_upload=listen.max_upload * 2**20)
    if listen.token is not None:
        settings = replace(settings, token=listen.token)
    if not settings.is_local:
        err.print(
            "note: other machines can connect; each request needs the token. Traffic is not "
            "encrypted: put a server with TLS in front if you do not trust the network",
            soft_wrap=True,
        )
    if path is not None and is_file:
        _serve_file(path, settings, listen.open_page, scale)
    else:
        _serve_projects(path, settings, listen)


def _ready(what: object) -> Callable[[str], None]:
    def ready(address: str) -> None:
        out.print(f"serving {printable(what)} at {address}", soft_wrap=True, markup=False)
        out.print("Ctrl-C stops it", style="dim")

    return ready


def _serve_projects(path: Path | None, settings: "ServeSettings", listen: ListenOptions) -> None:
    from tadam.serve.app import studio_app
    from tadam.serve.library import checked_folder
    from tadam.serve.run import serve_app
    from tadam.serve.sample import make_sample

    folder, photos = checked_folder(path)
    if listen.sample:
        make_sample(folder)
    make = partial(studio_app, settings, folder, photos)
    serve_app(make, settings, _ready(folder), listen.open_page)


def _serve_file(
    path: Path, settings: "ServeSettings", open_page: bool, scale: ScaleOptions
) -> None:
    from tadam.serve.classifier_app import classifier_app, from_environment, tell_workers
    from tadam.serve.predicting import check_classifier
    from tadam.serve.run import serve_app, serve_workers

    if scale.ray is not None:
        from tadam.serve.ray_replicas import deployed

        with deployed(path, settings, Cluster(scale.ray), scale.replicas) as queue:
            make = partial(classifier_app, settings, path, queue)
            serve_app(make, settings, _ready(path), open_page)
    elif scale.workers > 1:
        check_classifier(path)
        tell_workers(settings, path, scale.workers)
        factory = f"{from_environment.__module__}:{from_environment.__name__}"
        serve_workers(factory, scale.workers, settings, _ready(path), open_page)
    else:
        serve_app(partial(classifier_app, settings, path), settings, _ready(path), open_page)
