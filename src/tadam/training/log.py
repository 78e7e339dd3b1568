"""The run's log: one JSON object per line, and TensorBoard if asked for."""

import json
import os
from pathlib import Path
from typing import Any

from tadam.errors import UserError
from tadam.system.files import not_written, write_text
from tadam.system.untrusted_json import BadJson, fields, parse_json, whole
from tadam.training.reporter import scalars

LOG = "log.jsonl"


class RunLog:
    """Appends records to `log.jsonl`.

    On resume, records beyond the checkpoint's step are dropped, because those steps run again.
    """

    def __init__(self, folder: Path, step: int, tensorboard: bool = False) -> None:
        self._path = folder / LOG
        kept = []
        if self._path.exists():
            kept = [r for r in read_log(folder) if r["step"] <= step]
        write_text(self._path, "".join(json.dumps(r) + "\n" for r in kept))
        self._file = open(self._path, "a", encoding="utf-8")  # noqa: SIM115
        self._board = None
        if tensorboard:
            self._board = require_tensorboard()(str(folder / "tensorboard"), purge_step=step + 1)

    def write(self, record: dict[str, Any]) -> None:
        """Adds a record; it must have a `step`."""
        try:
            self._file.write(json.dumps(record) + "\n")
            self._file.flush()
        except OSError as error:
            raise not_written(self._path, error) from None
        if self._board is not None:
            for name, value in scalars(record).items():
                self._board.add_scalar(name, value, record["step"])

    def sync(self) -> None:
        """Waits until the records so far would survive a power cut."""
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise not_written(self._path, error) from None

    def close(self) -> None:
        self.sync()
        self._file.close()
        if self._board is not None:
            self._board.close()


def read_log(folder: Path) -> list[dict[str, Any]]:
    """All complete records of a run's log; damaged lines, or one that a crash cut, are skipped."""
    records = []
    for line in (folder / LOG).read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            record = parse_json(line)
            fields(record, {"step": whole()})
        except BadJson:
            continue
        records.append(record)
    return records


def require_tensorboard() -> Any:
    """TensorBoard's writer class."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise UserError(
            "run.tensorboard needs TensorBoard: pip install 'tadam-fewshot[tensorboard]'"
        ) from None
    return SummaryWriter
