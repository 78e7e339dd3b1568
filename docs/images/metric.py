"""Draws metric.png: the same two classes seen by the nearest prototype and by the adaptive metric.

python docs/images/metric.py
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch

from tadam.classify.metric_fit import fit_metric

dice = np.random.default_rng(4)
turn = np.array([[np.cos(0.5), -np.sin(0.5)], [np.sin(0.5), np.cos(0.5)]])


def draw(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Two classes that differ in one direction and vary in another."""
    labels = np.repeat([0, 1], count)
    across, along = 0.8 * (2 * labels - 1), dice.normal(size=2 * count) * 2.2
    points = np.stack([along, across + 0.28 * dice.normal(size=2 * count)], axis=1)
    return points @ turn.T, labels


points, labels = draw(8)
new, _ = draw(60)
figure, axes = plt.subplots(1, 2, figsize=(9.6, 4.2), sharex=True, sharey=True, dpi=130)
grid = np.stack(np.meshgrid(np.linspace(-6, 6, 400), np.linspace(-4.4, 4.4, 300)), axis=-1)
flat = torch.from_numpy(grid.reshape(-1, 2)).float()
z, classes = torch.from_numpy(points).float(), torch.from_numpy(labels)
metric, _ = fit_metric(z, classes, 2, normalised=False)
prototypes = np.stack([points[labels == k].mean(axis=0) for k in (0, 1)])
nearest = np.linalg.norm(grid[:, :, None] - prototypes, axis=-1)
maps = {
    "nearest prototype": 1 / (1 + np.exp(nearest[..., 1] - nearest[..., 0])),
    "adaptive metric": metric.probabilities(flat)[:, 1].numpy().reshape(300, 400),
}
colours = np.array(["#2166ac", "#b2182b"])
for axis, (title, share) in zip(axes, maps.items(), strict=True):
    axis.contourf(grid[..., 0], grid[..., 1], share > 0.5, levels=[-1, 0.5, 2],
                  colors=["#dbe9f6", "#fbe3dc"])  # fmt: skip
    kinds = np.repeat([0, 1], 60)
    axis.scatter(*new.T, s=9, c=colours[kinds], alpha=0.55, linewidths=0)
    axis.scatter(*points.T, s=46, c=colours[labels], edgecolors="white", linewidths=1)
    axis.scatter(*prototypes.T, s=110, marker="D", c=colours, edgecolors="black")
    column = np.clip(np.searchsorted(grid[0, :, 0], new[:, 0]), 0, 399)
    row = np.clip(np.searchsorted(grid[:, 0, 1], new[:, 1]), 0, 299)
    right = ((share[row, column] > 0.5) == kinds).mean()
    axis.set_title(f"{title}: {100 * right:.0f} % of new points right", fontsize=11)
    axis.set_xticks([])
    axis.set_yticks([])
figure.tight_layout()
figure.savefig(Path(__file__).with_suffix(".png"))
