"""When auxiliary co-training happens (TADAM, sec. 2.4): a coin flip per step, ever less likely."""

from tadam.config import AuxiliaryConfig, Config
from tadam.data.episodes import AUXILIARY_COIN, bits, uniforms


def auxiliary_probability(t: int, episodes: int, config: AuxiliaryConfig) -> float:
    """Probability of an auxiliary update before the few-shot update of step t.

    `p0 * decay^floor(20 t / T)`: with p0 = decay = 0.9 it falls from 0.9 to 0.12. The paper's
    formula has no p0 and would start at 1, which contradicts its "initial probability 0.9".
    """
    if not config.enabled:
        return 0.0
    return config.probability * config.decay ** (config.decay_steps * t // episodes)


def makes_few_shot_update(t: int, config: Config) -> bool:
    """Whether step t makes the few-shot update: always, once pretraining is over."""
    return t >= round(config.auxiliary.pretraining * config.schedule.episodes)


def makes_auxiliary_update(t: int, config: Config) -> bool:
    """Whether step t begins with an auxiliary update: a coin flip fixed by (seed, t)."""
    if config.auxiliary.pretraining:
        return not makes_few_shot_update(t, config)
    coin = uniforms(bits(config.run.seed, AUXILIARY_COIN, t), 1)[0]
    return bool(coin < auxiliary_probability(t, config.schedule.episodes, config.auxiliary))
