"""Every main state as a picture, in light and dark, large and small, with nothing for axe to find.

`TADAM_PICTURES=docs/images pytest tests/browser/test_looks.py` makes the pictures of the docs.
"""

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from PIL import Image
from playwright.sync_api import Browser, Route, expect

from photo_files import photo_file
from running_studio import RunningStudio
from studio_page import StudioPage
from tadam.serve.drawings import SUBJECTS, drawing, jpeg

Open = Callable[..., StudioPage]
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "device_scale_factor": 2}
#: What axe looks for in light and in dark, where only the colours differ; nothing is everything.
SCHEMES: dict[Literal["light", "dark"], tuple[str, ...]] = {
    "light": (),
    "dark": ("color-contrast",),
}
#: A phone, a tablet on end and lying, and a laptop.
WIDTHS = (360, 768, 1024, 1440)
TAUGHT = ("Boat", "House", "Tree", "Fish")


@pytest.fixture(scope="module")
def book(browser: Browser, server: RunningStudio) -> str:
    """A project that is well under way, with the network that people would use.

    Four classes of fourteen drawings, two more in the wrong box, and two dozen without a label,
    some of which show a lamp.
    """
    project: str = server.post("/projects", name="Picture book")["id"]
    for name in TAUGHT:
        files = {f"{name}/{name.lower()}-{n:03}.jpg": jpeg(drawing(name, n)) for n in range(14)}
        server.add(project, files, by_folder=True)
    server.add(project, {"House/boat-101.jpg": jpeg(drawing("Boat", 101))}, by_folder=True)
    server.add(project, {"Tree/fish-101.jpg": jpeg(drawing("Fish", 101))}, by_folder=True)
    new = {
        f"{s.lower()}-{n:03}.jpg": jpeg(drawing(s, n)) for n in range(200, 205) for s in SUBJECTS
    }
    server.add(project, new)
    server.get(f"/projects/{project}/quality")  # waits until it has learnt
    return project


def save(png: bytes, path: Path) -> None:
    """Keeps a picture in 256 colours: a third of the size, and no eye sees it."""
    Image.open(io.BytesIO(png)).convert("RGB").quantize(256).save(path, optimize=True)


def pictured(studio: StudioPage, pictures: Path, name: str) -> None:
    """Looks at the page with axe, in light and in dark, and takes pictures of both."""
    page = studio.page
    studio.drawn()
    for scheme, rules in SCHEMES.items():
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        save(page.screenshot(), pictures / f"studio-{name}-{scheme}.png")
        found = "\n".join(studio.violations(*rules))
        assert not found, f"{name}, {scheme}:\n{found}"


def test_first_steps(
    open_studio: Open, server: RunningStudio, small_model: str, pictures: Path
) -> None:
    studio = open_studio(server)
    expect(studio.page.get_by_role("button", name="Create")).to_be_visible()
    pictured(studio, pictures, "projects")
    studio.new_project("First steps", small_model)
    pictured(studio, pictures, "empty")
    studio.new_class("Boat")
    studio.drop(studio.box("Boat"), [photo_file("Boat", n, 240) for n in range(6)])
    studio.counts("Boat", 6)
    expect(studio.photos).to_have_count(6)
    pictured(studio, pictures, "one-class")


def test_a_project_well_under_way(
    open_studio: Open, server: RunningStudio, book: str, pictures: Path
) -> None:
    studio = open_studio(server, book)
    page = studio.page
    studio.drawn()
    studio.choose(
        studio.answer.get_by_role("button", name="Choose a photo"), [photo_file("Fish", 303, 240)]
    )
    expect(studio.answer.get_by_role("heading", name="Because it resembles")).to_be_visible()
    pictured(studio, pictures, "photos")
    for number in (1, 2, 6):
        studio.photos.nth(number).click(modifiers=["Control"])
    expect(studio.selection).to_contain_text("3 selected")
    pictured(studio, pictures, "selection")
    page.keyboard.press("Escape")
    studio.view("How good is it?")
    expect(page.get_by_role("heading", name="These look mislabelled")).to_be_visible()
    pictured(studio, pictures, "quality")
    studio.view("Take it with you")
    pictured(studio, pictures, "take")
    for button, name in (
        (page.get_by_role("button", name="Rename, merge or delete Boat"), "class"),
        (page.get_by_role("button", name="Project settings"), "settings"),
        (page.get_by_role("button", name="Keyboard"), "keys"),
    ):
        button.click()
        expect(page.get_by_role("dialog")).to_be_visible()
        pictured(studio, pictures, name)
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)


