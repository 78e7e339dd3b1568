"""A process's place among others is what torchrun says, and nothing else."""

import pytest

from tadam.distributed.torchrun import Place, place

VARIABLES = {
    "RANK": "5",
    "WORLD_SIZE": "8",
    "LOCAL_RANK": "1",
    "TORCHELASTIC_RESTART_COUNT": "0",
    "TORCHELASTIC_RUN_ID": "none",
}


@pytest.mark.parametrize(("restarts", "restarted"), [("0", False), ("1", True), ("3", True)])
def test_torchrun_tells_a_process_its_place(monkeypatch, restarts, restarted):
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", restarts)
    assert place() == Place(rank=5, size=8, local_rank=1, restarted=restarted)


def test_variables_that_a_cluster_left_lying_about_are_not_torchruns(monkeypatch):
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("TORCHELASTIC_RUN_ID")
    assert place() == Place(rank=0, size=1, local_rank=0, restarted=False)
