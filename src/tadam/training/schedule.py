"""Learning rate and auxiliary probability as functions of the step (TADAM, sec. 2.4 and S3)."""

import math

from tadam.config import AuxiliaryConfig, ScheduleConfig


def learning_rate_factor(t: int, config: ScheduleConfig) -> float:
    """What the base learning rate is multiplied by at step t = 0..T-1."""
    warm = min(1.0, (t + 1) / config.warmup) if config.warmup else 1.0
    if config.kind == "cosine":
        return warm * 0.5 * (1 + math.cos(math.pi * t / config.episodes))
    drops = sum(t >= round(share * config.episodes) for share in config.drops)
    return warm * config.drop_factor**-drops


def auxiliary_probability(t: int, episodes: int, config: AuxiliaryConfig) -> float:
    """Probability of an auxiliary update before the few-shot update of step t.

    `p0 * decay^floor(20 t / T)`: with p0 = decay = 0.9 it falls from 0.9 to 0.12. The paper's
    formula has no p0 and would start at 1, against its own "initial probability 0.9".
    """
    if not config.enabled:
        return 0.0
    return config.probability * config.decay ** (config.decay_steps * t // episodes)
