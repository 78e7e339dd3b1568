"""Every setting of a recipe says what it is for."""

import ast
import json
from pathlib import Path

from command_line import CommandLine, assert_one_sentence
from tadam.config.documentation import settings


def test_every_setting_has_a_meaning_that_is_a_sentence() -> None:
    found = settings()
    assert len(found) > 50
    for setting in found:
        assert setting.meaning[:1].strip(), setting.key
        assert setting.meaning.endswith((".", "...")), setting.key
        assert len(setting.meaning) < 100, setting.key


def test_settings_of_one_backbone_name_it_and_shared_ones_do_not() -> None:
    owners = {s.key: s.owners for s in settings() if s.key.startswith("backbone.")}
    assert owners["backbone.mirrored"] == ()
    assert owners["backbone.pools"] == ("resnet12",)
    assert owners["backbone.width"] == ("conv4", "resnet12")


def test_a_meaning_is_the_text_below_the_setting() -> None:
    import tadam.config.training_tables as module

    (table,) = (
        node
        for node in ast.parse(Path(module.__file__).read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and node.name == "RunConfig"
    )
    texts = [ast.literal_eval(node.value) for node in table.body if isinstance(node, ast.Expr)]
    found = [s.meaning for s in settings() if s.key.startswith("run.")]
    assert found == texts[1:]  # after the class's own


def test_the_command_prints_one_table_or_all(tadam: CommandLine) -> None:
    everything = json.loads(tadam("settings", "--json").out)
    assert [s["key"] for s in everything] == [s.key for s in settings()]
    some = tadam("settings", "schedule").out
    assert "schedule.warmup" in some
    assert "run.seed" not in some


def test_an_unknown_table_is_one_sentence(tadam: CommandLine) -> None:
    result = tadam("settings", "schedules")
    assert_one_sentence(result, "there is no table 'schedules': choose from data, episode")
