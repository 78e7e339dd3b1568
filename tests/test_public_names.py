"""What `import tadam` offers."""

import subprocess
import sys

import pytest

import tadam


def test_dir_shows_the_public_names_and_nothing_else() -> None:
    assert dir(tadam) == sorted(tadam.__all__)
    assert {"FewShotClassifier", "Backbone", "Method", "load_model", "export"} <= set(dir(tadam))
    assert "importlib" not in dir(tadam)


def test_every_public_name_can_be_imported() -> None:
    for name in sorted(tadam.__all__):
        found = getattr(tadam, name)
        assert name == "__version__" or found.__name__ == name


def test_a_name_that_is_not_there_is_the_usual_error() -> None:
    with pytest.raises(AttributeError, match="module 'tadam' has no attribute 'no_such_name'"):
        _ = tadam.no_such_name


def test_importing_the_package_does_not_load_torch() -> None:
    check = "import sys, tadam; dir(tadam); assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
