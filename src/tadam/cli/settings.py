"""The command that says what a recipe may contain."""

from typing import Annotated

import typer
from rich.table import Table

from tadam.cli.options import Json
from tadam.errors import UserError
from tadam.reports.terminal import out, print_json


def settings(
    table: Annotated[str | None, typer.Argument(help="Only this table, e.g. backbone.")] = None,
    as_json: Json = False,
) -> None:
    """List every setting of a recipe with its default and meaning."""
    from dataclasses import asdict

    from tadam.config.documentation import settings as documented
    from tadam.config.toml_tables import format_value

    found = documented()
    if table is not None:
        tables = list(dict.fromkeys(setting.key.partition(".")[0] for setting in found))
        if table not in tables:
            raise UserError(f"there is no table {table!r}: choose from {', '.join(tables)}")
        found = [setting for setting in found if setting.key.startswith(f"{table}.")]
    if as_json:
        print_json([asdict(setting) for setting in found])
        return
    shown = Table("setting", "default", "meaning")
    for setting in found:
        owners = f" Only for {' and '.join(setting.owners)}." if setting.owners else ""
        shown.add_row(setting.key, format_value(setting.default), setting.meaning + owners)
    out.print(shown)
