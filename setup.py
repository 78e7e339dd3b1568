"""Builds the optional native core; where that fails, the package works in plain PyTorch."""

import hashlib
import sys
from pathlib import Path

from setuptools import Extension, setup

NATIVE = "src/tadam/native"
HEADERS = ("lanes", "product", "tiles", "weights", "winograd")
SOURCES = ("affine", "convolution", "norm")
FILES = [*(f"{NATIVE}/{name}.cpp" for name in SOURCES), *(f"{NATIVE}/{name}.h" for name in HEADERS)]
# The package compares this with the files beside it: kernels of other sources are not called.
CONTENTS = b"".join(Path(file).read_bytes() for file in sorted(FILES))
DIGEST = hashlib.sha256(CONTENTS).hexdigest()
ARGUMENTS = ["-O3", "-std=c++17", "-fno-math-errno", "-Wno-psabi", "-Wno-ignored-attributes"]
# macOS's compiler has no OpenMP; there the kernels run on one thread.
OPENMP = [] if sys.platform == "darwin" else ["-fopenmp"]

setup(
    ext_modules=[
        Extension(
            "tadam.native._kernels",
            sources=[file for file in FILES if file.endswith(".cpp")],
            depends=FILES,
            define_macros=[("TADAM_SOURCES", f'"{DIGEST}"')],
            extra_compile_args=ARGUMENTS + OPENMP,
            extra_link_args=OPENMP,
            optional=True,
        )
    ]
)
