"""Config: TOML in, TOML out, and every mistake named by file, table and key in one sentence."""

import dataclasses
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tadam.config import Config
from tadam.errors import UserError
from tadam.recipes import load_recipe, resolve

#: Of every key: values just inside what is allowed, and just outside it.
ALLOWED_AND_REFUSED = {
    "data.image_size": ("0 16 256", "-1 1 15 257"),
    "data.split_seed": ("0", "-1"),
    "episode.way": ("2", "1 0 -5"),
    "episode.shot": ("1", "0"),
    "episode.queries": ("1", "0"),
    "episode.tasks": ("1", "0"),
    "episode.within_family": ("0 1", "-0.1 1.1 nan"),
    "augment.crop_padding": ("0 64", "-1 65"),
    "augment.brightness": ("0 0.99", "-0.01 1.0 nan"),
    "augment.contrast": ("0 0.99", "-0.01 1.0 nan"),
    "augment.saturation": ("0 0.99", "-0.01 1.0 nan"),
    "method.name": ("tadam", "mamal Tadam base"),  # a file that holds no method is not one
    "backbone.name": ("resnet12 conv4", "resnet18 ResNet12"),
    "backbone.width": ("1 1024", "0 1025"),
    "backbone.pools": ("0 4", "-1 5"),
    "backbone.projection": ("0 4", "-1 5"),
    "backbone.activation": ("swish relu", "gelu"),
    "backbone.initialisation": ("paper he", "xavier"),
    "backbone.statistics": ("batch task", "layer"),
    "metric.distance": ("euclidean sqeuclidean cosine", "manhattan"),
    "metric.alpha": ("1e-9 999999.0", "0 -1 1e6 inf nan"),
    "conditioning.layers": ("all pre_pool last", "first"),
    "conditioning.representation": ("mean mean_std moments", "median"),
    "conditioning.dropout": ("0 0.99", "-0.1 1.0 nan"),
    "conditioning.noise": ("0", "-0.1 nan"),
    "conditioning.shared": ("0 32", "-1"),
    "auxiliary.batch_size": ("2", "1"),
    "auxiliary.probability": ("0 1", "-0.1 1.1 nan"),
    "auxiliary.decay": ("0 1", "-0.1 1.1 nan"),
    "auxiliary.pretraining": ("0 1", "-0.1 1.1 nan"),
    "auxiliary.decay_steps": ("1", "0"),
    "optimiser.name": ("sgd adamw", "adam SGD"),
    "optimiser.learning_rate": ("1e-9", "0 -0.1 nan"),
    "optimiser.momentum": ("0 0.99", "-0.1 1.0 nan"),
    "optimiser.weight_decay": ("0", "-1e-9 nan"),
    "optimiser.multiplier_decay": ("0", "-1e-9 nan"),
    "optimiser.clip": ("parameter global none", "norm"),
    "optimiser.clip_norm": ("1e-9", "0 -1 nan"),
    "optimiser.label_smoothing": ("0 0.99", "-0.1 1.0 nan"),
    "schedule.episodes": ("1", "0"),
    "schedule.kind": ("step cosine", "linear"),
    "schedule.drops": ("[] [1.0] [0.1,0.2]", "[0.0] [0.5,1.01] [nan]"),
    "schedule.drop_factor": ("1", "0.99 nan"),
    "schedule.warmup": ("0", "-1"),
    "validation.every": ("1", "0"),
    "validation.tasks": ("1", "0"),
    "validation.queries": ("1", "0"),
    "validation.seed": ("0", "-1"),
    "validation.patience": ("0", "-1"),
    "validation.way": ("2", "1"),
    "run.seed": ("0 9223372036854775807", "-1 9223372036854775808"),
    "run.log_every": ("1", "0"),
    "run.checkpoint_every": ("1", "0"),
    "run.max_loss": ("1e-9 1e300", "0 -1 inf nan"),
}


def tables() -> dict[str, dict[str, Any]]:
    return dataclasses.asdict(Config())


def message(text: str) -> str:
    """The one sentence that a recipe of this text earns."""
    with pytest.raises(UserError) as error:
        Config.from_toml(text, "my.toml")
    assert "\n" not in str(error.value)
    return str(error.value)


def test_the_table_above_leaves_out_no_key_that_has_limits() -> None:
    free = {"data.name"}  # any text may be a path
    limited = {
        f"{table}.{name}"
        for table, section in tables().items()
        for name, value in section.items()
        if not isinstance(value, bool)
    }
    assert limited - free == set(ALLOWED_AND_REFUSED)


