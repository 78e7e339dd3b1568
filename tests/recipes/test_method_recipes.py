"""The recipes of Table 1's methods: which sections of a file make up a recipe."""

import math
from pathlib import Path

import pytest

from tadam.config import Config
from tadam.errors import UserError
from tadam.recipes import load_recipe, method_recipes, recipe_names
from tadam.recipes.method_recipes import MethodRecipe, all_method_recipes, method_rows

MADE_UP = """\
all.method.name = "tadam"
all.metric.alpha = 1.0
all.run.max_loss = 1.0
fc100.metric.alpha = 2.0
fc100.run.log_every = 2
5shot.metric.alpha = 3.0
fc100-5shot.metric.alpha = 4.0
omniglot.metric.alpha = 90.0
10shot.metric.alpha = 91.0
omniglot-5shot.metric.alpha = 92.0
cpu.metric.alpha = 5.0
cpu.run.max_loss = 5.0
cpu-fc100.metric.alpha = 6.0
cpu-5shot.metric.alpha = 7.0
cpu-fc100-5shot.metric.alpha = 8.0
"""


def made_up(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str) -> None:
    (folder / "made.toml").write_text(text)
    monkeypatch.setattr(method_recipes, "_files", lambda: {"made": folder / "made.toml"})
    method_recipes._file_tables.cache_clear()


def test_later_sections_win_and_others_do_not_matter(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lines = MADE_UP.splitlines()
    order = [1, 3, 5, 6, 10, 12, 13, 14]  # the sections that concern made-fc100-5shot-cpu
    for known, alpha in enumerate([1, 2, 3, 4, 5, 6, 7, 8]):
        kept = [line for i, line in enumerate(lines) if i not in order[known + 1 :]]
        made_up(monkeypatch, tmp_path, "\n".join(kept))
        assert load_recipe("made-fc100-5shot-cpu").metric.alpha == alpha
    full = load_recipe("made-fc100-5shot")
    assert (full.metric.alpha, full.run.max_loss, full.run.log_every) == (4.0, 1.0, 2)
    assert load_recipe("made-fc100-5shot-cpu").run.max_loss == 5.0


def test_the_name_decides_data_and_shots_and_validation_is_five_way(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made_up(monkeypatch, tmp_path, "all.episode.way = 20\nomniglot.validation.way = 7\n")
    mini = load_recipe("made-mini_imagenet-10shot-cpu.toml")
    assert mini == Config().updated(
        {
            "data": {"name": "mini_imagenet"},
            "episode": {"way": 20, "shot": 10},
            "validation": {"way": 5, "balanced": True},
        }
    )
    omniglot = load_recipe("made-omniglot-1shot")
    assert (omniglot.data.name, omniglot.validation.way) == ("omniglot_rotated", 7)
    assert "made-omniglot-1shot" in recipe_names()
    assert "made-cifar_fs-5shot-cpu" in recipe_names()


def test_a_section_may_change_the_network_and_keeps_what_both_have(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = "all.backbone = { pools = 3, width = 7 }\nomniglot.backbone.name = 'conv4'\n"
    made_up(monkeypatch, tmp_path, text)
    backbone = load_recipe("made-omniglot-1shot").backbone
    assert (backbone.name, vars(backbone)["width"]) == ("conv4", 7)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("alll.run.seed = 1", "recipes/methods/made.toml: section 'alll' must be all, a data set"),
        ("cpu-2shot.run.seed = 1", "section 'cpu-2shot' must be"),
        ("all = 3", "section 'all' must be"),
        ("all.seed = 1", "section 'all' must be"),
        ("all.run.sed = 1", "recipe made-fc100-1shot, section all: unknown key run.sed"),
        ("extends = 'made'", "extends must name another file here, got 'made'"),
        ("extends = 3", "extends must name another file here, got 3"),
        ("fc100.run.seed = -1", "recipe made-fc100-1shot, section fc100: run.seed must be"),
    ],
)
def test_a_mistake_in_a_file_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, words: str
) -> None:
    made_up(monkeypatch, tmp_path, text)
    with pytest.raises(UserError) as caught:
        load_recipe("made-fc100-1shot")
    assert words in str(caught.value)


def test_an_own_recipe_may_extend_a_methods(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('extends = "protonet-omniglot-1shot-cpu"\n[run]\nseed = 9\n')
    expected = load_recipe("protonet-omniglot-1shot-cpu").updated({"run": {"seed": 9}})
    assert load_recipe(mine) == expected
    with pytest.raises(UserError, match=r"did you mean protonet-omniglot-1shot"):
        load_recipe("protonet-omnilgot-1shot")


@pytest.mark.parametrize("shot", [1, 5, 10])
@pytest.mark.parametrize("dataset", ["fc100", "mini_imagenet"])
def test_tadams_recipes_are_the_papers(dataset: str, shot: int) -> None:
    paper = load_recipe(f"paper-{dataset.replace('_', '-')}-{shot}shot")
    mine = MethodRecipe("tadam", dataset, shot).config()
    different = ["validation.balanced: True != False", "validation.way: 5 != 0"]
    assert mine.differences(paper) == different


@pytest.mark.parametrize("shot", [1, 5])
def test_prototypical_networks_on_omniglot_are_those_of_the_shipped_recipe(shot: int) -> None:
    mine = MethodRecipe("protonet", "omniglot", shot, cpu=True).config()
    shipped = load_recipe(f"omniglot-{shot}shot")
    assert mine.differences(shipped) == ["validation.balanced: True != False"]


def test_a_variant_is_its_method_with_what_it_says_itself() -> None:
    for cpu in (False, True):
        plain = MethodRecipe("matching", "fc100", 5, cpu).config()
        variant = MethodRecipe("matching_fce", "fc100", 5, cpu).config()
        assert variant.differences(plain) == ["method.full_context: True != False"]


def test_the_methods_have_recipes() -> None:
    assert {"matching", "matching_fce", "protonet", "tadam"} <= set(method_rows())


def test_a_class_has_images_enough_for_the_shots_and_its_share_of_the_queries() -> None:
    for recipe in all_method_recipes():
        images = {"omniglot": 20}.get(recipe.dataset, 600)
        config = recipe.config()
        shot, way = config.episode.shot, config.episode.way
        for queries, classes in (
            (config.episode.queries, way),
            (config.validation.queries, config.validation.way or way),
        ):
            assert shot + math.ceil(queries / classes) <= images, recipe.name
