"""What can be reproduced by training: the rows of tables and figures, and both presets."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tadam.config import Config
from tadam.errors import UserError
from tadam.recipes import load_recipe
from tadam.recipes.method_recipes import METHOD_DATASETS
from tadam.recipes.paper_recipes import CONV4_WAYS, EPISODES, STEPS, conv4_name, recipe_name
from tadam.reproduce.ablations import ABLATIONS, CPU_ALPHA
from tadam.reproduce.table1 import table1_config, table1_rows

#: Experiment -> row -> its long name. Figure 4's rows are its alphas.
ROWS: dict[str, dict[str, str]] = {
    "table1": table1_rows(),
    "table2": {
        "euclidean": "Prototypical Networks (squared Euclidean)",
        "cosine": "cosine",
        "cosine-scaled": "cosine, scaled",
    },
    "table3": {
        "plain": "nothing added",
        "alpha": "alpha",
        "alpha-at": "alpha + AT",
        "alpha-tc": "alpha + TC",
        "tadam": "alpha + AT + TC (TADAM)",
    },
    "figure4": {},
    "figure4-no-ten": {},
    "omniglot": {"1shot": "5-way 1-shot", "5shot": "5-way 5-shot"},
} | {name: {row: v.name for row, v in a.rows.items()} for name, a in ABLATIONS.items()}
#: Experiment -> its name, and what it shows.
TITLES = {
    "table1": ("Table 1", "nine systems under one protocol"),
    "table2": ("Table 2", "distances and scaling, Conv-4"),
    "table3": ("Table 3", "what each idea adds, ResNet-12"),
    "figure4": ("Figure 4", "accuracy against alpha"),
    "figure4-no-ten": ("Figure 4 without TEN", "accuracy against alpha"),
    "omniglot": ("Omniglot", "Prototypical Network, Conv-4"),
} | {name: (ablation.title, ablation.shows) for name, ablation in ABLATIONS.items()}
#: Experiments whose rows are alphas.
CURVES = ("figure4", "figure4-no-ten")
DATASETS = tuple(STEPS)
PRESETS = ("cpu", "paper")
#: Alphas of figure 4.
ALPHAS = (1.0, 2.0, 5.0, 10.0, 20.0)
#: Row of Table 3 -> end of its recipe's name.
_ENDINGS = {"plain": "-plain", "alpha": "-alpha", "alpha-at": "-alpha-at", "alpha-tc": "-alpha-tc"}


def check_choice(what: str, chosen: Sequence[object], known: Sequence[object], name: str) -> None:
    """Refuses unknown and repeated values."""
    for value in chosen:
        if value not in known:
            choices = ", ".join(map(str, known))
            raise UserError(f"unknown {what} {value!r}: `{name}` takes {choices}")
    if len(set(chosen)) < len(chosen):
        raise UserError(f"`{name}` must differ, got {', '.join(map(str, chosen))}")


def stem(experiment: str, dataset: str, preset: str = "cpu", shot: int = 5) -> str:
    """Base name of an experiment's files; without data set, preset, shots if FC100, cpu, 5.

    Curves alone have shots in their name: a table has a row for each number of them.
    """
    named = [experiment, *([] if dataset == "fc100" else [dataset.replace("_", "-")])]
    named += [] if preset == "cpu" else [preset]
    return "-".join([*named, *([f"{shot}shot"] if experiment in CURVES and shot != 5 else [])])


def stems(experiment: str, dataset: str) -> list[str]:
    """All base names that an experiment's files on a data set may have."""
    names = (stem(experiment, dataset, preset, k) for preset in PRESETS for k in (5, *EPISODES))
    return list(dict.fromkeys(names))


@dataclass(frozen=True)
class Cell:
    """What is trained once per seed: a row, its shots and the ways of its training tasks."""

    row: str
    shot: int = 5
    train_way: int = 5

    @property
    def alpha(self) -> float:
        """Alpha of a row of figure 4."""
        return float(self.row.removeprefix("alpha-"))

    def folder(self, seed: int) -> str:
        """The run's name, with the training way unless it is that of the test tasks."""
        way = f"-{self.train_way}way" if self.train_way != 5 else ""
        named = self.row == f"{self.shot}shot"  # as Omniglot's rows are
        shot = "" if named else f"-{self.shot}shot"
        return f"{self.row}{way}{shot}-seed{seed}"


