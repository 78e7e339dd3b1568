"""Builds the optional native core; where that fails, the package works in plain PyTorch."""

import sys

from setuptools import Extension, setup

NATIVE = "src/tadam/native"
HEADERS = ("lanes", "product", "tiles", "weights", "winograd")
ARGUMENTS = ["-O3", "-std=c++17", "-fno-math-errno", "-Wno-psabi", "-Wno-ignored-attributes"]
# macOS's compiler has no OpenMP; there the kernels run on one thread.
OPENMP = [] if sys.platform == "darwin" else ["-fopenmp"]

setup(
    ext_modules=[
        Extension(
            "tadam.native._kernels",
            sources=[f"{NATIVE}/{name}.cpp" for name in ("affine", "convolution", "norm")],
            depends=[f"{NATIVE}/{name}.h" for name in HEADERS],
            extra_compile_args=ARGUMENTS + OPENMP,
            extra_link_args=OPENMP,
            optional=True,
        )
    ]
)
