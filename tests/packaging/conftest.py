"""An sdist and a wheel that is built from it, once for all tests."""

import shutil
import tarfile

import pytest

from packaging_tools import ROOT, Package, build, repository


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    folder = tmp_path_factory.mktemp("package")
    copy = folder / "copy"
    files = frozenset(repository())
    for name in files:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name)
    sdist = build("build_sdist", copy, folder / "dist")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    unpacked = folder / sdist.name.removesuffix(".tar.gz")
    wheel = build("build_wheel", unpacked, folder / "dist", TADAM_NATIVE="0")
    return Package(files, sdist, unpacked, wheel)
