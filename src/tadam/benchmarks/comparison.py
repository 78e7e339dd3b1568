"""Two runs side by side: what got slower and what got faster."""

from dataclasses import dataclass

from tadam.benchmarks.results import Measurement, Report

#: On a quiet machine, repeated timings of one program differ by less than this factor.
NOISE = 1.10
#: Fields that must match for two runs to be compared without a warning.
_MACHINE = ("cpu", "cores", "threads", "core", "torch")


@dataclass(frozen=True)
class Change:
    """One measurement in both runs.

    Attributes:
        ratio: new / old.
        verdict: "worse", "better", or empty if within 10%.
    """

    old: Measurement
    new: Measurement
    ratio: float
    verdict: str


def compare(old: Report, new: Report) -> list[Change]:
    """The measurements that both runs have, in the new run's order."""
    changes = []
    for m in new.measurements:
        was = old.find(m.name, m.setting)
        if was and was.value and m.value:
            ratio = m.value / was.value
            gain = 1 / ratio if m.lower_is_better else ratio
            verdict = "worse" if gain < 1 / NOISE else "better" if gain > NOISE else ""
            changes.append(Change(was, m, ratio, verdict))
    return changes


def differences(old: Report, new: Report) -> list[str]:
    """Why the two runs may not be comparable, as `cpu: old, now new`."""
    pairs = [(key, old.machine.get(key), new.machine.get(key)) for key in _MACHINE]
    pairs += [(key, old.plan.get(key), new.plan.get(key)) for key in ("tasks", "conditioned_tasks")]
    return [f"{key}: {was}, now {now}" for key, was, now in pairs if was != now]
