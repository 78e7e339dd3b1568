"""The paper's experiments beside its tables: one change at a time to a row of Table 2 or 3.

Each has a name for `tadam reproduce`, rows, and what the paper says of it (`published.toml`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tadam.config import Config

Changes = dict[str, dict[str, Any]]

#: Alpha of the cpu preset where the paper cross-validates it: the best of figure 4 on validation.
CPU_ALPHA = 2.0
#: Updates that co-training makes in T steps, as a share of T: the mean of 0.9 * 0.9^floor(20t/T).
_AUXILIARY_SHARE = 0.4


@dataclass(frozen=True)
class AblationRow:
    """A row of an ablation.

    Attributes:
        name: In words.
        changes: Given the preset's recipe, the tables that differ from it.
        base: Row of Table 3, or of Table 2, whose recipe is changed.
        published: Whether the paper's number of that row stands beside ours.
        longer_on_cpu: Whether the cpu preset has to double the steps, as the paper's recipe does
            for rows without AT.
        against: The row to compare it with, seed by seed; the first one if not given.
    """

    name: str
    changes: Callable[[Config], Changes] = lambda config: {}
    base: str = "tadam"
    published: bool = False
    longer_on_cpu: bool = False
    against: str = ""


@dataclass(frozen=True)
class Ablation:
    """An experiment: its title, what it shows, and its rows."""

    title: str
    shows: str
    rows: Mapping[str, AblationRow]
    table: str = "table3"


def _conditioning(**values: Any) -> Callable[[Config], Changes]:
    return lambda config: {"conditioning": values}


def _pretrained(config: Config) -> Changes:
    """As many updates of both kinds as with co-training, the auxiliary ones first."""
    few_shot = config.schedule.episodes
    steps = round((1 + _AUXILIARY_SHARE) * few_shot)
    drops = tuple((drop + _AUXILIARY_SHARE) * few_shot / steps for drop in config.schedule.drops)
    return {
        "auxiliary": {"enabled": True, "pretraining": 1 - few_shot / steps},
        "schedule": {"episodes": steps, "drops": [min(drop, 1.0) for drop in drops]},
    }


def _half_the_steps(config: Config) -> Changes:
    """Half the steps; the learning rate is halved at the same steps as in the whole run."""
    drops = [2 * drop for drop in config.schedule.drops if 2 * drop < 1]
    return {"schedule": {"episodes": config.schedule.episodes // 2, "drops": drops}}


def _without_at(row: str, name: str, against: str = "") -> AblationRow:
    return AblationRow(name, base=row, published=True, longer_on_cpu=True, against=against)


ABLATIONS: dict[str, Ablation] = {
    "table3-fair": Ablation(
        "Table 3, fairly",
        "alpha cross-validated, rows without AT twice as long",
        {
            "plain": _without_at("plain", "nothing added"),
            "alpha": _without_at("alpha", "alpha"),
            "alpha-at": AblationRow("alpha + AT", base="alpha-at", published=True, against="alpha"),
            "alpha-tc": _without_at("alpha-tc", "alpha + TC", against="alpha"),
            "tadam": AblationRow("alpha + AT + TC (TADAM)", published=True, against="alpha-at"),
        },
    ),
    "ten-layers": Ablation(
        "TEN by layer",
        "which layers are conditioned, and by one network or many",
        {
            "all": AblationRow("all 12 layers", published=True),
            "pre-pool": AblationRow("layers 3, 6, 9 and 12", _conditioning(layers="pre_pool")),
            "last": AblationRow("layer 12", _conditioning(layers="last")),
            "none": AblationRow("none (alpha + AT)", base="alpha-at", published=True),
            "shared": AblationRow("all 12 layers, one small TEN", _conditioning(shared=32)),
        },
    ),
    "ten-multipliers": Ablation(
        "TEN without gamma0 and beta0",
        "what the multipliers are for",
        {
            "with": AblationRow("with gamma0 and beta0", published=True),
            "without": AblationRow("without", _conditioning(multipliers=False)),
        },
    ),
    "ten-penalty": Ablation(
        "The penalty on gamma0 and beta0",
        "how strongly they are held back",
        {
            f"decay-{decay:g}": AblationRow(
                f"{decay:g}",
                lambda config, decay=decay: {"optimiser": {"multiplier_decay": decay}},  # type: ignore[misc]
                published=decay == 0.01,
            )
            for decay in (0.0, 0.001, 0.01, 0.1)
        },
    ),
    "ten-representation": Ablation(
        "What TEN sees of a task",
        "the mean, and the moments that the conclusion proposes",
        {
            "mean": AblationRow("mean of the prototypes", published=True),
            "mean-std": AblationRow("and their spread", _conditioning(representation="mean_std")),
            "moments": AblationRow(
                "moments, standardised, own base",
                _conditioning(representation="moments", standardise=True, base=True),
            ),
        },
    ),
    "pretraining": Ablation(
        "Co-training and pre-training",
        "when the auxiliary task is trained",
        {
            "co-training": AblationRow("co-training", published=True),
            "pre-training": AblationRow("pre-training, then few-shot alone", _pretrained),
        },
    ),
    "projection": Ablation(
        "Projection layers",
        "fully connected layers after the ResNet",
        {
            f"layers-{count}": AblationRow(
                {0: "none", 1: "one", 2: "two"}[count],
                lambda config, count=count: {"backbone": {"projection": count}},  # type: ignore[misc]
                published=count == 0,
            )
            for count in (0, 1, 2)
        },
    ),
    "learning-rate": Ablation(
        "Learning rates",
        "scaled cosine, Conv-4: is scaling a matter of the learning rate?",
        {
            f"rate-{rate:g}": AblationRow(
                f"{rate:g}",
                lambda config, rate=rate: {"optimiser": {"learning_rate": rate}},  # type: ignore[misc]
                base="cosine-scaled",
                published=rate == 0.001,
            )
            for rate in (0.0005, 0.001, 0.002, 0.005, 0.01)
        },
        table="table2",
    ),
    "steps": Ablation(
        "20,000 and 40,000 steps",
        "Prototypical Networks, Conv-4, the same learning rate at the same step",
        {
            "20k": AblationRow("half the steps", _half_the_steps, base="euclidean"),
            "40k": AblationRow("all steps", base="euclidean", published=True),
        },
        table="table2",
    ),
}
