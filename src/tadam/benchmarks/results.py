"""The results of a `tadam bench` run, and their JSON form."""

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tadam.errors import UserError

_FORMAT = "tadam bench 1"

#: Units of a measurement: speed ratio, fraction of one, gigabytes of 1e9 bytes, seconds.
TIMES, SHARE, GIGABYTES, SECONDS = "x", "share", "GB", "s"


@dataclass(frozen=True)
class Measurement:
    """One number to compare between runs and, if it is a ratio, between machines.

    Attributes:
        part: Part of the benchmark it belongs to.
        name: What was measured.
        setting: Setting it was measured at, such as `width 16`.
        value: None if it could not be measured; `note` says why.
        unit: x, share, GB or s.
        lower_is_better: True for shares of time, for memory and for waiting times.
        note: Anything a reader must know.
        raw: Numbers the value was computed from: seconds, rates.
    """

    part: str
    name: str
    setting: str
    value: float | None
    unit: str
    lower_is_better: bool = False
    note: str = ""
    raw: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The value, formatted for people."""
        if self.value is None:
            return "-"
        if self.unit == SHARE:
            return f"{100 * self.value:.{0 if self.value >= 0.1 else 1}f}%"
        number = f"{self.value:.1f}" if self.value >= 10 else f"{self.value:.2f}"
        return number + (TIMES if self.unit == TIMES else f" {self.unit}")


@dataclass(frozen=True)
class Report:
    """One run.

    Attributes:
        machine: The machine it ran on, with its measured `gemm_gflops`.
        plan: Settings of the run.
        measurements: Measurements in display order.
        seconds: How long the run took.
    """

    machine: dict[str, Any]
    plan: dict[str, Any]
    measurements: tuple[Measurement, ...]
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Plain types, ready for `json.dumps`."""
        return {"format": _FORMAT, **asdict(self)}

    def find(self, name: str, setting: str) -> Measurement | None:
        """The measurement with that name and setting, if there is one."""
        chosen = [m for m in self.measurements if (m.name, m.setting) == (name, setting)]
        return chosen[0] if chosen else None


def read_report(path: Path) -> Report:
    """Reads the file that `tadam bench --json` wrote."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} does not exist: give the file of an earlier run") from None
    except (OSError, ValueError):  # not JSON, or not even text
        raise UserError(f"{path} is not JSON: give a file that 'tadam bench' wrote") from None
    try:
        if raw.pop("format") != _FORMAT:
            raise ValueError
        measurements = tuple(_checked(Measurement(**m)) for m in raw.pop("measurements"))
        report = Report(measurements=measurements, **raw)
        if not isinstance(report.machine, dict) or not isinstance(report.plan, dict):
            raise TypeError
    except (AttributeError, KeyError, TypeError, ValueError):
        raise UserError(
            f"{path} was not written by this version of 'tadam bench': run it again to compare"
        ) from None
    return report


def _checked(m: Measurement) -> Measurement:
    if not all(isinstance(text, str) for text in (m.part, m.name, m.setting, m.unit, m.note)):
        raise TypeError
    if m.value is not None and not (math.isfinite(m.value) and m.value >= 0):
        raise ValueError
    return m