def test_a_value_just_inside_its_limits_is_allowed() -> None:
    for key, (allowed, _) in ALLOWED_AND_REFUSED.items():
        table, name = key.split(".")
        default = tables()[table][name]
        for text in allowed.split():
            value = json.loads(text) if isinstance(default, tuple) else text
            config = Config().with_settings([f"{key}={text}"])
            assert getattr(getattr(config, table), name) == type(default)(value)


def test_a_value_outside_its_limits_is_refused_by_file_and_key() -> None:
    for key, (_, refused) in ALLOWED_AND_REFUSED.items():
        table, name = key.split(".")
        words = isinstance(tables()[table][name], str)
        for value in refused.split():
            text = message(f"[{table}]\n{name} = {repr(value) if words else value}\n")
            assert text.startswith(f"my.toml: {key} must be ")
            assert ", got " in text


def test_a_refusal_tells_the_rule_and_the_value() -> None:
    assert message("[episode]\nway = 1") == "my.toml: episode.way must be at least 2, got 1"
    assert message("[optimiser]\nclip = 'norm'") == (
        "my.toml: optimiser.clip must be one of parameter, global, none, got 'norm'"
    )


def test_a_backbone_without_layers_cannot_be_conditioned() -> None:
    assert message("[backbone]\nname = 'pixels'").startswith(
        "my.toml: conditioning.enabled must be false with backbone.name 'pixels'"
    )
    text = "[backbone]\nname = 'pixels'\n[conditioning]\nenabled = false"
    assert Config.from_toml(text, "my.toml").backbone.name == "pixels"


def test_the_defaults_are_the_papers_fc100_5_shot_setting() -> None:
    config = Config()
    assert (config.episode.way, config.episode.shot, config.episode.tasks) == (5, 5, 2)
    assert (config.episode.queries, config.auxiliary.batch_size) == (32, 64)
    assert (config.optimiser.learning_rate, config.optimiser.momentum) == (0.1, 0.9)
    assert (config.optimiser.weight_decay, config.optimiser.multiplier_decay) == (5e-4, 0.01)
    assert Config.from_toml("", "my.toml") == config


# Text and back


@given(
    name=st.text(),
    width=st.integers(1, 1024),
    seed=st.integers(0, 2**63 - 1),
    flip=st.booleans(),
    rate=st.floats(0, exclude_min=True, allow_infinity=False),
    loss=st.floats(0, exclude_min=True, allow_infinity=False),
    drops=st.lists(st.floats(0, 1, exclude_min=True)),
)
@example('a "quoted" \\ back\\slash\n\t\x00\x1f\x7f\x80 ünïcödé 🙂', 1, 0, True, 5e-324, 1e22, [])
@example("", 1, 2**63 - 1, False, 1e-5, 1e300, [1e-300, 1.0])
def test_a_config_survives_the_way_to_toml_and_back(
    name: str, width: int, seed: int, flip: bool, rate: float, loss: float, drops: list[float]
) -> None:
    config = Config().updated(
        {
            "data": {"name": name},
            "backbone": {"width": width},
            "run": {"seed": seed, "max_loss": loss},
            "augment": {"flip": flip},
            "optimiser": {"learning_rate": rate},
            "schedule": {"drops": drops},
        }
    )
    assert Config.from_toml(config.to_toml(), "x") == config
    assert config.data.name == name
    assert config.schedule.drops == tuple(drops)


def test_the_toml_spells_out_every_key() -> None:
    written = tomllib.loads(Config().to_toml())
    expected = tables()
    expected["schedule"]["drops"] = list(expected["schedule"]["drops"])
    assert written == expected


def test_a_config_file_with_any_name_in_it_can_be_read_again(tmp_path: Path) -> None:
    config = Config().updated({"data": {"name": 'folder:C:\\Bilder\\"Käse"\r\n\x7f'}})
    (tmp_path / "my.toml").write_text(config.to_toml(), encoding="utf-8")
    assert load_recipe(tmp_path / "my.toml") == config


# Mistakes of form


def test_text_that_is_no_toml_is_one_sentence() -> None:
    for text in (
        "[episode\nway = 5",
        f"[backbone]\nwidth = {'9' * 5000}",
        "[a]\nb = " + "[" * 3000,
    ):
        assert message(text).startswith("my.toml is not valid TOML: ")


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text("[backbone]\nwidth = 8\n", encoding="utf-8-sig")
    assert load_recipe(tmp_path / "my.toml") == Config().with_settings(["backbone.width=8"])


