"""The demo's report: one HTML page to show a colleague."""

from collections.abc import Iterable
from html import escape
from pathlib import Path

import torch

from tadam.data.episodes import EpisodeSampler
from tadam.evaluation.answers import images_at
from tadam.evaluation.tasks import Evaluation
from tadam.methods.base import Method
from tadam.methods.tadam import Tadam
from tadam.reports import plots
from tadam.reports.demo_row import Row, vectors_section
from tadam.reports.figure import svg_text
from tadam.reports.html import accuracy_table, page, picture, section
from tadam.reports.terminal import percent, points
from tadam.reports.two_tasks import two_tasks
from tadam.system.files import write_text
from tadam.training.log import read_log

_EXAMPLE_QUERIES, _CANDIDATES = 20, 20
#: Names of models beside their curves.
_SHORT_NAMES = {
    "Prototypical Network, no scaling": "no scaling",
    "Prototypical Network, scaled": "scaled",
    "TADAM, the paper's mean": "paper's mean",
    "TADAM with moments": "moments",
}
#: What changes from row to row: more than one thing in the last two.
_DIFFERENCES = (
    "Raw pixels train nothing. The first Prototypical Network has alpha fixed at 1; the scaled one "
    "learns it from 5. “TADAM, the paper's mean” adds two things at once, conditioning of every "
    "layer on the mean of the prototypes, and co-training. “TADAM with moments” has no co-training "
    "and conditions the last layer alone, on standardised moments, with a base and with dropout "
    "before TEN."
)


def write_report(
    path: Path,
    rows: list[Row],
    runs: dict[str, Path],
    model: Method,
    result: Evaluation,
    samplers: tuple[EpisodeSampler, EpisodeSampler],
) -> None:
    """Writes the page.

    Args:
        path: The page's file.
        rows: The table.
        runs: Run folder of each trained model, by name.
        model: The trained TADAM.
        result: Its evaluation on uniform tasks.
        samplers: The test tasks: uniform, and within families.
    """
    final, sampler = rows[-1], samplers[0]
    intro = (
        '<p class="soft">This network learnt from drawings of other classes. Here it meets '
        f"{len(result.class_names)} classes it has never seen. Given {result.shot} pictures each "
        f"of {result.way} of them, it names new pictures correctly "
        f"<b>{percent(final.accuracy, final.ci95)}</b> of the time, after {final.training} of "
        "training on this machine.</p>"
    )
    sections = [
        _comparison(rows, result),
        _family_comparison(rows, samplers[1]),
        vectors_section(rows),
        *([_two_tasks(model, samplers[1])] if isinstance(model, Tadam) and model.ten else []),
        _one_task(model, sampler, result.accuracy),
        _learning(runs),
        _conditioning(list(runs.values())[-2]),
        section(
            "What it confuses",
            _confusion(result),
            "For each test class, how many of 100 queries got each answer.",
        ),
        section("What to try next", _next_steps(list(runs.values())[-1])),
    ]
    write_text(path, page("TADAM on shapes", intro, sections))


def _comparison(rows: list[Row], result: Evaluation) -> str:
    return section(
        "The rows, side by side",
        accuracy_table(
            [(r.name, r.accuracy, r.ci95, f"training: {r.training}") for r in rows],
            best=max(rows, key=lambda row: row.accuracy).name,
        ),
        f"{result.way}-way {result.shot}-shot on unseen classes: mean accuracy over "
        f"{result.tasks} tasks of {result.queries} queries drawn from all classes, with 95% "
        f"interval. {_DIFFERENCES}",
    )


def _family_comparison(rows: list[Row], sampler: EpisodeSampler) -> str:
    said = []
    for row in rows:
        other = "" if row.other is None else f"own minus other: {points(*row.other)}"
        said.append((row.name, row.family, row.family_ci95, other))
    return section(
        "When all classes of a task are of one kind",
        accuracy_table(said, best=max(rows, key=lambda row: row.family).name),
        f"{sampler.way}-way {sampler.shot}-shot tasks within a family: all classes leave the same "
        "attribute free, so a feature that helps in one task misleads in another. "
        "Own minus other is the accuracy with a task's own FiLM vectors minus that with another "
        "task's, in points, paired over tasks: at zero, no dependence on the task is seen. "
        + " ".join(sampler.notes()),
    )


def _two_tasks(model: Tadam, sampler: EpisodeSampler) -> str:
    return section(
        "The same images under two tasks",
        two_tasks(model, sampler),
        "The queries of one task as the network sees them: left with the vectors that TEN makes of "
        "this task, right with those it makes of a task of another family. The plane shows most of "
        "their variance; the ring marks the picture.",
    )


def _one_task(model: Method, sampler: EpisodeSampler, accuracy: float) -> str:
    return section(
        "One task, as the network sees it",
        _example(model, sampler, accuracy),
        "Five labelled pictures of each of five new classes, then new pictures with the "
        "network's answer and its probability. Green is right, orange is wrong. Of "
        f"{_CANDIDATES} tasks, this is the one whose accuracy is closest to the mean.",
    )


def _learning(runs: dict[str, Path]) -> str:
    paper = list(runs.values())[-2]
    return section(
        "How it learnt",
        f'<div class="columns"><div>{_validation_curves(runs)}</div>'
        f"<div>{_loss_curves(paper)}</div></div>",
        "Left: accuracy on the validation classes, which decides which weights are kept. "
        "Right: the two losses of “TADAM, the paper's mean”; the auxiliary one comes from "
        "classifying all training classes at once, which happens less and less often.",
    )


