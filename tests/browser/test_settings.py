"""What one sets: the network, the name, light or dark, the end of a project, who may come in."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from running_studio import RunningStudio
from studio_page import StudioPage
from tadam.serve.drawings import drawing, jpeg

Open = Callable[..., StudioPage]
_TOKEN = "a-token-of-the-test"


@pytest.fixture
def project(server: RunningStudio, small_model: str) -> str:
    """Two classes of three photos."""
    number: str = server.post("/projects", name="Signs", model=small_model)["id"]
    for subject in ("Boat", "House"):
        files = {f"{subject}/{n}.jpg": jpeg(drawing(subject, n, 64)) for n in range(3)}
        server.add(number, files, by_folder=True)
    return number


def test_another_network_looks_at_all_photos_again_and_the_name_changes_with_it(
    open_studio: Open, server: RunningStudio, project: str
) -> None:
    studio = open_studio(server, project)
    studio.counts("Boat", 3)
    before = server.get(f"/projects/{project}")["model"]
    studio.page.get_by_role("button", name="Project settings").click()
    dialog = studio.page.get_by_role("dialog", name="Project settings")
    dialog.get_by_label("Name").fill("Road signs")
    dialog.get_by_label("Network").select_option("imagenet")
    assert studio.violations() == []
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_be_hidden()
    expect(studio.page.get_by_role("heading", name="Road signs", level=1)).to_be_visible()
    studio.drop(
        studio.answer,
        [{"name": "q.jpg", "mimeType": "image/jpeg", "buffer": jpeg(drawing("House", 9, 64))}],
    )
    bars = studio.answer.get_by_role("list", name="Probabilities").get_by_role("listitem")
    expect(bars).to_have_count(2)
    now = server.get(f"/projects/{project}")["model"]
    assert (before != now, now) == (True, "imagenet")
    studio.counts("Boat", 3)


def test_light_or_dark_is_remembered(open_studio: Open, server: RunningStudio) -> None:
    studio = open_studio(server, color_scheme="light")
    background = "() => getComputedStyle(document.body).backgroundColor"
    studio.page.wait_for_selector("main.home")
    light = studio.page.evaluate(background)
    studio.page.get_by_role("button", name="Light or dark").click()
    dark = studio.page.evaluate(background)
    studio.page.reload()
    studio.page.wait_for_selector("main.home")
    assert studio.page.evaluate(background) == dark != light


def test_a_project_is_deleted_only_after_a_question_and_moves_to_the_trash_folder(
    open_studio: Open, server: RunningStudio, project: str
) -> None:
    folder = server.target / project
    photos = sorted(path.name for path in (folder / "images").iterdir())
    studio = open_studio(server, project)
    studio.page.get_by_role("button", name="Project settings").click()
    dialog = studio.page.get_by_role("dialog")
    # It asks first, and the key that was pressed by mistake says no.
    dialog.get_by_role("button", name="Delete project").click()
    expect(dialog.get_by_role("group", name="Delete Signs with its 6 photos?")).to_be_visible()
    assert studio.violations() == []
    studio.page.keyboard.press("Enter")
    dialog.get_by_role("button", name="Delete project").click()
    assert folder.exists()
    dialog.get_by_role("button", name="Yes, delete it").click()
    expect(studio.page.get_by_role("heading", name="Your projects", level=1)).to_be_visible()
    expect(studio.page.locator(f'a[href$="{project}"]')).to_have_count(0)
    [kept] = [path for path in folder.parent.rglob("project.sqlite") if project in str(path)]
    assert not folder.exists()
    assert sorted(path.name for path in (kept.parent / "images").iterdir()) == photos


@pytest.fixture
def open_to_others(browser: Browser, tmp_path: Path) -> Iterator[RunningStudio]:
    """A server on every address of the machine."""
    options = ("--host", "0.0.0.0", "--token", _TOKEN)
    running = RunningStudio(tmp_path / "projects", tmp_path / "log.txt", *options)
    yield running
    running.stop()


def test_from_another_machine_the_page_opens_with_the_token_only(
    open_to_others: RunningStudio, open_studio: Open
) -> None:
    """The address with the token opens it; a cookie that no script can read keeps it open."""
    address = re.sub(r"//[^:]+:", "//127.0.0.1:", open_to_others.address)
    open_to_others.address = address
    studio = open_studio(open_to_others)
    studio.expect_complaint("401")
    expect(studio.page.locator("body")).to_contain_text("wants its token")
    studio.errors.clear()
    studio.page.goto(f"{address}/?token={_TOKEN}")
    studio.new_project("From afar")
    assert _TOKEN not in studio.page.url
    assert studio.page.evaluate("() => document.cookie") == ""
    studio.page.reload()
    expect(studio.page.get_by_role("heading", name="From afar", level=1)).to_be_visible()
