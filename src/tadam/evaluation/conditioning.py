"""What task conditioning does, in a sentence: whether a task's own vectors beat another task's."""

from collections.abc import Mapping

#: A control of an evaluation: accuracy and difference to the method, each with its interval.
Control = Mapping[str, float | None]

#: Control -> what it is, in the words of tables and reports.
CONTROL_NAMES = {
    "other": "with another task's vectors",
    "mean": "with the mean vectors of training tasks",
    "unconditioned": "with conditioning off",
}


def conditioning_notes(controls: Mapping[str, Control]) -> tuple[str, ...]:
    """A sentence on own against other, if both were measured on two tasks or more."""
    other = controls.get("other")
    if other is None or other["difference"] is None or other["difference_ci95"] is None:
        return ()
    points, half = 100 * other["difference"], 100 * other["difference_ci95"]
    measured = f"{points:+.2f} ± {half:.2f} points"
    if points > half:
        return (f"The conditioning depends on the task: own minus other is {measured}.",)
    if points < -half:
        return (
            f"A task's own vectors do worse than another task's ({measured}): "
            "the conditioning does not generalise to these tasks.",
        )
    return (
        f"A task's own vectors are no better than another task's ({measured}): "
        "no dependence on the task is seen at this precision.",
    )
