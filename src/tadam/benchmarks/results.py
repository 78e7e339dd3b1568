"""What a run of `tadam bench` found, and its JSON."""

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tadam.errors import UserError

_FORMAT = "tadam bench 1"

#: Units of a measurement: times as fast, a fraction of one, gigabytes of 1e9 bytes, seconds.
TIMES, SHARE, GIGABYTES, SECONDS = "x", "share", "GB", "s"


@dataclass(frozen=True)
class Measurement:
    """One number that may be compared between runs and, if it is a ratio, between machines.

    Attributes:
        part: Part of the benchmark that it belongs to.
        name: What was measured.
        setting: Where, such as `width 16`.
        value: None if it could not be measured; `note` says why.
        unit: x, share, GB or s.
        lower_is_better: For shares of time, for memory and for what is waited for.
        note: What a reader must know.
        raw: What the value was computed from: seconds, rates.
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
        """The value as people write it."""
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
        machine: What the numbers depend on; `gemm_gflops` is measured.
        plan: Settings of the run.
        measurements: In the order in which they are shown.
        seconds: How long it took.
    """

    machine: dict[str, Any]
    plan: dict[str, Any]
    measurements: tuple[Measurement, ...]
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Plain types, ready for `json.dumps`."""
        return {"format": _FORMAT, **asdict(self)}

    def find(self, name: str, setting: str) -> Measurement | None:
        """The measurement of that name and setting, if it was made."""
        chosen = [m for m in self.measurements if (m.name, m.setting) == (name, setting)]
        return chosen[0] if chosen else None


def read_report(path: Path) -> Report:
    """Reads what `tadam bench --json` wrote."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"no file {path} to compare with") from None
    except (OSError, ValueError):  # no JSON, or no text at all
        raise UserError(f"{path} is no JSON: give a file that 'tadam bench' wrote") from None
    try:
        if raw.pop("format") != _FORMAT:
            raise ValueError
        measurements = tuple(_checked(Measurement(**m)) for m in raw.pop("measurements"))
        report = Report(measurements=measurements, **raw)
        if not isinstance(report.machine, dict) or not isinstance(report.plan, dict):
            raise TypeError
    except (AttributeError, KeyError, TypeError, ValueError):
        raise UserError(
            f"{path} is no result of this version's 'tadam bench': make a new one to compare"
        ) from None
    return report


def _checked(m: Measurement) -> Measurement:
    if not all(isinstance(text, str) for text in (m.part, m.name, m.setting, m.unit, m.note)):
        raise TypeError
    if m.value is not None and not (math.isfinite(m.value) and m.value >= 0):
        raise ValueError
    return m
