"""Recipes by name: the TOML files of this folder, and the generated ones in `paper/`."""

import difflib
from collections.abc import Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from tadam.config import Config
from tadam.errors import UserError


def recipe_names() -> list[str]:
    """Names of the shipped recipes."""
    return sorted(_shipped())


def _shipped() -> dict[str, Traversable]:
    folder = resources.files(__package__)
    files = [*folder.iterdir(), *folder.joinpath("paper").iterdir()]
    return {file.name[:-5]: file for file in files if file.name.endswith(".toml")}


def resolve(
    recipe: str | Path | Config, settings: Sequence[str] = (), dataset: str | None = None
) -> Config:
    """A recipe with `table.key=value` settings applied and its data set replaced."""
    config = recipe if isinstance(recipe, Config) else load_recipe(recipe)
    config = config.with_settings([settings] if isinstance(settings, str) else list(settings))
    return config.updated({"data": {"name": dataset}}) if dataset is not None else config


def load_recipe(recipe: str | Path) -> Config:
    """Reads a shipped recipe by its name, or any TOML file by its path."""
    name, path = str(recipe).removesuffix(".toml"), Path(recipe)
    if path.is_file():
        return Config.from_toml(_text(path), str(path))
    shipped = _shipped()
    if name in shipped:
        return Config.from_toml(shipped[name].read_text(encoding="utf-8"), f"recipe {name}")
    near = difflib.get_close_matches(name, shipped, n=1)
    hint = f"did you mean {near[0]}?" if near else "'tadam recipes' lists the shipped ones"
    raise UserError(f"unknown recipe {str(recipe)!r}, and no file of that name ({hint})")


def load_written(path: Path) -> Config:
    """Reads the recipe that a run wrote into its folder, with this version or an earlier one."""
    return Config.from_written(_text(path), str(path))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(f"{path} is not a text file: a recipe is TOML in UTF-8") from None
