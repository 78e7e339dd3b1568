"""The native core: C++ kernels, used where they were built and `TADAM_NATIVE` is not 0.

They are compiled when the package is installed, if there is a compiler. `tadam.nn.fast` decides
when to call them; the rest of the package only asks which core there is. See README.md here.
"""

from pathlib import Path

from tadam.native import library


def available() -> bool:
    """Whether the kernels were built and are switched on."""
    return library.loaded() is not None


def core() -> str:
    """What computes here: `native AVX512`, `native AVX2`, `native` or `plain PyTorch`."""
    loaded = library.loaded()
    if loaded is None:
        return "plain PyTorch"
    kind = Path(loaded._name).name.split(".")[0].removeprefix("_kernels")
    return "native" + kind.upper().replace("_", " ")
