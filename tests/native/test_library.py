"""A library is used only if it fits the package, and called only with what it takes."""

import ctypes
import re
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tadam import native
from tadam.native import library, signatures

pytestmark = pytest.mark.skipif(not native.available(), reason="the native core was not built")

MOMENTS = {"rows": 4, "channels": 2, "threads": 1}


@pytest.fixture
def loading_again() -> Iterator[None]:
    """Forgets which library was loaded, before and after."""
    library.loaded.cache_clear()
    yield
    library.loaded.cache_clear()


def the_library() -> ctypes.CDLL:
    loaded = library.loaded()
    assert loaded is not None
    return loaded


def altered(kernel: str, arguments: str) -> dict[str, signatures.Signature]:
    """All signatures, but this kernel's as if Python expected other arguments."""
    changed = signatures.Signature(kernel, arguments)
    return {**signatures.SIGNATURES, kernel: changed}


def test_the_library_describes_every_kernel_as_python_does() -> None:
    text = library._text(the_library(), "tadam_signatures")
    assert text == signatures.table()
    assert [line.split()[0] for line in text.splitlines()] == list(signatures.KERNELS)
    assert "combine 80 in:gradient in:x in:a in:b in:d out:out int:tasks" in text


@pytest.mark.parametrize(
    ("kernel", "change"),
    [
        ("conv", lambda text: text.replace(" int:pool", "")),  # dropped
        ("norm", lambda text: text + " int:more"),
        ("affine", lambda text: text.replace("real:epsilon", "int:epsilon")),  # another kind
        ("combine", lambda text: text.replace("in:a in:b", "in:b in:a")),  # another order
        ("conv", lambda text: text.replace("out?:mean", "out:mean")),
    ],
)
@pytest.mark.usefixtures("loading_again")
def test_a_library_with_other_arguments_is_refused(
    kernel: str, change: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signatures.KERNELS[kernel]
    assert change(before) != before
    text = signatures.table(altered(kernel, change(before)))
    monkeypatch.setattr(library, "table", lambda: text)
    with pytest.warns(library.NativeCoreMissing, match="has kernels with other arguments"):
        assert not native.available()
    assert native.core() == "plain PyTorch"


@pytest.mark.usefixtures("loading_again")
def test_a_library_that_fits_is_loaded_without_a_word() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert native.available()


@pytest.mark.usefixtures("loading_again")
def test_a_missing_core_is_said_once_and_not_at_all_where_it_was_switched_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "_FOLDER", tmp_path)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert [native.available(), native.core(), native.available()] == [
            False,
            "plain PyTorch",
            False,
        ]
    (note,) = said
    assert str(note.message).startswith("the native core was not built when tadam was installed")
    library.loaded.cache_clear()
    (tmp_path / "_kernels.so").write_bytes(b"not a library")
    with pytest.warns(library.NativeCoreMissing, match=r"cannot be loaded \(.*_kernels.so"):
        assert not native.available()
    second = {"TORCHELASTIC_RUN_ID": "x", "RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}
    for environment in ({"TADAM_NATIVE": "0"}, second):
        with monkeypatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("error")
            for name, value in environment.items():
                patch.setenv(name, value)
            library.loaded.cache_clear()
            assert not native.available()


def test_a_library_of_other_sources_is_not_used(tmp_path: Path) -> None:
    for file in Path(native.__file__).parent.iterdir():
        if file.suffix in (".cpp", ".h"):
            shutil.copy(file, tmp_path)
    loaded = the_library()
    assert library.mismatch(loaded, tmp_path) is None
    (tmp_path / "lanes.h").write_text("// changed\n")
    assert library.mismatch(loaded, tmp_path) == "was built from other sources"
    (tmp_path / "wheel").mkdir()  # which has no sources
    assert library.mismatch(loaded, tmp_path / "wheel") is None


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"threads": None}, "threads must be of kind int, got None"),
        ({"rows": 4.0}, "rows must be of kind int, got 4.0"),
        ({"rows": True}, "rows must be of kind int, got True"),
        ({"x": 140_000_000}, "x must be of kind in, got 140000000"),  # no addresses
        ({"x": None}, "x must be of kind in, got None"),
        ({"x": torch.zeros(4, 2, dtype=torch.float64)}, "x must be of kind in, got a torch.float"),
        ({"mean": torch.zeros(2, device="meta")}, "mean must be of kind out"),
        ({"more": 1}, "missing or unknown arguments: more"),
    ],
)
def test_wrong_arguments_are_an_error_before_c_is_called(
    change: dict[str, Any], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "_kernel", lambda name: pytest.fail("C was called"))
    tensors: dict[str, Any] = {
        "x": torch.zeros(4, 2),
        "mean": torch.zeros(2),
        "variance": torch.zeros(2),
    }
    with pytest.raises(TypeError, match=f"moments: {problem}"):
        library.call("moments", **{**tensors, **MOMENTS, **change})


def test_a_missing_argument_is_an_error_before_c_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "_kernel", lambda name: pytest.fail("C was called"))
    with pytest.raises(TypeError, match="missing or unknown arguments: mean, variance"):
        library.call("moments", x=torch.zeros(4, 2), **MOMENTS)


def test_only_the_fast_paths_import_kernels() -> None:
    """All others may ask which core there is, and no more."""
    package = Path(native.__file__).parents[1]
    kernels = re.compile(
        r"^\s*(from tadam\.native(\.\w+)? import|import tadam\.native)", re.MULTILINE
    )
    importing = {
        str(file.relative_to(package).parent)
        for file in package.rglob("*.py")
        if kernels.search(file.read_text())
    }
    assert importing == {"native", "nn/fast"}


def test_right_arguments_reach_c() -> None:
    x = torch.tensor([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0], [6.0, 60.0]])
    mean, variance = torch.zeros(2), torch.zeros(2)
    assert library.call("moments", x=x, mean=mean, variance=variance, **MOMENTS) == 0
    assert mean.tolist() == [3.0, 30.0]
    assert variance.tolist() == [3.5, 350.0]
