"""`extends`: a recipe that builds on another."""

from pathlib import Path

import pytest

from tadam.config import Config
from tadam.errors import UserError
from tadam.recipes import load_recipe
from tadam.training.run import train
from tiny import SETTINGS, write_image_folder


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def refusal(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        load_recipe(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_recipe_on_top_of_a_shipped_one_changes_what_it_says_and_nothing_else(
    tmp_path: Path,
) -> None:
    mine = write(tmp_path, "mine.toml", 'extends = "images"\n[episode]\nshot = 3\n')
    images = load_recipe("images")
    assert images != Config()
    assert images.episode.shot != 3
    assert load_recipe(mine) == images.updated({"episode": {"shot": 3}})


def test_a_base_is_found_relative_to_the_file_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "base.toml", 'extends = "images"\n[episode]\nshot = 3\nway = 4\n')
    write(tmp_path, "deep/middle.toml", 'extends = "../base.toml"\n[episode]\nway = 7\n')
    top = write(tmp_path, "deep/top.toml", 'extends = "middle.toml"\n[run]\nseed = 9\n')
    monkeypatch.chdir(tmp_path.parent)
    config = load_recipe(top)
    assert (config.episode.shot, config.episode.way, config.run.seed) == (3, 7, 9)
    assert config.data == load_recipe("images").data


def test_an_own_recipe_may_have_the_name_of_the_shipped_one_that_it_extends(tmp_path: Path) -> None:
    own = write(tmp_path, "images.toml", 'extends = "images"\n[run]\nseed = 9\n')
    assert load_recipe(own) == load_recipe("images").updated({"run": {"seed": 9}})


def test_a_base_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    mine = write(tmp_path, "mine.toml", 'extends = "image"\n')
    words = f"{mine} extends 'image', but there is no such recipe and no such file beside it"
    assert refusal(mine) == f"{words} (did you mean images?)"
    write(tmp_path, "mine.toml", 'extends = "other/base.toml"\n')
    assert "extends 'other/base.toml', but there is no such recipe" in refusal(mine)
    write(tmp_path, "mine.toml", "extends = 3\n")
    assert refusal(mine).endswith("extends must be a recipe's name or a path in quotes, got 3")


@pytest.mark.parametrize("names", [("a",), ("a", "b"), ("a", "b", "c")])
def test_a_circle_is_one_sentence(tmp_path: Path, names: tuple[str, ...]) -> None:
    for name, base in zip(names, (*names[1:], names[0]), strict=True):
        write(tmp_path, f"{name}.toml", f'extends = "./{base}.toml"\n')
    message = refusal(tmp_path / "a.toml")
    assert "extends forms a loop" in message
    assert message.count(" -> ") == len(names)


def test_a_circle_through_folders_is_one_sentence(tmp_path: Path) -> None:
    one = write(tmp_path, "one/a.toml", 'extends = "../two/b.toml"\n')
    write(tmp_path, "two/b.toml", 'extends = "../one/a.toml"\n')
    assert "extends forms a loop" in refusal(one)


def test_a_mistake_is_told_of_the_file_that_has_it(tmp_path: Path) -> None:
    write(tmp_path, "base.toml", "[episode]\nways = 5\n")
    top = write(tmp_path, "top.toml", 'extends = "base.toml"\n')
    assert refusal(top).startswith(f"{tmp_path / 'base.toml'}: unknown key episode.ways")
    write(tmp_path, "base.toml", "[episode]\nway = 5\n")
    write(tmp_path, "top.toml", 'extends = "base.toml"\n[episode]\nways = 5\n')
    assert refusal(top).startswith(f"{top}: unknown key episode.ways")


def test_a_run_writes_the_whole_recipe_down_and_resumes_without_the_base(tmp_path: Path) -> None:
    images = write_image_folder(tmp_path / "images")
    base = write(tmp_path, "base.toml", f'[data]\nname = "folder:{images.as_posix()}"\n')
    mine = write(tmp_path, "mine.toml", 'extends = "base.toml"\n[run]\nseed = 4\n')
    expected = load_recipe(mine).with_settings(list(SETTINGS))
    train(mine, tmp_path / "run", settings=SETTINGS, device="cpu")
    written = tmp_path / "run" / "recipe.toml"
    assert "extends" not in written.read_text(encoding="utf-8")
    base.unlink()
    assert load_recipe(written) == expected
    train(written, tmp_path / "run", resume=True, device="cpu")


def test_a_recipe_of_ones_own_in_the_run_folder_may_extend_another(tmp_path: Path) -> None:
    images = write_image_folder(tmp_path / "images")
    base = load_recipe("images").with_settings([*SETTINGS, f"data.name=folder:{images}"])
    write(tmp_path, "base.toml", base.to_toml())
    own = write(tmp_path, "run/recipe.toml", 'extends = "../base.toml"\n[run]\nseed = 4\n')
    train(own, own.parent, resume=True, device="cpu")
    assert (own.parent / "best.safetensors").is_file()
