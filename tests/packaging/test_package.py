"""The sdist and the wheel: what they hold, what they say of themselves, and that they build."""

import re
import tarfile
import tomllib
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import tadam
from packaging_tools import Package, build

INFO = f"tadam_fewshot-{tadam.__version__}.dist-info"
LINK = re.compile(r"\]\((?!https?:)([^)]*)\)")


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        return Parser().parsestr(archive.read(f"{INFO}/METADATA").decode())


def test_the_wheel_holds_the_package_without_its_sources_in_c_and_nothing_else(
    package: Package,
) -> None:
    ours = {name.removeprefix("src/") for name in package.files if name.startswith("src/tadam/")}
    native = {name for name in ours if name.startswith("tadam/native/")}
    left_out = {name for name in native if not name.endswith(".py")}
    about = ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "top_level.txt")
    licences = ("licenses/LICENSE", "licenses/THIRD_PARTY_LICENSES")
    expected = ours - left_out | {f"{INFO}/{name}" for name in (*about, *licences)}
    assert {name.rpartition(".")[2] for name in left_out} == {"cpp", "h", "md"}
    assert names(package.wheel) == expected
    for needed in (
        "py.typed",
        "recipes/shapes.toml",
        "recipes/paper/paper-fc100-5shot.toml",
        "reproduce/published.toml",
        "serve/static/index.html",
        "serve/static/vendor/LICENSE-preact",
        "weights/fc100.safetensors",
        "weights/fc100.md",
    ):
        assert f"tadam/{needed}" in expected, needed


def test_every_licence_of_others_is_named_and_stands_beside_its_code(package: Package) -> None:
    notice = (package.unpacked / "THIRD_PARTY_LICENSES").read_text()
    wheels, repositories = (
        re.findall(r"^  \S.*  (\S*LICENSE\S*)$", part, re.M)
        for part in notice.split("In the repository only")
    )
    wheel, static = names(package.wheel), "tadam/serve/static/"
    assert wheels
    assert repositories
    assert {name for name in wheel if name.startswith(static) and "LICENSE" in name} == {
        f"{static}{name}" for name in wheels
    }
    minified = {name for name in package.files if name.endswith((".min.js", "-bundle.js"))}
    minified |= {name for name in package.files if "/vendor/" in name and name.endswith(".js")}
    folders = {name.rpartition("/")[0] for name in minified}
    for folder in folders:
        assert any(name.startswith(f"{folder}/LICENSE") for name in package.files), folder


def test_the_wheel_is_small_and_for_every_system(package: Package) -> None:
    assert package.wheel.stat().st_size < 25e6
    assert package.wheel.name == f"tadam_fewshot-{tadam.__version__}-py3-none-any.whl"


def test_the_sdist_holds_the_repository_and_nothing_else(package: Package) -> None:
    with tarfile.open(package.sdist) as archive:
        inside = {m.name.partition("/")[2] for m in archive.getmembers() if m.isfile()}
    generated = {name for name in inside if ".egg-info/" in name} | {"PKG-INFO", "setup.cfg"}
    assert inside - generated == package.files
    assert package.sdist.stat().st_size < 25e6


def test_without_a_compiler_the_sdist_builds_a_wheel_without_the_core(
    package: Package, tmp_path: Path
) -> None:
    wheel = build("build_wheel", package.unpacked, tmp_path, CC="false", CXX="false")
    assert names(wheel) == names(package.wheel)


def test_the_metadata_is_complete(package: Package) -> None:
    found = metadata(package.wheel)
    project = tomllib.loads((package.unpacked / "pyproject.toml").read_text("utf-8"))["project"]
    assert found["Name"] == "tadam-fewshot"
    assert found["Version"] == tadam.__version__
    assert found["License-Expression"] == "Apache-2.0"
    assert found["Requires-Python"] == ">=3.11"
    assert found["Description-Content-Type"] == "text/markdown"
    assert found.get_all("Project-URL") == ["Paper, https://arxiv.org/abs/1805.10123"]
    assert set(found.get_all("Provides-Extra", [])) == set(project["optional-dependencies"])
    classifiers = found.get_all("Classifier", [])
    for line in ("Typing :: Typed", "Operating System :: OS Independent"):
        assert line in classifiers
    for version in ("3.11", "3.12", "3.13"):
        assert f"Programming Language :: Python :: {version}" in classifiers


def test_the_text_on_pypi_has_no_link_that_leads_nowhere(package: Package, tmp_path: Path) -> None:
    readme = (package.unpacked / "README.md").read_text("utf-8")
    links = LINK.findall(readme)
    assert links
    text = str(metadata(package.wheel).get_payload())
    assert LINK.findall(text) == []
    assert "![" not in text
    assert "# tadam" in text
    assert "eight other methods" in " ".join(text.split())

    home = "https://code.example/us/tadam"
    made = build("prepare_metadata_for_build_wheel", package.unpacked, tmp_path, TADAM_HOME=home)
    with_home = Parser().parsestr((made / "METADATA").read_text("utf-8"))
    linked = str(with_home.get_payload())
    assert LINK.findall(linked) == []
    at = f"/v{tadam.__version__}/"
    for link in links:
        assert f"]({home}/blob{at}{link})" in linked or f"]({home}/raw{at}{link})" in linked, link
    assert f"Source, {home}" in with_home.get_all("Project-URL", [])