def test_settings_may_be_one_text() -> None:
    assert resolve("shapes", "backbone.width=9") == resolve("shapes", ["backbone.width=9"])
    assert resolve("shapes", "backbone.width=9") != resolve("shapes")


def test_an_unknown_key_comes_with_a_suggestion() -> None:
    assert message("[backbone]\nwidht = 8") == (
        "my.toml: unknown key backbone.widht (did you mean backbone.width?)"
    )


def test_an_unknown_key_like_no_other_comes_with_the_known_ones() -> None:
    assert message("[metric]\nzzz = 8") == (
        "my.toml: unknown key metric.zzz (known: alpha, distance, learn_alpha)"
    )


def test_an_unknown_table_comes_with_a_suggestion() -> None:
    assert message("[optimizer]\nclip = 'none'") == (
        "my.toml: unknown key optimizer (did you mean optimiser?)"
    )


def test_a_value_where_a_table_belongs_is_named() -> None:
    assert message("backbone = 'conv4'") == "my.toml: backbone must be a table, got 'conv4'"


def test_a_wrong_type_is_named() -> None:
    for text, expected in [
        ("[backbone]\nwidth = '8'", "backbone.width must be of type int, got '8'"),
        ("[backbone]\nwidth = true", "backbone.width must be of type int, got True"),
        ("[backbone]\nwidth = 8.0", "backbone.width must be of type int, got 8.0"),
        ("[backbone]\nname = 4", "backbone.name must be of type str, got 4"),
        ("[augment]\nflip = 1", "augment.flip must be true or false, got 1"),
        ("[augment]\nflip = 'yes'", "augment.flip must be true or false, got 'yes'"),
        ("[metric]\nalpha = '1'", "metric.alpha must be of type float, got '1'"),
        ("[metric]\nalpha = true", "metric.alpha must be of type float, got True"),
        ("[schedule]\ndrops = 0.5", "schedule.drops must be a list, got 0.5"),
        ("[schedule]\ndrops = ['a']", "schedule.drops must be of type float, got 'a'"),
    ]:
        assert message(text) == f"my.toml: {expected}"


def test_a_whole_number_does_for_a_float_and_becomes_one() -> None:
    config = Config.from_toml("[metric]\nalpha = 2\n[schedule]\ndrops = [1]", "my.toml")
    assert type(config.metric.alpha) is float
    assert type(config.schedule.drops[0]) is float
    assert config.metric.alpha == 2


# --set


def test_a_setting_is_a_toml_value_and_a_bare_word_is_a_string() -> None:
    for setting, expected in [
        ("backbone.width=16", 16),
        (" backbone.width = 16 ", 16),
        ("augment.flip=true", True),
        ("metric.alpha=2", 2.0),
        ("metric.alpha=1e-3", 0.001),
        ("schedule.drops=[0.5, 0.9]", (0.5, 0.9)),
        ("data.name=shapes", "shapes"),
        ("data.name= shapes ", "shapes"),
        ('data.name="shapes"', "shapes"),
        ("data.name='sha\"pes'", 'sha"pes'),
        ("data.name=folder:/a b/c=d", "folder:/a b/c=d"),
        ("data.name=folder:C:\\pets", "folder:C:\\pets"),
        ("data.name=", ""),
    ]:
        table, name = setting.partition("=")[0].strip().split(".")
        got = getattr(getattr(Config().with_settings([setting]), table), name)
        assert got == expected
        assert type(got) is type(expected)


def test_the_last_setting_of_a_key_wins_and_other_keys_stay() -> None:
    config = Config().with_settings(["backbone.width=16", "run.seed=3", "backbone.width=8"])
    assert config == Config().updated({"backbone": {"width": 8}, "run": {"seed": 3}})


@pytest.mark.parametrize("turn", [1, -1])
def test_settings_that_are_valid_together_may_come_in_any_order(turn: int) -> None:
    for pair in (
        ["backbone.name=pixels", "conditioning.enabled=false"],
        ["backbone.embedding=flat", "backbone.name=conv4"],
    ):
        config = Config().with_settings(pair[::turn])
        assert config.backbone.name in ("pixels", "conv4")


def test_a_setting_of_the_wrong_form_is_shown_the_right_one() -> None:
    for setting in ["width=16", "backbone.width", "backbone", "", "=3"]:
        with pytest.raises(UserError) as error:
            Config().with_settings([setting])
        assert str(error.value) == (
            f"`settings` must look like table.key=value, e.g. backbone.width=16, got {setting!r}"
        )


