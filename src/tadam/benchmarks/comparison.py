"""Two runs side by side: what became slower, what faster."""

from dataclasses import dataclass

from tadam.benchmarks.results import Measurement, Report

#: Timings of one program differ by less than this between quiet runs.
NOISE = 1.10
#: What must be the same for two runs to be compared without a warning.
_MACHINE = ("cpu", "cores", "threads", "core", "torch")


@dataclass(frozen=True)
class Change:
    """One measurement in both runs.

    Attributes:
        ratio: new / old; None if one of them is missing or zero.
        verdict: worse, better, or empty within 10%.
    """

    old: Measurement | None
    new: Measurement | None
    ratio: float | None
    verdict: str

    @property
    def measurement(self) -> Measurement:
        """Whichever is there."""
        either = self.new or self.old
        assert either is not None
        return either


def _change(old: Measurement | None, new: Measurement | None) -> Change:
    if not (old and new and old.value and new.value):
        return Change(old, new, None, "")
    ratio = new.value / old.value
    gain = 1 / ratio if new.lower_is_better else ratio
    verdict = "worse" if gain < 1 / NOISE else "better" if gain > NOISE else ""
    return Change(old, new, ratio, verdict)


def compare(old: Report, new: Report) -> list[Change]:
    """Every measurement of both runs: in the new one's order, then what only the old one has."""
    changes = [_change(old.find(m.name, m.setting), m) for m in new.measurements]
    return changes + [
        _change(m, None) for m in old.measurements if new.find(m.name, m.setting) is None
    ]


def differences(old: Report, new: Report) -> list[str]:
    """Why the two runs may not be comparable, as `cpu: old, now new`."""
    pairs = [(key, old.machine.get(key), new.machine.get(key)) for key in _MACHINE]
    pairs += [(key, old.plan.get(key), new.plan.get(key)) for key in ("tasks", "conditioned_tasks")]
    return [f"{key}: {was}, now {now}" for key, was, now in pairs if was != now]
