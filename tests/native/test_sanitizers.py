"""The kernels under the address and undefined-behaviour sanitizers."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

HERE = Path(__file__).parent
NATIVE = HERE.parents[1] / "src" / "tadam" / "native"
COMPILER = shutil.which("g++")
INSTRUCTIONS = {  # as in setup.py, by what PyTorch calls a processor
    "DEFAULT": [],
    "AVX2": ["-mavx2", "-mfma"],
    "AVX512": ["-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx2", "-mfma"],
}


def runnable() -> list[str]:
    """The kinds that this processor can run."""
    kinds = list(INSTRUCTIONS)
    capability = torch.backends.cpu.get_cpu_capability()
    return kinds[: kinds.index(capability) + 1] if capability in kinds else kinds[:1]


def sanitizers_work(folder: Path) -> bool:
    """Whether this compiler has the sanitizers' libraries: some systems package them apart."""
    source = folder / "empty.cpp"
    source.write_text("int main() {}\n")
    command: list[Any] = [COMPILER, "-fsanitize=address,undefined", source, "-o", folder / "empty"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(COMPILER is None, reason="no g++ here")
@pytest.mark.parametrize("kind", INSTRUCTIONS)
def test_no_kernel_leaves_its_memory(kind: Any, tmp_path: Path) -> None:
    if not sanitizers_work(tmp_path):
        pytest.skip("g++ has no sanitizers here")
    if kind not in runnable():
        pytest.skip(f"this processor has no {kind}")
    command: list[Any] = [
        COMPILER, "-std=c++17", "-O1", "-g", "-fopenmp", "-Wno-psabi", "-Wno-ignored-attributes",
        "-fsanitize=address,undefined", "-fno-sanitize-recover=all", *INSTRUCTIONS[kind],
        HERE / "sanitize.cpp", *NATIVE.glob("*.cpp"), "-o", tmp_path / "sanitize",
    ]  # fmt: skip
    subprocess.run(command, check=True)
    result = subprocess.run([tmp_path / "sanitize"], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (0, "fine\n"), result.stdout + result.stderr
