"""README and docs: every command in them is one that the command line accepts."""

import re
import shlex
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer

from fenced import blocks
from tadam.cli.app import app
from tadam.config import Config
from tadam.config.documentation import settings
from tadam.data.catalogue import SOURCES

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
PAGES += sorted((ROOT / "src" / "tadam" / "weights").glob("*.md"))


def commands() -> list[str]:
    lines = [line for p in PAGES for block in blocks(p.read_text()) for line in block.splitlines()]
    found = (re.match(r"(?:torchrun .*-m )?(tadam .*)", line) for line in lines)
    return sorted({match[1] for match in found if match})


def test_a_command_of_the_docs_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    root = typer.main.get_command(app)
    for line in commands():
        monkeypatch.setenv("TADAM_DATA", "")  # --data sets it
        words = shlex.split(line, comments=True)[1:]
        command: Any = root
        name = "tadam"
        while hasattr(command, "commands") and not words[0].startswith("-"):
            name = words.pop(0)
            command = command.commands[name]
        if name == "tadam":  # an option of its own, which would act at once
            assert words[0] in {flag for option in command.params for flag in option.opts}
            continue
        command.make_context(name, words)  # raises on an unknown option or a missing argument


def test_there_are_commands_to_check() -> None:
    assert len(commands()) > 8


def test_the_table_of_data_sets_says_what_data_list_does() -> None:
    page = (ROOT / "docs" / "reference" / "data.md").read_text()
    for source in SOURCES[:-2]:  # the last two are folders of your own
        assert f"| `{source.name}` | {source.classes} | {source.images}, {source.size} |" in page


def test_every_link_in_the_docs_leads_somewhere() -> None:
    links = [
        (page, target)
        for page in PAGES
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text())
    ]
    broken = [f"{page.name}: {link}" for page, link in links if not (page.parent / link).exists()]
    assert broken == []


def test_every_source_file_that_the_docs_name_exists() -> None:
    places = (ROOT, ROOT / "src" / "tadam")
    files = re.compile(r"`((?:[\w-]+/)*[\w-]+\.(?:py|cpp))`")
    named = [(page.name, path) for page in PAGES for path in files.findall(page.read_text())]
    rooms = re.findall(r"`((?:[\w-]+/)+)`", (ROOT / "CONTRIBUTING.md").read_text())
    assert len(named) > 5
    assert len(rooms) > 15
    named += [("CONTRIBUTING.md", room) for room in rooms]
    assert [name for name in named if not any((place / name[1]).exists() for place in places)] == []


def test_every_setting_that_the_docs_name_exists() -> None:
    tables = [table.name for table in fields(Config)]
    known = {setting.key for setting in settings()}
    pattern = re.compile(rf"`({'|'.join(tables)})\.(?!py)(\w+)")
    named = [(page, *names) for page in PAGES for names in pattern.findall(page.read_text())]
    assert len(named) > 20
    assert [f"{p.name}: {t}.{key}" for p, t, key in named if f"{t}.{key}" not in known] == []


#: Pages whose commands tests/docs/test_photo_pages.py runs, and one that says how it was made.
RUN = {"classify.md", "check.md", "none-of-these.md", "label-less.md", "first-classifier.md"}
MADE = {"results.md"}


def test_every_page_with_commands_is_run_or_says_what_the_tests_run() -> None:
    silent = []
    for page in sorted((ROOT / "docs").rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        says = re.search("hat the tests run|run by a test", text)
        if blocks(text) and page.name not in RUN | MADE and not says:
            silent.append(page.name)
    assert silent == []