def test_a_mistake_in_a_setting_names_the_key() -> None:
    for setting, expected in [
        ("backbone.widht=3", r"unknown key backbone\.widht \(did you mean backbone\.width\?\)"),
        ("bakbone.width=3", r"unknown key bakbone \(did you mean backbone\?\)"),
        ("backbone.width=wide", r"backbone\.width must be of type int, got 'wide'"),
        ("backbone.width.x=3", r"unknown key backbone\.width\.x"),
        ("data.name=3", r"data\.name must be of type str, got 3"),
    ]:
        with pytest.raises(UserError, match=f"^{expected}"):
            Config().with_settings([setting])


# Comparing


def test_differences_name_each_key_with_both_values() -> None:
    one = Config()
    other = one.with_settings(["backbone.width=16", "data.name=shapes", "schedule.drops=[0.5]"])
    assert one.differences(other) == [
        "data.name: 'fc100' != 'shapes'",
        "backbone.width: 64 != 16",
        "schedule.drops: (0.5, 0.75, 1.0) != (0.5,)",
    ]
    assert one.differences(Config()) == []


def test_a_config_cannot_be_changed_in_place() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().run.seed = 3  # type: ignore[misc]


# Recipes


def test_a_recipe_is_a_diff_from_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text("[episode]\nshot = 1\n")
    assert load_recipe(tmp_path / "my.toml") == Config().with_settings(["episode.shot=1"])


def test_a_mistake_in_a_recipe_file_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    path.write_text("[episode]\nshot = 0\n")
    with pytest.raises(UserError) as error:
        load_recipe(path)
    assert str(error.value) == f"{path}: episode.shot must be at least 1, got 0"


def test_a_recipe_that_is_no_text_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="is not a text file: a recipe is TOML in UTF-8"):
        load_recipe(tmp_path / "my.toml")


def test_an_unknown_recipe_comes_with_a_suggestion() -> None:
    with pytest.raises(UserError, match=r"unknown recipe 'shpaes', .* \(did you mean shapes\?\)"):
        load_recipe("shpaes")
    with pytest.raises(UserError, match="'tadam recipes' lists the shipped ones"):
        load_recipe("zzzzzz")


# Sockets: the name of a backbone or method decides which settings there are


def test_a_setting_that_the_backbone_does_not_have_is_refused() -> None:
    for name, key in [
        ("efficientnet_lite0", "width"),
        ("resnet12", "embedding"),
        ("conv4", "pools"),
    ]:
        text = message(f"[backbone]\nname = {name!r}\n{key} = 3\n")
        assert text.startswith(f"my.toml: unknown key backbone.{key} of {name!r} (known: ")


def test_another_backbone_keeps_the_settings_that_both_have() -> None:
    config = Config().with_settings(["backbone.width=8", "backbone.mirrored=true"])
    other = config.with_settings(["backbone.name=conv4", "backbone.embedding=flat"])
    assert dataclasses.asdict(other.backbone) == {
        "name": "conv4",
        "statistics": "batch",
        "mirrored": True,
        "width": 8,
        "activation": "swish",
        "initialisation": "paper",
        "embedding": "flat",
        "pooled_units": 4,
        "strided": False,
    }


def test_a_recipe_as_0_1_0_wrote_it_out_is_read_without_what_its_backbone_never_had() -> None:
    former = Config().to_toml().replace('[method]\nname = "tadam"\n\n', "")
    former = former.replace("pools = 3", 'pools = 3\nembedding = "pooled"')
    assert Config.from_written(former, "old.toml") == Config()
    with pytest.raises(UserError, match=r"unknown key backbone\.embedding"):
        Config.from_toml(former, "old.toml")  # what a user writes is held to


def test_differences_between_two_backbones_name_the_keys_that_only_one_has() -> None:
    other = Config().with_settings(["backbone.name=conv4"])
    assert Config().differences(other) == [
        "backbone.name: 'resnet12' != 'conv4'",
        "backbone.pools: 3 != 'absent'",
        "backbone.projection: 0 != 'absent'",
        "backbone.embedding: 'absent' != 'pooled'",
        "backbone.pooled_units: 'absent' != 4",
        "backbone.strided: 'absent' != False",
    ]


def test_a_sentence_repeats_only_part_of_a_long_key_or_value() -> None:
    for text in (
        f"{'x' * 5000} = 1",
        f"[run]\n{'x' * 5000} = 1",
        f"[run]\nseed = '{'x' * 5000}'",
        f"[method]\nname = '{'x' * 5000}'",
        f"[backbone]\nstatistics = '{'x' * 5000}'",
    ):
        with pytest.raises(UserError) as told:
            Config.from_toml(text, "mine.toml")
        assert len(str(told.value)) < 600
