"""TADAM's forward pass in plain NumPy, written from the paper: what the model is checked against.

Nothing is shared with `tadam`: weights come in as a dict of arrays under the model's names, images
as (T, N, C, H, W), and all arithmetic is in double precision.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Images = npt.NDArray[Any]  # bytes or numbers
Weights = Mapping[str, npt.NDArray[Any]]
Films = dict[int, tuple[Array, Array]]  # gamma and beta of each conditioned layer

BN_EPSILON = 1e-3


@dataclass(frozen=True)
class Reference:
    """A model's settings.

    Attributes:
        backbone: resnet12 or conv4.
        pools: Blocks of ResNet-12 that end in a pool.
        activation: swish or relu.
        flat: Whether Conv-4 keeps its last feature map instead of averaging it.
        distance: euclidean, sqeuclidean or cosine.
        conditioned: Numbers of the conditioned layers, from 1; empty for no conditioning.
        spread: Whether the standard deviation of the prototypes joins their mean.
        training: Whether batch norm uses the statistics of the pass instead of the running ones.
    """

    backbone: str = "resnet12"
    pools: int = 3
    activation: str = "swish"
    flat: bool = False
    distance: str = "euclidean"
    conditioned: Collection[int] = ()
    spread: bool = False
    training: bool = False

    def logits(
        self,
        weights: Weights,
        support: Images,
        labels: npt.NDArray[np.int64],
        query: Images,
        way: int,
    ) -> Array:
        """-alpha * distance of each task's queries to its prototypes, (T, Q, K)."""
        films: list[Films] = [{} for _ in support]
        if self.conditioned:
            first_pass = self.embed(weights, support, films)
            films = [
                self.film(weights, class_means(z, y, way))
                for z, y in zip(first_pass, labels, strict=True)
            ]
        zs, zq = self.embed(weights, support, films), self.embed(weights, query, films)
        alpha = np.exp(np.float64(weights["metric.log_alpha"]))
        return np.stack(
            [
                -alpha * distances(self.distance, q, class_means(s, y, way))
                for s, y, q in zip(zs, labels, zq, strict=True)
            ]
        )

    def film(self, weights: Weights, prototypes: Array) -> Films:
        """gamma and beta of each conditioned layer of one task, from its (K, D) prototypes."""
        task = prototypes.mean(axis=0)
        if self.spread:
            task = np.concatenate([task, prototypes.std(axis=0)])
        result = {}
        for layer in self.conditioned:
            ten = f"ten.conditioners.{layer - 1}."
            h = residual_mlp(weights, ten + "gamma_net.", task)
            g = residual_mlp(weights, ten + "beta_net.", task)
            result[layer] = (1 + weights[ten + "gamma0"] * h, weights[ten + "beta0"] * g)
        return result

    def embed(self, weights: Weights, images: Images, films: list[Films]) -> Array:
        """One pass over all tasks' images, (T, N, C, H, W) -> (T, N, D)."""
        x = normalised(weights, images)
        if self.backbone == "conv4":
            for i in range(4):
                x = self.unit(weights, f"backbone.units.{i}.", x, films, i + 1)
                x = max_pool(self.activated(x), ceil=False)
        else:
            for block in range(4):
                x = self.block(weights, block, x, films)
        return x.reshape(*x.shape[:2], -1) if self.flat else x.mean(axis=(3, 4))

    def block(self, weights: Weights, block: int, x: Array, films: list[Films]) -> Array:
        name, layer = f"backbone.blocks.{block}.", 3 * block + 1
        plain: list[Films] = [{} for _ in films]
        shortcut = self.unit(weights, name + "shortcut.", x, plain, 0)
        x = self.activated(self.unit(weights, name + "units.0.", x, films, layer))
        x = self.activated(self.unit(weights, name + "units.1.", x, films, layer + 1))
        x = self.unit(weights, name + "units.2.", x, films, layer + 2)
        x = self.activated(x + shortcut)
        return max_pool(x, ceil=True) if block < self.pools else x

    def unit(self, weights: Weights, name: str, x: Array, films: list[Films], layer: int) -> Array:
        """Convolution, batch norm, then each task's own scale and shift."""
        x = convolved(x, weights[name + "conv.weight"])
        if self.training:
            mean, variance = x.mean(axis=(0, 1, 3, 4)), x.var(axis=(0, 1, 3, 4))
        else:
            mean, variance = weights[name + "norm.running_mean"], weights[name + "norm.running_var"]
        x = (x - per_channel(mean)) / np.sqrt(per_channel(variance) + BN_EPSILON)
        x = x * per_channel(weights[name + "norm.weight"]) + per_channel(
            weights[name + "norm.bias"]
        )
        modulated = []
        for images, film in zip(x, films, strict=True):
            gamma, beta = film.get(layer, (np.ones(x.shape[2]), np.zeros(x.shape[2])))
            modulated.append(per_channel(gamma) * images + per_channel(beta))
        return np.stack(modulated)

    def activated(self, x: Array) -> Array:
        return swish(x) if self.activation == "swish" else np.maximum(x, 0)


