"""Learning rate and auxiliary probability follow the paper, step by step."""

import itertools
import math

import pytest

from tadam.config import AuxiliaryConfig, Config, ScheduleConfig
from tadam.methods.cotraining import auxiliary_probability, makes_auxiliary_update
from tadam.training.schedule import learning_rate_factor, validates_after


def test_fc100_divides_the_rate_by_ten_at_half_and_2500_steps_later() -> None:
    for t, factor in [
        (0, 1.0),
        (4_999, 1.0),
        (5_000, 0.1),
        (7_499, 0.1),
        (7_500, 0.01),
        (9_999, 0.01),
    ]:
        assert learning_rate_factor(t, ScheduleConfig()) == pytest.approx(factor, rel=1e-12)


def test_drops_and_their_factor_are_settings() -> None:
    config = ScheduleConfig(episodes=30, drops=(0.1, 0.5), drop_factor=2.0)
    factors = [learning_rate_factor(t, config) for t in range(30)]
    assert factors == [1.0] * 3 + [0.5] * 12 + [0.25] * 15


def test_cosine_falls_from_one_through_one_half_to_nearly_zero() -> None:
    config = ScheduleConfig(episodes=1_000, kind="cosine")
    factors = [learning_rate_factor(t, config) for t in range(1_000)]
    assert factors[0] == 1.0
    assert factors[500] == pytest.approx(0.5)
    assert factors[250] == pytest.approx((1 + 0.5**0.5) / 2)
    assert 0 < factors[-1] < 1e-5
    assert all(later < earlier for earlier, later in itertools.pairwise(factors))


@pytest.mark.parametrize("kind", ["step", "cosine"])
def test_warmup_rises_linearly_and_then_leaves_the_schedule_alone(kind: str) -> None:
    warm = ScheduleConfig(episodes=1_000, kind=kind, warmup=4)
    cold = ScheduleConfig(episodes=1_000, kind=kind)
    ratios = [learning_rate_factor(t, warm) / learning_rate_factor(t, cold) for t in range(10)]
    assert ratios == pytest.approx([0.25, 0.5, 0.75] + [1.0] * 7)


def test_auxiliary_probability_starts_at_09_and_ends_at_012() -> None:
    config = AuxiliaryConfig()
    assert auxiliary_probability(0, 10_000, config) == 0.9
    assert auxiliary_probability(9_999, 10_000, config) == pytest.approx(0.1216, abs=5e-5)


def test_auxiliary_probability_is_the_papers_formula_shifted_by_one() -> None:
    for t in [0, 499, 500, 4_999, 5_000, 9_499, 9_500, 9_999]:
        expected = 0.9 ** (math.floor(20 * t / 10_000) + 1)
        assert auxiliary_probability(t, 10_000, AuxiliaryConfig()) == pytest.approx(expected)


def test_auxiliary_probability_is_zero_without_co_training() -> None:
    assert auxiliary_probability(0, 10, AuxiliaryConfig(enabled=False)) == 0.0


def test_auxiliary_probability_settings() -> None:
    config = AuxiliaryConfig(probability=0.8, decay=0.5, decay_steps=2)
    assert [auxiliary_probability(t, 4, config) for t in range(4)] == [0.8, 0.8, 0.4, 0.4]


def test_validations_come_at_their_interval_and_after_the_last_step() -> None:
    config = Config().updated({"schedule": {"episodes": 17}, "validation": {"every": 5}})
    assert [t for t in range(1, 18) if validates_after(t, config)] == [5, 10, 15, 17]


def test_auxiliary_updates_come_as_often_as_their_probability_says() -> None:
    config = Config().updated({"schedule": {"episodes": 4_000}})
    made = [makes_auxiliary_update(t, config) for t in range(4_000)]
    for start, probability in ((0, 0.9), (2_000, 0.9**11), (3_800, 0.9**20)):
        share = sum(made[start : start + 200]) / 200
        assert abs(share - probability) < 4 * math.sqrt(probability * (1 - probability) / 200)
    other_seed = config.updated({"run": {"seed": 1}})
    assert made != [makes_auxiliary_update(t, other_seed) for t in range(4_000)]
