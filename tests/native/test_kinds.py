"""The libraries for other kinds of processors: those that this one can run pass the same tests."""

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tadam import native

HERE = Path(__file__).parent
TESTS = (HERE / "test_convolution.py", HERE.parent / "nn" / "fast" / "test_native_units.py")


@pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64"), reason="there is one library here"
)
@pytest.mark.parametrize("kind", ["default", "avx2"])
def test_the_library_of_an_older_processor_agrees_with_pytorch(kind: Any) -> None:
    if not native.available() or torch.backends.cpu.get_cpu_capability() == "DEFAULT":
        pytest.skip("the core was not built, or this processor is an old one itself")
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": kind}
    which = "from tadam import native; print(native.core())"
    found = subprocess.run(
        [sys.executable, "-c", which], env=environment, capture_output=True, text=True, check=True
    )
    assert found.stdout == {"default": "native\n", "avx2": "native AVX2\n"}[kind]
    # Whether the core can be switched off has nothing to do with the kind, and takes a process.
    options = ["-v", "-p", "no:cacheprovider", "-k", "not switched_off"]
    command: list[Any] = [sys.executable, "-m", "pytest", *options, *TESTS]
    result = subprocess.run(
        command, env=environment, cwd=HERE.parents[1], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-2000:]
    summary = result.stdout.splitlines()[-1]
    assert "passed" in summary
    assert "skipped" not in summary