def normalised(weights: Weights, images: Images) -> Array:
    return (np.float64(images) - weights["backbone.pixel_mean"]) / np.float64(
        weights["backbone.pixel_std"]
    )


def per_channel(vector: Array) -> Array:
    return np.float64(vector).reshape(-1, 1, 1)


def swish(x: Array) -> Array:
    return np.asarray(x * (1 + np.tanh(x / 2)) / 2)  # x * sigmoid(x), safe for any x


def convolved(x: Array, kernel: Array) -> Array:
    """Cross-correlation that keeps the size, (T, N, C, H, W) with (C_out, C, k, k)."""
    size, (height, width) = kernel.shape[-1], x.shape[-2:]
    margin = (size - 1) // 2
    padded = np.pad(x, [(0, 0)] * 3 + [(margin, margin)] * 2)
    total: Array = np.zeros(())
    for dy in range(size):
        for dx in range(size):
            window = padded[..., dy : dy + height, dx : dx + width]
            total = total + np.einsum("tnchw,oc->tnohw", window, np.float64(kernel[:, :, dy, dx]))
    return total


def max_pool(x: Array, ceil: bool) -> Array:
    """Maximum of 2x2 tiles; an odd last row or column makes its own tile, or is dropped."""
    height, width = x.shape[-2:]
    if ceil:
        x = np.pad(x, [(0, 0)] * 3 + [(0, height % 2), (0, width % 2)], constant_values=-np.inf)
    else:
        x = x[..., : height - height % 2, : width - width % 2]
    rows = np.maximum(x[..., 0::2, :], x[..., 1::2, :])
    return np.maximum(rows[..., 0::2], rows[..., 1::2])


def class_means(z: Array, labels: npt.NDArray[np.int64], way: int) -> Array:
    return np.stack([z[labels == k].mean(axis=0) for k in range(way)])


def residual_mlp(weights: Weights, name: str, x: Array) -> Array:
    def dense(layer: str, x: Array) -> Array:
        matrix = np.float64(weights[f"{name}{layer}.weight"])
        return np.asarray(matrix @ x + weights[f"{name}{layer}.bias"])

    x = swish(dense("project", x))
    x = swish(dense("hidden", x) + x)
    return dense("out", x) + x


def distances(kind: str, z: Array, c: Array) -> Array:
    """(Q, D) and (K, D) -> (Q, K)."""
    if kind == "cosine":
        lengths = np.linalg.norm(z, axis=1)[:, None] * np.linalg.norm(c, axis=1)
        return np.asarray(2 * (1 - z @ c.T / lengths))
    straight = np.linalg.norm(z[:, None] - c, axis=2)
    return np.asarray(straight if kind == "euclidean" else straight**2)


def random_weights(shapes: Mapping[str, tuple[int, ...]], seed: int) -> dict[str, npt.NDArray[Any]]:
    """Weights that hide nothing: no statistic, multiplier or bias is left at a neutral value."""
    rng = np.random.default_rng(seed)
    result: dict[str, npt.NDArray[Any]] = {}
    for name, shape in shapes.items():
        kind = name.rpartition(".")[2]
        if kind == "num_batches_tracked":
            result[name] = np.array(7)
            continue
        if kind in ("gamma0", "beta0"):
            value = rng.choice([-1, 1]) * rng.uniform(0.2, 0.5)
        elif kind == "pixel_mean":
            value = rng.uniform(90, 150, shape)
        elif kind == "pixel_std":
            value = rng.uniform(50, 70, shape)
        elif kind == "log_alpha":
            value = rng.uniform(0.2, 1.0)
        elif kind == "running_var" or name.endswith("norm.weight"):
            value = rng.uniform(0.5, 1.5, shape)
        elif kind == "weight":
            value = rng.normal(0, np.sqrt(1 / np.prod(shape[1:])), shape)
        else:  # biases and running means
            value = rng.normal(0, 0.3, shape)
        result[name] = np.asarray(value, np.float32)
    return result
