"""The kernels under the address and undefined-behaviour sanitizers."""

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NATIVE = HERE.parents[1] / "src" / "tadam" / "native"
COMPILER = shutil.which("g++")


def sanitizers_work(folder: Path) -> bool:
    """Whether this compiler has the sanitizers' libraries: some systems package them apart."""
    source = folder / "empty.cpp"
    source.write_text("int main() {}\n")
    command = [COMPILER, "-fsanitize=address,undefined", source, "-o", folder / "empty"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(COMPILER is None, reason="no g++ here")
@pytest.mark.parametrize("products", ["TADAM_WIDE", "TADAM_NARROW"])
def test_no_kernel_leaves_its_memory(products, tmp_path):
    if not sanitizers_work(tmp_path):
        pytest.skip("g++ has no sanitizers here")
    command = [
        COMPILER, "-std=c++17", "-O1", "-g", "-fopenmp", "-Wno-psabi", "-Wno-ignored-attributes",
        "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-DTADAM_ONE_VERSION",
        f"-D{products}",
        HERE / "sanitize.cpp", *NATIVE.glob("*.cpp"), "-o", tmp_path / "sanitize",
    ]  # fmt: skip
    subprocess.run(command, check=True)
    result = subprocess.run([tmp_path / "sanitize"], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (0, "fine\n"), result.stdout + result.stderr
