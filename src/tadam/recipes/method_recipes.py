"""Recipes of the methods of Table 1: one TOML file a method, for every data set and shot.

A file in `methods/` has sections, each holding ordinary tables of a recipe. The recipe
`maml-fc100-5shot` is made of those sections of `maml.toml` that concern it, the general ones first:

    [all.*], [fc100.*], [5shot.*], ["fc100-5shot".*]

and `maml-fc100-5shot-cpu`, which is smaller or shorter, of these and then

    [cpu.*], ["cpu-fc100".*], ["cpu-5shot".*], ["cpu-fc100-5shot".*]

Each section changes the recipe that those before it describe, so each such recipe must be valid.
A variant of a method has a file of its own: `extends = "maml"` at its top, then what differs.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from tadam.config import Config
from tadam.config.recipe import parse_toml
from tadam.errors import UserError

#: Data set in a recipe's name -> `data.name`.
METHOD_DATASETS = {
    "omniglot": "omniglot_rotated",
    "fc100": "fc100",
    "cifar_fs": "cifar_fs",
    "mini_imagenet": "mini_imagenet",
}
METHOD_SHOTS = (1, 5, 10)
#: End of the name of a recipe that is smaller or shorter than the authors' own.
_CPU = "-cpu"


@dataclass(frozen=True)
class MethodRecipe:
    """A recipe of a method: one of its file's combinations.

    Attributes:
        row: The method's file in `methods/`, without its ending.
        dataset: A key of `METHOD_DATASETS`.
        shot: One of `METHOD_SHOTS`.
        cpu: Whether to use the sections that fit the recipe to a CPU.
    """

    row: str
    dataset: str
    shot: int
    cpu: bool = False

    @property
    def name(self) -> str:
        """Its name for `tadam train`."""
        return f"{self.row}-{self.dataset}-{self.shot}shot{_CPU if self.cpu else ''}"

    def sections(self) -> list[str]:
        """The sections that concern it, in the order in which they apply."""
        shot = f"{self.shot}shot"
        both = f"{self.dataset}-{shot}"
        sections = ["all", self.dataset, shot, both]
        if self.cpu:
            sections += ["cpu", f"cpu-{self.dataset}", f"cpu-{shot}", f"cpu-{both}"]
        return sections

    def config(self) -> Config:
        """The recipe: the name's shot and 5-way validation, unless a section says otherwise.

        Validation and test draw equally many queries of each class, as the methods' authors do.
        """
        config = Config().updated(
            {
                "data": {"name": METHOD_DATASETS[self.dataset]},
                "episode": {"shot": self.shot},
                "validation": {"way": 5, "balanced": True},
            }
        )
        file = _file_tables(self.row)
        for section in self.sections():
            try:
                config = config.updated(file.get(section, {}))
            except UserError as error:
                raise UserError(f"recipe {self.name}, section {section}: {error}") from None
        return config


def method_rows() -> list[str]:
    """The methods that have recipes, by the names of their files."""
    return sorted(_files())


def all_method_recipes() -> Iterator[MethodRecipe]:
    """Every method, data set and shot, with the authors' settings and with ours for a CPU."""
    for row in method_rows():
        for dataset in METHOD_DATASETS:
            for shot in METHOD_SHOTS:
                yield MethodRecipe(row, dataset, shot)
                yield MethodRecipe(row, dataset, shot, cpu=True)


def find_method_recipe(name: str) -> MethodRecipe | None:
    """The recipe of this name; None if no method has it."""
    return next((recipe for recipe in all_method_recipes() if recipe.name == name), None)


def _files() -> dict[str, Traversable]:
    folder = resources.files(__package__).joinpath("methods")
    return {file.name[:-5]: file for file in folder.iterdir() if file.name.endswith(".toml")}


@cache
def _file_tables(row: str) -> dict[str, Any]:
    """Section -> table -> key -> value of a method's file."""
    source = f"recipes/methods/{row}.toml"
    tables = parse_toml(_files()[row].read_text(encoding="utf-8"), source)
    base = tables.pop("extends", None)
    if base is not None and base not in set(_files()) - {row}:
        raise UserError(f"{source}: extends must name another file here, got {base!r}")
    known = {
        section
        for dataset in METHOD_DATASETS
        for shot in METHOD_SHOTS
        for section in MethodRecipe(row, dataset, shot, cpu=True).sections()
    }
    for section, content in tables.items():
        tables_of = content.values() if isinstance(content, dict) else [content]
        if section not in known or not all(isinstance(table, dict) for table in tables_of):
            raise UserError(
                f"{source}: section {section!r} must be all, a data set, a number of shots, both, "
                "or one of these after cpu, and hold tables"
            )
    return tables if base is None else _merged(_file_tables(base), tables)


def _merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Nested tables, the changes on top."""
    merged = dict(base)
    for key, value in changes.items():
        old = merged.get(key)
        both = isinstance(old, dict) and isinstance(value, dict)
        merged[key] = _merged(old, value) if both else value  # type: ignore[arg-type]
    return merged
