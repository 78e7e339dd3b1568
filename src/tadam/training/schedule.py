"""Learning rate, auxiliary updates and validations as functions of the step (sec. 2.4, S3)."""

import math

from tadam.config import AuxiliaryConfig, Config, ScheduleConfig
from tadam.data.episodes import AUXILIARY_COIN, bits, uniforms


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


def makes_auxiliary_update(t: int, config: Config) -> bool:
    """Whether step t begins with an auxiliary update: a coin that (seed, t) throws."""
    coin = uniforms(bits(config.run.seed, AUXILIARY_COIN, t), 1)[0]
    return bool(coin < auxiliary_probability(t, config.schedule.episodes, config.auxiliary))


def validates_after(steps: int, config: Config) -> bool:
    """Whether a validation follows when this many steps are done."""
    return steps == config.schedule.episodes or steps % config.validation.every == 0
