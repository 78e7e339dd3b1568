"""A process's rank comes from torchrun and nothing else."""

import pytest

from tadam.system.torchrun import Place, place

VARIABLES = {
    "RANK": "5",
    "WORLD_SIZE": "8",
    "LOCAL_RANK": "1",
    "TORCHELASTIC_RUN_ID": "none",
}


def test_a_process_reads_its_place_from_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    assert place() == Place(rank=5, size=8, local_rank=1, launched=True)


def test_leftover_cluster_variables_are_ignored_without_torchrun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("TORCHELASTIC_RUN_ID")
    assert place() == Place(rank=0, size=1, local_rank=0, launched=False)
