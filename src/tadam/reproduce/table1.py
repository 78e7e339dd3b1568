"""Table 1: nine systems under one protocol; their rows, recipes and published numbers."""

import math
import time
from collections.abc import Mapping
from statistics import median
from typing import Any

import torch

from tadam.config import Config
from tadam.data.catalogue import load_split
from tadam.data.episodes import EpisodeSampler
from tadam.methods.base import Method
from tadam.recipes.method_recipes import METHOD_DATASETS, MethodRecipe, method_rows

_NAMES = {
    "meta_lstm": "Meta-LSTM",
    "matching": "Matching Networks",
    "matching_fce": "Matching Networks, full context",
    "maml": "MAML",
    "maml_first_order": "MAML, first order",
    "protonet": "Prototypical Networks",
    "relation": "Relation Net",
    "snail": "SNAIL",
    "kshot": "discriminative k-shot",
    "adacnn": "adaCNN",
    "adaresnet": "adaResNet",
    "tadam": "TADAM",
}
_NETWORKS = {"conv4": "Conv-4", "resnet12": "ResNet-12"}
#: Tasks that are timed; the median counts.
_TIMED_TASKS = 5


def table1_rows() -> dict[str, str]:
    """Row -> its name, in the paper's order, then any other method that has recipes."""
    found = method_rows()
    known = {row: name for row, name in _NAMES.items() if row in found}
    return known | {row: row for row in found if row not in known}


def table1_config(row: str, dataset: str, shot: int, preset: str) -> Config:
    """The recipe of a cell."""
    return MethodRecipe(row, dataset, shot, cpu=preset == "cpu").config()


def dataset_key(name: str) -> str:
    """The data set in `published.toml` and in recipes' names whose `data.name` this is."""
    return next((key for key, value in METHOD_DATASETS.items() if value == name), name)


def table1_published(
    numbers: Mapping[str, Any], dataset: str, row: str, shot: int
) -> tuple[float, float] | None:
    """Accuracy and half-width as fractions, NaN where none was given; None if unpublished."""
    found = numbers["table1"].get(dataset_key(dataset), {}).get(row, {}).get(str(shot))
    if found is None:
        return None
    accuracy, half = (*found, math.nan)[:2]
    return accuracy / 100, half / 100


def network_name(settings: Mapping[str, Any]) -> str:
    """A recipe's network in words, such as `Conv-4, 64`; 64 is its filters."""
    backbone = settings["backbone"]
    name = _NETWORKS.get(backbone["name"], backbone["name"])
    return f"{name}, {backbone['width']}" if "width" in backbone else str(name)


def protocol(model: Method, config: Config, device: torch.device) -> dict[str, Any]:
    """What tells the systems apart besides accuracy; fields of a `RunResult`."""
    return {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "sees_queries_together": model.sees_queries_together,
        "task_milliseconds": round(1000 * _task_seconds(model.to(device).eval(), config), 3),
    }


def _task_seconds(model: Method, config: Config) -> float:
    """Median time to answer a single test task, its images given."""
    store = load_split(config.data, "test")
    episode, way = config.episode, config.validation.way or config.episode.way
    sampler = EpisodeSampler(
        store, way, episode.shot, config.validation.queries, 0, config.validation.balanced
    )
    times = []
    for number in range(_TIMED_TASKS + 1):
        task = sampler.task(number)
        support, query = (
            torch.from_numpy(store.images[rows]).permute(0, 1, 4, 2, 3).to(model.device)
            for rows in (task.support, task.query)
        )
        labels = torch.from_numpy(task.support_labels).to(model.device)
        with torch.set_grad_enabled(model.needs_gradients):
            start = time.perf_counter()
            model(support, labels, query, way).argmax(-1).cpu()  # reading it waits for the device
            times.append(time.perf_counter() - start)
    return median(times[1:])  # the first one warms up
