"""Recipes by name: the files here, the generated ones in `paper/`, the methods' in `methods/`.

A recipe may build on another: `extends = "images"` at its top names a shipped recipe, or a file
relative to its own. Its own settings override those it builds on.
"""

import difflib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from tadam.config import Config
from tadam.config.recipe import parse_toml, upgraded
from tadam.errors import UserError, excerpt
from tadam.recipes.method_recipes import MethodRecipe, all_method_recipes, find_method_recipe


@dataclass(frozen=True)
class _RecipeFile:
    """A recipe that was found.

    Attributes:
        source: Its name in errors.
        file: The file with its text.
        folder: Folder that a path in `extends` is relative to; None for a shipped recipe.
    """

    source: str
    file: Traversable
    folder: Path | None = None

    def text(self) -> str:
        try:
            return self.file.read_bytes().decode("utf-8-sig")
        except UnicodeDecodeError:
            raise UserError(
                f"{self.source} is not a text file: a recipe is TOML in UTF-8"
            ) from None
        except OSError as error:
            raise UserError(f"{self.source} cannot be read ({error.strerror}): check it") from None


def recipe_names() -> list[str]:
    """Names of the shipped recipes, those of the methods last."""
    return [*sorted(_shipped()), *(recipe.name for recipe in all_method_recipes())]


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
    """Reads a shipped recipe by its name, or any TOML file by its path.

    Examples:
        >>> recipe = load_recipe("paper-fc100-5shot")
        >>> recipe.backbone.name, recipe.episode.shot, recipe.metric.distance
        ('resnet12', 5, 'euclidean')
    """
    found = _find(recipe, Path())
    if found is None:
        raise UserError(
            f"unknown recipe {excerpt(repr(str(recipe)))}, and no file of that name "
            f"({_hint(recipe)})"
        )
    return _loaded(found)


def load_written(path: Path) -> Config:
    """Reads the recipe that a run wrote into its folder, with this version or an earlier one."""
    found = _RecipeFile(str(path), path, path.parent)
    return _built(found, upgraded(parse_toml(found.text(), found.source)))


def _find(recipe: str | Path, folder: Path | None) -> _RecipeFile | MethodRecipe | None:
    """A file, if there is a folder to look from, or a shipped recipe."""
    if folder is not None and (path := folder / recipe).is_file():
        return _RecipeFile(os.path.normpath(path), path.resolve(), path.parent)
    name = str(recipe).removesuffix(".toml")
    file = _shipped().get(name)
    return find_method_recipe(name) if file is None else _RecipeFile(f"recipe {name}", file)


def _hint(recipe: str | Path) -> str:
    near = difflib.get_close_matches(str(recipe).removesuffix(".toml"), recipe_names(), n=1)
    return f"did you mean {near[0]}?" if near else "'tadam recipes' lists the shipped ones"


def _loaded(found: _RecipeFile | MethodRecipe, above: tuple[_RecipeFile, ...] = ()) -> Config:
    if isinstance(found, MethodRecipe):
        return found.config()
    return _built(found, parse_toml(found.text(), found.source), above)


def _built(
    recipe: _RecipeFile, tables: dict[str, Any], above: tuple[_RecipeFile, ...] = ()
) -> Config:
    """Builds the recipe that the tables describe, on top of the one they extend.

    Args:
        recipe: Where the tables are from.
        tables: Its content.
        above: The recipes that extend this one, outermost first.
    """
    chain = (*above, recipe)
    base = Config()
    if "extends" in tables:
        found = _extended(recipe, tables["extends"])
        if isinstance(found, _RecipeFile) and found.file in [earlier.file for earlier in chain]:
            circle = " -> ".join(part.source for part in (*chain, found))
            raise UserError(f"{recipe.source}: extends forms a loop: {circle}")
        base = _loaded(found, chain)
    try:
        return base.updated({key: value for key, value in tables.items() if key != "extends"})
    except UserError as error:
        raise UserError(f"{recipe.source}: {error}") from None


def _extended(recipe: _RecipeFile, base: object) -> _RecipeFile | MethodRecipe:
    if not isinstance(base, str):
        raise UserError(
            f"{recipe.source}: extends must be a recipe's name or a path in quotes, "
            f"got {excerpt(repr(base))}"
        )
    found = _find(base, recipe.folder)
    if found is None:
        raise UserError(
            f"{recipe.source} extends {excerpt(repr(base))}, but there is no such recipe and no "
            f"such file beside it ({_hint(base)})"
        )
    return found
