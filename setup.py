"""Builds the optional native core, and the text that PyPI shows.

Where the core cannot be built, the package works in plain PyTorch. TADAM_NATIVE=0 leaves it out on
purpose: that wheel is for every system. TADAM_HOME is the repository's address on the web, for the
links of the text; without it, the text has no links to files.
"""

import hashlib
import os
import platform
import re
import sys
from pathlib import Path

from setuptools import Extension, setup

FILES = sorted(
    str(file) for file in Path("src/tadam/native").iterdir() if file.suffix in (".cpp", ".h")
)
# The package compares this with the files beside it: kernels of other sources are not called.
CONTENTS = b"".join(Path(file).read_bytes() for file in FILES)
DIGEST = hashlib.sha256(CONTENTS).hexdigest()
ARGUMENTS = ["-O3", "-g0", "-std=c++17", "-fno-math-errno", "-Wno-psabi", "-Wno-ignored-attributes"]
# macOS's compiler has no OpenMP; there the kernels run on one thread.
OPENMP = [] if sys.platform == "darwin" else ["-fopenmp"]


def long_description(home: str) -> str:
    """README.md with its links to files made whole; without a home, their words alone."""
    text = Path("README.md").read_text(encoding="utf-8")
    version = re.search(r'__version__ = "(.*)"', Path("src/tadam/__init__.py").read_text("utf-8"))
    if not home or not version:
        text = re.sub(r"!\[[^]]*\]\((?!https?:)[^)]*\)\n*", "", text)
        return re.sub(r"\[([^]]*)\]\((?!https?:)[^)]*\)", r"\1", text)
    text = re.sub(r"(!\[[^]]*\]\()(?!https?:)", rf"\1{home}/raw/v{version[1]}/", text)
    return re.sub(r"((?<!!)\[[^]]*\]\()(?!https?:)", rf"\1{home}/blob/v{version[1]}/", text)


HOME = os.environ.get("TADAM_HOME", "").rstrip("/")
URLS = {"Paper": "https://arxiv.org/abs/1805.10123"}
if HOME:
    URLS |= {"Source": HOME, "Changelog": f"{HOME}/blob/main/CHANGELOG.md"}
    URLS |= {"Issues": f"{HOME}/issues"}

# One library for each kind of processor; tadam.native loads the best that this one can run.
KINDS: dict[str, list[str]] = {"": []}
if os.environ.get("TADAM_NATIVE") == "0":
    KINDS = {}
elif platform.machine().lower() in ("x86_64", "amd64"):
    KINDS["_avx2"] = ["-mavx2", "-mfma"]
    KINDS["_avx512"] = ["-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx2", "-mfma"]

setup(
    long_description=long_description(HOME),
    long_description_content_type="text/markdown",
    project_urls=URLS,
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
    ],
)
