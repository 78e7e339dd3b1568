"""`tadam serve`: the studio in the browser, and the HTTP API."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from tadam.errors import UserError
from tadam.reports.terminal import out
from tadam.system.untrusted_text import printable

_NEEDED = ("fastapi", "uvicorn", "python_multipart")


@dataclass(frozen=True)
class ListenOptions:
    """Where to listen, and for whom."""

    host: Annotated[
        str,
        typer.Option(help="Address to listen on; others than this machine's own need the token."),
    ] = "127.0.0.1"
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 for a free one.")
    ] = 8000
    token: Annotated[
        str | None,
        typer.Option(envvar="TADAM_TOKEN", help="What requests have to carry; made up by default."),
    ] = None
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False


def serve(
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="[PROJECT_FOLDER|FILE.tadam]",
            help="A project, a folder of projects, class folders of photos, or a classifier; "
            "your own projects by default.",
        ),
    ] = None,
    max_upload: Annotated[
        int, typer.Option(min=1, metavar="MB", help="Most megabytes in a request.")
    ] = 2048,
    *,
    listen: ListenOptions,
) -> None:
    """Teach a classifier in the browser, and answer over HTTP."""
    if any(find_spec(module) is None for module in _NEEDED):
        raise UserError("the studio is not installed: run pip install 'tadam-fewshot[serve]'")
    from tadam.serve.app import studio_app
    from tadam.serve.library import checked_folder, projects_folder
    from tadam.serve.run import serve_app
    from tadam.serve.serve_settings import ServeSettings

    given = {"token": listen.token} if listen.token else {}
    settings = ServeSettings(listen.host, listen.port, max_upload=max_upload * 2**20, **given)
    folder = checked_folder(path or projects_folder())

    def ready(address: str) -> None:
        out.print(f"serving {printable(folder)} at {address}", soft_wrap=True, markup=False)

    serve_app(lambda: studio_app(settings, folder), settings, ready, listen.open_page)