def test_trouble(open_studio: Open, server: RunningStudio, book: str, pictures: Path) -> None:
    studio = open_studio(server, book)
    page = studio.page
    studio.drawn()
    # The stream of news breaks, as it does when the server stops.
    studio.expect_complaint("Failed to load resource", "ERR_")
    page.route(re.compile("/events$"), lambda route: route.abort())
    page.reload()
    expect(page.get_by_role("alert")).to_contain_text("nothing is lost")
    bad = {"name": "broken.jpg", "mimeType": "image/jpeg", "buffer": b"no picture at all"}
    studio.drop(studio.box("Boat"), [bad])
    studio.says("broken.jpg")
    pictured(studio, pictures, "error")
    page.unroute(re.compile("/events$"))
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_phone_shows_one_part_at_a_time(
    open_studio: Open, server: RunningStudio, book: str, pictures: Path
) -> None:
    studio = open_studio(server, book, **PHONE)
    page = studio.page
    studio.drawn()
    for view, name in (
        ("Photos", "photos"),
        ("Classes", "classes"),
        ("Try it", "answer"),
        ("Quality", "quality"),
        ("Take", "take"),
    ):
        studio.view(view)
        if view == "Try it":
            studio.choose(
                studio.answer.get_by_role("button", name="Choose a photo"),
                [photo_file("Boat", 303, 240)],
            )
            expect(studio.answer.get_by_role("list", name="Probabilities")).to_be_visible()
        if view == "Quality":
            expect(page.get_by_role("heading", name="By class")).to_be_visible()
        pictured(studio, pictures, f"phone-{name}")
    studio.view("Photos")
    studio.photos.nth(1).tap()
    studio.photos.nth(4).tap()
    expect(studio.selection).to_contain_text("2 selected")
    pictured(studio, pictures, "phone-selection")


@pytest.fixture(scope="module")
def long_names(server: RunningStudio, small_model: str) -> str:
    """A project in which nothing has a short name; one photo is in the wrong box, two are alike."""
    long = "Donaudampfschifffahrtsgesellschaftskapitaen-"
    project: str = server.post("/projects", name=long * 2, model=small_model)["id"]
    for name in ("Boat", "House"):
        files = {f"{long}{name}/{long * 2}{n}.jpg": jpeg(drawing(name, n, 64)) for n in range(5)}
        server.add(project, files, by_folder=True)
    server.add(project, {f"{long}House/{long}.jpg": jpeg(drawing("Boat", 7, 64))}, by_folder=True)
    for side in (64, 65):
        server.add(project, {f"{long}{side}.jpg": jpeg(drawing("Boat", 8, side))})
    server.get(f"/projects/{project}/quality")
    return project


def test_nothing_is_wider_than_its_place(
    open_studio: Open, server: RunningStudio, long_names: str
) -> None:
    studio = open_studio(server, long_names)
    page = studio.page
    studio.drawn()
    studio.choose(
        studio.answer.get_by_role("button", name="Choose a photo"), [photo_file("Boat", 303, 240)]
    )
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 740})
        for part in page.get_by_role("navigation").get_by_role("button").all():
            part.click()
            name = part.inner_text()
            if name == "Classes":
                assert_windows_fit(studio)
            if name == "Try it":
                expect(studio.answer.get_by_role("list", name="Probabilities")).to_be_visible()
                expect(studio.grid).to_have_count(0)  # what the answer covers cannot be reached
                tabs = page.get_by_role("navigation").bounding_box()
                below = studio.answer.bounding_box()
                assert tabs
                assert below
                # A phone has its tabs at the foot.
                assert width < 760 or tabs["y"] + tabs["height"] <= below["y"] + 1
            if name in ("Quality", "How good is it?"):
                expect(page.get_by_role("heading", name="Nearly the same")).to_be_visible()
            assert studio.overflowing() == [], f"{name} at {width}"
        studio.view("Photos")
        studio.photos.first.click()
        expect(studio.selection).to_be_visible()
        assert studio.overflowing() == [], width
        studio.photos.first.dblclick()
        expect(page.get_by_role("dialog")).to_be_visible()
        assert studio.overflowing() == [], width
        page.keyboard.press("Escape")
        page.keyboard.press("Escape")


def assert_windows_fit(studio: StudioPage) -> None:
    """Opens the menu of a class and the settings."""
    for name in (re.compile("^Rename, merge.*Boat$"), "Project settings"):
        studio.page.get_by_role("button", name=name).click()
        expect(studio.page.get_by_role("dialog")).to_be_visible()
        assert studio.overflowing() == [], name
        studio.page.keyboard.press("Escape")


def test_busy(open_studio: Open, server: RunningStudio, book: str, pictures: Path) -> None:
    studio = open_studio(server, book)
    studio.drawn()
    many = [photo_file("Lamp", n, 64) for n in range(400, 480)]
    sent: list[Route] = []

    def hold_back(route: Route) -> None:
        """Lets three batches through, so that the picture shows the middle of it."""
        sent.append(route)
        if len(sent) <= 3:
            route.continue_()

    studio.page.route(re.compile("/images$"), hold_back)
    studio.drop(studio.page.get_by_role("region", name="Photos"), many)
    expect(studio.page.get_by_role("progressbar")).to_have_attribute("value", "48")
    pictured(studio, pictures, "busy")
