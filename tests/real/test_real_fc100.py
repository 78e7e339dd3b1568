"""The shipped model fc100 on the real test classes."""

import json
from collections.abc import Callable
from pathlib import Path

from tadam.evaluation.tasks import evaluate

CARD = json.loads((Path(__file__).parents[2] / "docs" / "fc100.json").read_text(encoding="utf-8"))


def test_fc100_is_as_good_as_its_card_says(real_data: Callable[[str], Path]) -> None:
    real_data("fc100")
    measured = CARD["test"]["5"]
    result = evaluate("fc100", "fc100", "test", tasks=20, queries=50, device="cpu")
    # the mean of 20 tasks of 50 queries: four standard errors
    assert abs(result.accuracy - measured["accuracy"]) < 0.08
    assert result.accuracy_unconditioned is not None
