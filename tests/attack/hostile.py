"""Files of our own formats with hostile content: whole, with a checksum that matches."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from tadam.models.modelfile import checksum

#: JSON that no reader survives by recursion.
DEEP = "[" * 100_000 + "]" * 100_000
#: Values of which most fields can bear none.
NONSENSE: tuple[Any, ...] = (
    None, -1, 10**400, 1.5, "x", "", [], {}, [[]], True, math.nan, math.inf, -math.inf, "\x1b[2J",
    "\ud800", 2**63,
)  # fmt: skip


def rewrite(
    path: Path,
    change: Callable[[Any], Any] = lambda raw: raw,
    tensors: Callable[[dict[str, Tensor]], None] = lambda tensors: None,
    text: str | None = None,
) -> Path:
    """Changes a safetensors file of ours and its checksum with it.

    Args:
        path: The file.
        change: Gets the description and returns another one.
        tensors: Changes the tensors.
        text: Replaces the description as a whole.
    """
    with safe_open(path, framework="pt") as file:
        found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        metadata = dict(file.metadata())
    (key,) = (name for name in metadata if name.startswith("tadam"))
    metadata[key] = json.dumps(change(json.loads(metadata[key]))) if text is None else text
    tensors(found)
    metadata["sha256"] = checksum(metadata[key], found)
    save_file(found, path, metadata=metadata)
    return path


def with_value(raw: Any, place: tuple[Any, ...], value: Any) -> Any:
    """The description with another value at a place, given as keys and indices from the top."""
    if not place:
        return value
    copy = dict(raw) if isinstance(raw, dict) else list(raw)
    copy[place[0]] = with_value(raw[place[0]], place[1:], value)
    return copy


def setting(place: tuple[Any, ...], value: Any) -> Callable[[Any], Any]:
    """A change for `rewrite`: another value at a place."""
    return lambda raw: with_value(raw, place, value)


def places(raw: Any) -> list[tuple[Any, ...]]:
    """Every place of a description."""
    found: list[tuple[Any, ...]] = []
    if isinstance(raw, dict | list):
        keys = raw if isinstance(raw, dict) else range(len(raw))
        for key in keys:
            found += [(key,), *((key, *below) for below in places(raw[key]))]
    return found


def poisoned(name: str, value: float) -> Callable[[dict[str, Tensor]], None]:
    """Sets the first number of the first tensor whose name ends like that."""

    def change(tensors: dict[str, Tensor]) -> None:
        found = next(n for n in sorted(tensors) if n.endswith(name))
        tensors[found] = tensors[found].clone()
        tensors[found].reshape(-1)[0] = torch.tensor(value, dtype=tensors[found].dtype)

    return change
