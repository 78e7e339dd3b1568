"""Loads the kernels of an installed wheel, without PyTorch: cibuildwheel runs it on each wheel."""

import ctypes
from importlib.util import find_spec
from pathlib import Path


def main() -> None:
    """Prints what was loaded; fails if the wheel has no kernels or they cannot be loaded."""
    spec = find_spec("tadam")
    assert spec is not None, "tadam is not installed"
    assert spec.origin is not None
    files = sorted(Path(spec.origin).parent.joinpath("native").glob("_kernels*"))
    assert files, f"no kernels in {spec.origin}"
    for file in files:
        describe = ctypes.CDLL(str(file)).tadam_signatures
        describe.restype = ctypes.c_char_p
        kernels = describe().decode().splitlines()
        assert kernels, file
        print(f"{file.name}: {len(kernels)} kernels")


if __name__ == "__main__":
    main()
