"""docs/how-to/your-own-method.md: its method is complete, trains, and is found by its name."""

import re
from pathlib import Path

import pytest

import tadam as package
from tadam.errors import UserError
from tadam.methods.base import Method
from tadam.registry import METHODS

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "your-own-method.md").read_text(
    encoding="utf-8"
)


def test_the_method_of_the_page_trains_and_is_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(METHODS, "_entries", dict(METHODS._entries))  # for this test only
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    exec(code, {"__name__": "page"})
    assert METHODS.find("linear").__name__ == "Linear"
    settings = ["method.name=linear", "schedule.episodes=30", "validation.every=30"]
    result = package.train("shapes", tmp_path / "run", settings=settings, device="cpu")
    assert result.best_accuracy > 0.25  # five classes
    test = package.evaluate(tmp_path / "run", dataset="shapes", tasks=10, queries=20)
    assert 0.2 < test.accuracy < 1
    with pytest.raises(UserError, match=r"did you mean method\.features\?"):
        package.load_recipe("shapes").with_settings([*settings, "method.feature=3"])


def test_the_page_names_what_can_be_replaced_and_nothing_else() -> None:
    table = PAGE.split("## What you may replace")[1].split("Three rules")[0]
    named = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", table, re.M))))
    own = {name for name in vars(Method) if not name.startswith("_")}
    assert named == own - {"from_config", "forward", "build", "load_pretrained", "device"}
