"""Few cases of a large grid: every pair of values of two parameters occurs together."""

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any


def pairwise(*parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Rows of the grid, the same every time, chosen greedily until every pair has occurred.

    Args:
        parameters: The values of each.
    """

    def pairs(row: tuple[int, ...]) -> set[tuple[int, int, int, int]]:
        return {(i, row[i], j, row[j]) for i, j in combinations(range(len(row)), 2)}

    rows = list(product(*(range(len(values)) for values in parameters)))
    left = set().union(*map(pairs, rows))
    chosen = []
    while left:
        best = max(rows, key=lambda row: len(pairs(row) & left))
        left -= pairs(best)
        chosen.append(best)
    return [tuple(v[i] for v, i in zip(parameters, row, strict=True)) for row in sorted(chosen)]
