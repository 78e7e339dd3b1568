"""Learning rate and validations as functions of the step (TADAM, S3)."""

import math

from tadam.config import Config, ScheduleConfig


def learning_rate_factor(t: int, config: ScheduleConfig) -> float:
    """Factor on the base learning rate at step t = 0..T-1."""
    warm = min(1.0, (t + 1) / config.warmup) if config.warmup else 1.0
    if config.kind == "cosine":
        return warm * 0.5 * (1 + math.cos(math.pi * t / config.episodes))
    drops = sum(t >= round(share * config.episodes) for share in config.drops)
    return warm * config.drop_factor**-drops


def validates_after(steps: int, config: Config) -> bool:
    """Whether to validate once this many steps are done."""
    return steps == config.schedule.episodes or steps % config.validation.every == 0
