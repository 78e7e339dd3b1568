"""docs/notebooks: each runs from top to bottom in an empty folder, and no outputs are committed."""

import json
import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs" / "notebooks").glob("*.ipynb"))


def outputs(notebook: Any) -> list[Any]:
    return [out for cell in notebook.cells for out in cell.get("outputs", [])]


def test_there_are_three_without_outputs() -> None:
    assert len(NOTEBOOKS) == 3
    for path in NOTEBOOKS:
        notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
        nbformat.validate(notebook)
        assert outputs(notebook) == []
        assert all(cell.get("execution_count") is None for cell in notebook.cells)
        assert set(notebook.metadata) == {"kernelspec", "language_info"}
        code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
        assert max(len(line) for cell in code for line in cell.splitlines()) <= 120
        assert notebook.cells[0].source.startswith("# ")
        assert str(Path.home()) not in json.dumps(notebook)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_draws(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # two would wait for each other and for other tests
    source = Path(__file__).parents[2] / "src"
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(source), os.environ.get("PYTHONPATH", "")])
    )
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    work = tmp_path / "work"
    work.mkdir()
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(work)}}).execute()
    pictures = [out for out in outputs(notebook) if "image/png" in out.get("data", {})]
    warned = [out["text"] for out in outputs(notebook) if out.get("name") == "stderr"]
    assert len(pictures) >= 2
    assert warned == []
    if folder := os.environ.get("TADAM_KEEP_NOTEBOOKS"):  # to look at them
        nbformat.write(notebook, Path(folder) / path.name)  # type: ignore[no-untyped-call]
