"""Builds the optional native core; where that fails, the package works in plain PyTorch."""

import hashlib
import platform
import sys
from pathlib import Path

from setuptools import Extension, setup

FILES = sorted(
    str(file) for file in Path("src/tadam/native").iterdir() if file.suffix in (".cpp", ".h")
)
# The package compares this with the files beside it: kernels of other sources are not called.
CONTENTS = b"".join(Path(file).read_bytes() for file in FILES)
DIGEST = hashlib.sha256(CONTENTS).hexdigest()
ARGUMENTS = ["-O3", "-std=c++17", "-fno-math-errno", "-Wno-psabi", "-Wno-ignored-attributes"]
# macOS's compiler has no OpenMP; there the kernels run on one thread.
OPENMP = [] if sys.platform == "darwin" else ["-fopenmp"]

# One library for each kind of processor; tadam.native loads the best that this one can run.
KINDS: dict[str, list[str]] = {"": []}
if platform.machine().lower() in ("x86_64", "amd64"):
    KINDS["_avx2"] = ["-mavx2", "-mfma"]
    KINDS["_avx512"] = ["-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx2", "-mfma"]

setup(
    ext_modules=[
        Extension(
            f"tadam.native._kernels{kind}",
            sources=[file for file in FILES if file.endswith(".cpp")],
            depends=FILES,
            define_macros=[("TADAM_SOURCES", f'"{DIGEST}"')],
            extra_compile_args=ARGUMENTS + OPENMP + instructions,
            extra_link_args=OPENMP,
            optional=True,
        )
        for kind, instructions in KINDS.items()
    ]
)
