"""A short part of `make attack`: a few hundred damaged files for every reader."""

import json
from pathlib import Path

import campaign
import numpy as np
import pytest
from mutation import mutated
from readers import READERS, verdict

#: The model imagenet takes its time; the rest of its path is the other images'.
FEW = {"images, by the model imagenet": 40, "images": 600, "hostile fields": 75}


@pytest.mark.parametrize("name", [*(reader.name for reader in READERS), "hostile fields"])
def test_damaged_files_are_read_or_refused(name: str) -> None:
    outcome = campaign.run_apart(name, 0, 30, FEW.get(name, 250), 0)
    assert outcome.failures == []
    assert outcome.tried == FEW.get(name, 250)
    assert outcome.refused > 0 or name == "log.jsonl"  # a log skips what it cannot read


def test_a_good_file_is_read_by_every_reader(tmp_path: Path) -> None:
    for reader in READERS:
        if "imagenet" in reader.name:
            continue
        for name, content in reader.seeds().items():
            (tmp_path / name).write_bytes(content)
            assert verdict(reader.read, tmp_path / name) == "read", name


def test_the_same_seed_makes_the_same_damage() -> None:
    content = bytes(range(256))
    one, other = (mutated(content, np.random.default_rng([3, 1])) for _ in range(2))
    assert one == other != content


def test_a_crash_is_a_line_of_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "crash.py"
    line = json.dumps({"attack": "x", "tried": 7, "refused": 3, "failures": [], "seconds": 1})
    script.write_text(f"import os\nprint('{line}', flush=True)\nos.abort()\n")
    monkeypatch.setattr(campaign, "HERE", script)
    outcome = campaign.run_apart("x", 0, 1, 1, 0)
    assert outcome.failures[0].startswith("exit -6 after try 7")
    assert "exit -6" in campaign.table([outcome])
