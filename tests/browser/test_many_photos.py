"""Ten thousand photos: only those in sight are drawn, and all of them can be reached."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from many_photos import project_of_many
from running_studio import RunningStudio
from studio_page import StudioPage

COUNT = 10_000


@pytest.fixture(scope="module")
def large(
    browser: Browser, small_model: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningStudio]:
    folder = tmp_path_factory.mktemp("large")
    project_of_many(folder / "projects" / "many", small_model, COUNT)
    running = RunningStudio(folder / "projects", folder / "log.txt")
    yield running
    running.stop()


def test_ten_thousand_photos_scroll_and_are_selected_at_once(
    open_studio: Callable[..., StudioPage], large: RunningStudio, pictures: Path
) -> None:
    studio = open_studio(large, "many")
    page = studio.page
    expect(studio.grid).to_have_accessible_name(
        "10,000 photos. Arrow keys move, space selects, number keys assign a class."
    )
    expect(studio.photos.first).to_have_accessible_name(re.compile("a guess|none of these"))
    studio.drawn()
    assert studio.photos.count() < 120
    page.screenshot(path=pictures / "studio-many-light.png")
    # From one end to the other, the photos in sight come, and no more than those are drawn.
    for share in (0.31, 0.66, 1.0):
        studio.grid.evaluate(
            "(grid, share) => { grid.scrollTop = share * grid.scrollHeight; }", share
        )
        expect(studio.grid.locator(".waiting")).to_have_count(0)
        assert 0 < studio.photos.count() < 120
    expect(studio.photos.last).to_have_attribute("aria-posinset", str(COUNT))
    studio.grid.focus()
    page.keyboard.press("Control+a")
    expect(studio.selection).to_contain_text("10,000 selected")
    page.keyboard.press("Escape")
    studio.filter("No label")
    expect(studio.grid).to_have_accessible_name(
        "9,940 photos. Arrow keys move, space selects, number keys assign a class."
    )
    assert studio.violations() == []
