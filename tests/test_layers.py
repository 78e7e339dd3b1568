"""The house's map: which package may import which, how large things get, and names that are unique.

The table is also the section "Layers" of CONTRIBUTING.md.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "tadam"
FILES = sorted(SOURCES.rglob("*.py"))
KERNELS = sorted(file for suffix in ("cpp", "h") for file in SOURCES.rglob(f"*.{suffix}"))

#: Package or module at the top of `src/tadam` -> what it may import. One may import only what
#: stands above it, so that there is no way round in a circle.
LAYERS = {
    "errors": "",
    "registry": "errors",
    "config": "errors registry",
    "system": "errors",
    "metric": "errors",
    "native": "errors system",
    "data": "config errors system",
    "nn": "config errors native registry system",
    "methods": "config data errors metric nn registry system",
    "recipes": "config errors",
    "models": "config errors methods metric nn recipes system",
    "distributed": "errors system",
    "classify": "config data errors methods metric models nn system",
    "evaluation": "everything above",
    "training": "everything above",
    "reports": "everything above",
    "serve": "everything above except reports",
    "benchmarks": "everything above except reports",
    "reproduce": "everything above except benchmarks serve",
    "cli": "everything above",
}
#: The front door names what is public, and `python -m tadam` is the command line.
DOORS = ("__init__", "__main__")

#: Names that two modules may define, with the reason; everything else is called what it is.
SHARED_NAMES: dict[str, str] = {}

MOST_FILES_AT_THE_TOP = 10
MOST_LINES_OF_A_FILE = 300
MOST_LINES_OF_A_FUNCTION = 60


def allowed(package: str) -> set[str]:
    names = list(LAYERS)
    above = set(names[: names.index(package)])
    head, _, exceptions = LAYERS[package].partition("everything above")
    if head == LAYERS[package]:
        return set(head.split())
    return above - set(exceptions.replace("except", "").split())


def package_of(file: Path) -> str:
    return file.relative_to(SOURCES).parts[0].removesuffix(".py")


def name_of(file: Path) -> str:
    return str(file.relative_to(SOURCES))


def imports(source: str) -> Iterator[tuple[int, str]]:
    """What of ours a file imports, anywhere in it: line and dotted name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{'.' * node.level}{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from ((node.lineno, name) for name in names if re.match(r"tadam\b|\.", name))


def is_constant_or_type(name: str) -> bool:
    return re.fullmatch(r"[A-Z][A-Z0-9_]*|[A-Z][A-Za-z0-9]*", name) is not None


def public_names(file: Path) -> set[str]:
    """Classes, constants and type aliases at the top of a file; type variables mean nothing."""
    names: set[str] = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            variable = isinstance(node.value, ast.Call) and "TypeVar" in ast.unparse(node.value)
            for target in [] if variable else node.targets:
                names |= {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return {name for name in names if is_constant_or_type(name)}


def test_the_table_names_every_package() -> None:
    found = {package_of(file) for file in FILES} - set(DOORS)
    assert found == set(LAYERS)


def test_a_package_may_import_only_what_stands_above_it() -> None:
    names = list(LAYERS)
    for i, package in enumerate(names):
        assert allowed(package) <= set(names[:i]), package


def test_packages_import_only_what_they_may() -> None:
    wrong = [
        f"{name_of(file)}:{line} imports {name}"
        for file in FILES
        if package_of(file) in LAYERS
        for line, name in imports(file.read_text())
        if name != "tadam.__version__"
        and name.partition("tadam.")[2].partition(".")[0]
        not in {package_of(file), *allowed(package_of(file))}
    ]
    assert wrong == []


def test_imports_are_seen_wherever_they_stand() -> None:
    source = """
if TYPE_CHECKING:
    from tadam.cli import app
def late():
    import os, tadam.nn.film
class C:
    from . import near
"""
    found = [name for _, name in sorted(imports(source))]
    assert found == ["tadam.cli.app", "tadam.nn.film", ".None.near"]


def test_few_files_stand_at_the_top() -> None:
    assert len([file for file in SOURCES.iterdir() if file.is_file()]) <= MOST_FILES_AT_THE_TOP


def test_files_and_functions_are_short() -> None:
    assert KERNELS, "no C++ where it is looked for"
    long = []
    for file in FILES + KERNELS:
        lines = file.read_text().count("\n")
        if lines > MOST_LINES_OF_A_FILE:
            long.append(f"{name_of(file)} has {lines} lines")
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                if lines > MOST_LINES_OF_A_FUNCTION:
                    long.append(f"{name_of(file)}:{node.lineno} {node.name} has {lines} lines")
    assert long == []


def test_no_two_things_share_a_name() -> None:
    homes = defaultdict(list)
    for file in FILES:
        for name in public_names(file):
            homes[name].append(name_of(file))
    shared = {name: files for name, files in homes.items() if len(files) > 1}
    assert {name: files for name, files in shared.items() if name not in SHARED_NAMES} == {}
    assert set(SHARED_NAMES) <= set(shared), "no longer shared"


def test_contributing_has_the_same_table() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text().partition("\n## Layers\n")[2]
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| .+ \|$", text, re.MULTILINE)
    table = {name: cell.replace("`", "").replace("nothing", "") for name, cell in rows}
    assert list(table.items()) == list(LAYERS.items())
