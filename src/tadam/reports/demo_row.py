"""A row of the demo: accuracy on both kinds of task, and what its conditioning does there."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from tadam.evaluation.conditioning import conditioning_notes
from tadam.reports.html import section
from tadam.reports.terminal import percent

#: Kind of task -> its name in tables.
_KINDS = {"uniform": "all classes", "family": "classes within a family"}
_VECTORS = ("other", "mean", "unconditioned")
VECTOR_COLUMNS = ("model", "tasks", "own vectors", "another task's", "the mean", "none")


@dataclass(frozen=True)
class Row:
    """A row of the demo's table: accuracy on uniform tasks and on tasks within a family.

    Attributes:
        seconds: Training time.
        controls: Controls by kind of task (uniform, family) and name; see `Evaluation`.
    """

    name: str
    accuracy: float
    ci95: float | None
    family: float
    family_ci95: float | None
    seconds: float
    controls: dict[str, dict[str, dict[str, float | None]]] = field(default_factory=dict)

    @property
    def training(self) -> str:
        """Training time as text."""
        return f"{self.seconds:.0f} s" if self.seconds else "none"

    @property
    def other(self) -> tuple[float, float | None] | None:
        """Own minus another task's vectors on family tasks, and its interval; None without TEN."""
        control = self.controls.get("family", {}).get("other")
        if control is None or control["difference"] is None:
            return None
        return control["difference"], control["difference_ci95"]

    @property
    def vectors(self) -> list[list[str]]:
        """Lines under `VECTOR_COLUMNS`, one for each kind of task; none without TEN."""
        own = {"uniform": (self.accuracy, self.ci95), "family": (self.family, self.family_ci95)}
        return [
            [self.name, name, percent(*own[kind]), *map(_accuracy, map(found.get, _VECTORS))]
            for kind, name in _KINDS.items()
            if (found := self.controls.get(kind))
        ]

    @property
    def sentences(self) -> list[str]:
        """Whether own vectors beat another task's, a sentence for each kind of task."""
        return [
            f"{self.name}, tasks of {name}: {note}"
            for kind, name in _KINDS.items()
            for note in conditioning_notes(self.controls.get(kind, {}))
        ]


def _accuracy(control: dict[str, float | None] | None) -> str:
    if control is None or control["accuracy"] is None:
        return "–"
    return percent(control["accuracy"], control["ci95"])


def vectors_section(rows: Sequence[Row]) -> str:
    """A card with every conditioned row under its own and under other vectors."""
    lines = ["".join(f"<th>{name}</th>" for name in VECTOR_COLUMNS)]
    for row in rows:
        for model, kind, *accuracies in row.vectors:
            cells = "".join(f'<td class="number">{text}</td>' for text in accuracies)
            lines.append(f"<td>{escape(model)}</td><td>{kind}</td>{cells}")
    said = "".join(f"<li>{escape(text)}</li>" for row in rows for text in row.sentences)
    return section(
        "What conditioning does",
        f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table><ul>{said}</ul>",
        "The same tasks with the FiLM vectors that TEN makes of the task, with those of another "
        "task, with the mean vectors of training tasks, and with none. Conditioning that depends "
        "on the task does best with the task's own.",
    )
