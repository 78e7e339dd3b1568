"""The kernels under the address and undefined-behaviour sanitizers."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

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


def built(kind: str, folder: Path) -> Path:
    """The kernels for one kind of processor in a program of their own, under the sanitizers."""
    command: list[Any] = [
        COMPILER, "-std=c++17", "-O1", "-g", "-fopenmp", "-Wno-psabi", "-Wno-ignored-attributes",
        "-fsanitize=address,undefined", "-fno-sanitize-recover=all", *INSTRUCTIONS[kind],
        HERE / "sanitize.cpp", *NATIVE.glob("*.cpp"), "-o", folder / "sanitize",
    ]  # fmt: skip
    subprocess.run(command, check=True)
    return folder / "sanitize"


def complaint(program: Path, shapes: Sequence[tuple[str, tuple[int, ...]]] = ()) -> str | None:
    """What goes wrong with these shapes, or with those listed in the program; None if nothing."""
    words = [str(word) for kernel, sizes in shapes for word in (kernel, *sizes)]
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    return None if (done.returncode, done.stdout) == (0, "fine\n") else done.stdout + done.stderr


def sizes(*most: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.tuples(*(st.integers(1, size) for size in most))


#: A kernel and the sizes it gets, threads last, as sanitize.cpp takes them.
SHAPES = st.tuples(st.just("conv"), sizes(5, 20, 20, 40, 40, 4)) | st.tuples(
    st.just("norm"), sizes(3, 4, 18, 18, 40, 4)
)


@pytest.mark.skipif(COMPILER is None, reason="no g++ here")
@pytest.mark.parametrize("kind", INSTRUCTIONS)
def test_no_kernel_leaves_its_memory(kind: Any, tmp_path: Path) -> None:
    if not sanitizers_work(tmp_path):
        pytest.skip("g++ has no sanitizers here")
    if kind not in runnable():
        pytest.skip(f"this processor has no {kind}")
    program = built(kind, tmp_path)
    assert complaint(program) is None

    @settings(max_examples=3)
    @given(st.lists(SHAPES, min_size=10, max_size=20))
    def whatever_the_shape(shapes: list[tuple[str, tuple[int, ...]]]) -> None:
        assert complaint(program, shapes) is None

    whatever_the_shape()
