"""Every setting of a recipe, table by table, from the dataclasses in `tadam.config`."""

from itertools import groupby

from site_pages.markdown_tables import markdown_table
from tadam.config.documentation import Setting, settings
from tadam.config.toml_tables import format_value


def _row(setting: Setting) -> tuple[str, str, str]:
    owners = f" Only for {' and '.join(setting.owners)}." if setting.owners else ""
    default = f"`{format_value(setting.default)}`"
    return f"`{setting.key}`", default, setting.meaning + owners


def settings_reference() -> str:
    """A section for each table of a recipe, a row for each of its keys."""
    sections = []
    for table, members in groupby(settings(), lambda setting: setting.key.partition(".")[0]):
        rows = markdown_table(("setting", "default", "meaning"), map(_row, members))
        sections.append(f"## {table}\n\n{rows}\n")
    return "\n".join(sections)