@dataclass(frozen=True)
class Request:
    """What a user asks for.

    Attributes:
        experiment: A key of `ROWS`: a table, a figure or an ablation.
        dataset: Data set of the recipes; Table 1 has more of them.
        preset: cpu or paper.
        rows: Names of rows; empty for all.
        shots: If empty, 5 with the cpu preset and all with the paper's.
        train_ways: Table 2 only.
        alphas: Figure 4, with or without TEN, only.
        seeds: One run for each.
        changes: Settings such as `backbone.width=8`, on top of the preset.
        tasks: Number of test tasks.
    """

    experiment: str
    dataset: str = "fc100"
    preset: str = "cpu"
    rows: tuple[str, ...] = ()
    shots: tuple[int, ...] = ()
    train_ways: tuple[int, ...] = (5,)
    alphas: tuple[float, ...] = ALPHAS
    seeds: tuple[int, ...] = (0,)
    changes: tuple[str, ...] = ()
    tasks: int = 500

    def __post_init__(self) -> None:
        known = tuple(METHOD_DATASETS) if self.experiment == "table1" else DATASETS
        check_choice("data set", [self.dataset], known, "dataset")
        check_choice("preset", [self.preset], PRESETS, "preset")
        check_choice("row", self.rows, tuple(ROWS[self.experiment]), "rows")
        check_choice("number of shots", self.shots, tuple(EPISODES), "shots")
        if self.experiment in CURVES and len(self.shots) > 1:
            raise UserError(
                f"{self.experiment} is drawn for one number of shots: choose one with `shots`"
            )
        check_choice("training way", self.train_ways, tuple(CONV4_WAYS), "train_ways")
        for seed in self.seeds:
            if not 0 <= seed < 2**63:
                raise UserError(f"`seeds` must be between 0 and 2^63 - 1, got {seed}")
        for name, values in (("seeds", self.seeds), ("alphas", self.alphas)):
            if len(set(values)) < len(values):
                raise UserError(f"`{name}` must differ, got {', '.join(map(str, values))}")
        if self.tasks < 2:
            raise UserError(f"`tasks` must be at least 2, got {self.tasks}")
        decided = {"run.seed": "`seeds` decides", "episode.shot": "`shots` decides"}
        if self.experiment in CURVES:
            decided |= dict.fromkeys(("metric.alpha", "metric.learn_alpha"), "the figure varies")
        for change in self.changes:
            if (key := change.partition("=")[0].strip()) in decided:
                raise UserError(f"leave {change} out of `changes`: {decided[key]} it")

    @property
    def stem(self) -> str:
        """Base name of the files written."""
        return stem(self.experiment, self.dataset, self.preset, (self.shots or (5,))[0])

    def cells(self) -> list[Cell]:
        """What has to be trained, once per seed."""
        return [cell for cell in self.all_cells() if not self.rows or cell.row in self.rows]

    def all_cells(self) -> list[Cell]:
        """All rows of the table, in its order, for the shots and ways asked for."""
        if self.experiment == "omniglot":
            return [Cell("1shot", 1), Cell("5shot", 5)]
        if self.experiment in CURVES:
            return [Cell(f"alpha-{alpha:.12g}", (self.shots or (5,))[0]) for alpha in self.alphas]
        rows = ROWS[self.experiment]
        if self.experiment == "table2":
            return [Cell(row, train_way=way) for way in self.train_ways for row in rows]
        if self.experiment in ABLATIONS and ABLATIONS[self.experiment].table == "table2":
            return [Cell(row) for row in rows]
        shots = self.shots or (tuple(EPISODES) if self.preset == "paper" else (5,))
        return [Cell(row, shot) for shot in shots for row in rows]

    def config(self, cell: Cell, seed: int) -> Config:
        """A run's recipe: the shipped one, changed by the preset and then by the user."""
        if self.experiment == "table1":
            config = table1_config(cell.row, self.dataset, cell.shot, self.preset)
            return config.with_settings([*self.changes, f"run.seed={seed}"])
        config = load_recipe(self._recipe(cell))
        if self.preset == "cpu":
            config = config.updated(_cpu(self.experiment, self.dataset))
        if self.experiment in ABLATIONS:
            config = self._ablated(config, cell)
        if self.experiment in CURVES:
            config = config.updated(
                {
                    "metric": {"alpha": cell.alpha},
                    "schedule": {"episodes": config.schedule.episodes // 2},
                }
            )
        return config.with_settings([*self.changes, f"run.seed={seed}"])

    def _ablated(self, config: Config, cell: Cell) -> Config:
        """A row of an ablation, with the cpu preset's own alpha and lengths."""
        ablation = ABLATIONS[self.experiment]
        row = ablation.rows[cell.row]
        if self.preset == "cpu" and ablation.table == "table3":
            if row.longer_on_cpu:
                config = config.updated({"schedule": {"episodes": 2 * config.schedule.episodes}})
            if row.base != "plain" and (self.dataset, cell.shot) == ("fc100", 5):
                config = config.updated({"metric": {"alpha": CPU_ALPHA}})
        return config.updated(row.changes(config))

    def _recipe(self, cell: Cell) -> str:
        if self.experiment == "omniglot":
            return f"omniglot-{cell.row}"
        table, row = self.experiment, cell.row
        if self.experiment in ABLATIONS:
            ablation = ABLATIONS[self.experiment]
            table, row = ablation.table, ablation.rows[cell.row].base
        if table == "table2":
            return conv4_name(self.dataset, row, cell.train_way)
        if self.experiment == "figure4-no-ten":
            row = "alpha-at"
        return recipe_name(self.dataset, cell.shot, _ENDINGS.get(row, ""))


def _cpu(experiment: str, dataset: str) -> dict[str, Any]:
    """What the cpu preset changes; it aims at 20 minutes or less per row on two cores."""
    if experiment == "omniglot":
        return {}
    small = {"data": {"image_size": 32}} if dataset == "mini_imagenet" else {}
    if experiment == "table2" or (
        experiment in ABLATIONS and ABLATIONS[experiment].table == "table2"
    ):
        return {**small, "schedule": {"episodes": 8_000}}
    return {**small, "backbone": {"width": 16}, "schedule": {"episodes": 5_000}}