def _conditioning(paper: Path) -> str:
    return section(
        "How strongly each layer is modulated",
        _multipliers(paper),
        "|gamma0| and |beta0| of “TADAM, the paper's mean”, which conditions every layer: how "
        "strongly the task embedding network scales and shifts each convolution. Both start at "
        "zero and are pulled back towards it. A tall bar shows that a layer is modulated, not that "
        "this helps: that is what own minus other shows. In the paper, |gamma0| grows with depth, "
        "with peaks at layers 3, 6, 9 and 12; |beta0| is large only in layer 12.",
    )


def _short(names: Iterable[str]) -> list[str]:
    """`striped star (any colour)` -> `striped star`, which is already unique among shapes."""
    return [name.partition(" (")[0] for name in names]


@torch.inference_mode()
def _example(model: Method, sampler: EpisodeSampler, accuracy: float) -> str:
    """A typical task, with equally many queries per class."""
    store = sampler.store
    balanced = EpisodeSampler(
        store, sampler.way, sampler.shot, _EXAMPLE_QUERIES, sampler.seed, balanced=True
    )
    answered = []
    for number in range(_CANDIDATES):
        task = balanced.task(number)
        logits = model(
            images_at(store, task.support[0])[None],
            torch.from_numpy(task.support_labels),
            images_at(store, task.query[0])[None],
            sampler.way,
        )
        probabilities = logits.softmax(dim=2)[0]  # (Q, K)
        right = probabilities.argmax(dim=1).numpy() == task.query_labels[0]
        answered.append((abs(float(right.mean()) - accuracy), number, task, probabilities))
    _, _, example, probabilities = min(answered, key=lambda item: item[:2])
    names = [store.class_names[k] for k in example.classes[0]]
    short = _short(names)
    support = []
    for k, name in enumerate(names):
        images = "".join(
            picture(store.images[row], 56, name)
            for row, label in zip(example.support[0], example.support_labels[0], strict=True)
            if label == k
        )
        support.append(
            f'<tr><td>{escape(name)}</td><td><div class="pictures">{images}</div></td></tr>'
        )
    queries = []
    for row, label, p in zip(example.query[0], example.query_labels[0], probabilities, strict=True):
        answer = int(p.argmax())
        verdict = "right" if answer == label else "wrong"
        truth = "" if answer == label else f"<br>actually {escape(short[label])}"
        queries.append(
            f'<figure class="{verdict}" style="width:80px">'
            f"{picture(store.images[row], 80, names[label])}<figcaption>{escape(short[answer])} "
            f"{100 * float(p[answer]):.0f}%{truth}</figcaption></figure>"
        )
    return (
        f"<table>{''.join(support)}</table><br>"
        f'<div class="pictures" style="gap:16px 12px">{"".join(queries)}</div>'
    )


def _validation_curves(runs: dict[str, Path]) -> str:
    series = {}
    for name, folder in runs.items():
        points = [
            (r["step"], 100 * r["val_accuracy"]) for r in read_log(folder) if "val_accuracy" in r
        ]
        series[_SHORT_NAMES.get(name, name)] = ([p[0] for p in points], [p[1] for p in points])
    return svg_text(plots.line_chart(series, "training step", "validation accuracy, %", width=470))


def _loss_curves(folder: Path) -> str:
    records = [r for r in read_log(folder) if "loss" in r]
    series = {"few-shot": ([r["step"] for r in records], [r["loss"] for r in records])}
    auxiliary = [r for r in records if "auxiliary_loss" in r]
    if auxiliary:
        series["auxiliary"] = (
            [r["step"] for r in auxiliary],
            [r["auxiliary_loss"] for r in auxiliary],
        )
    return svg_text(plots.line_chart(series, "training step", "loss", width=470))


def _multipliers(folder: Path) -> str:
    *_, learnt = (record for record in read_log(folder) if "gamma0" in record)
    sizes = {kind: [abs(v) for v in learnt[kind].values()] for kind in ("gamma0", "beta0")}
    return svg_text(
        plots.bar_chart(
            list(learnt["gamma0"]),
            {f"|{kind}|": values for kind, values in sizes.items()},
            "layer",
            "absolute value",
        )
    )


def _confusion(result: Evaluation) -> str:
    shares = [[100 * n / max(sum(row), 1) for n in row] for row in result.confusion]
    names = _short(result.class_names)
    return svg_text(
        plots.heatmap(
            shares, names, names, xlabel="answer", ylabel="true class", cell_format=".0f", width=900
        )
    )


def _next_steps(run: Path) -> str:
    commands = {
        "Fewer pictures: one per class, ten classes at once": (
            f"tadam evaluate {run} --dataset shapes --shot 1 --way 10"
        ),
        "Train on your own pictures, one folder per class": (
            "tadam train images --dataset folder:PATH"
        ),
        "Change one part and compare": ("tadam train shapes --set conditioning.layers=all"),
        "See the paper's Lemma 1 in numbers": "tadam reproduce lemma1",
    }
    return "".join(f"<p>{escape(k)}</p><pre>{escape(v)}</pre>" for k, v in commands.items())
