"""A type's name means one thing: nobody has to ask which `Source` a signature speaks of."""

import ast
from collections import defaultdict
from pathlib import Path

import tadam

SOURCE = Path(tadam.__file__).parent
ROOMS = ("classify", "cli", "models")


def types_defined(file: Path) -> set[str]:
    """Classes and aliases at the top of a module: names such as `Progress`."""
    found = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {name.id for name in node.targets if isinstance(name, ast.Name)}
    return {name for name in found if name[0].isupper() and not name.isupper()}


def test_no_type_has_the_name_of_another() -> None:
    homes: dict[str, set[str]] = defaultdict(set)
    for file in sorted(SOURCE.rglob("*.py")):
        for name in types_defined(file):
            homes[name].add(file.relative_to(SOURCE).as_posix())
    shared = {
        name: files
        for name, files in homes.items()
        if len(files) > 1 and any(file.startswith(ROOMS) for file in files)
    }
    assert {"Prediction", "ImageSource"} <= set(homes)
    assert shared == {}
