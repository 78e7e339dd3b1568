"""Finding photos that need a look: filters, orders, and what the page about quality leads to."""

import re
from collections.abc import Callable

import pytest
from PIL import Image
from playwright.sync_api import expect

from running_studio import RunningStudio
from studio_page import StudioPage
from tadam.serve.drawings import drawing, jpeg

Open = Callable[..., StudioPage]
SIDE = 96


def between(number: int) -> bytes:
    """Half a boat, half a house."""
    boat, house = (drawing(name, number, SIDE) for name in ("Boat", "House"))
    return jpeg(Image.blend(boat, house, 0.5))


@pytest.fixture(scope="module")
def project(server: RunningStudio, small_model: str) -> str:
    """Eight boats, eight houses, and what is wrong with them.

    One more boat is labelled as a house; without a label are a house and a tree, twice each, and
    a picture that is neither.
    """
    number: str = server.post("/projects", name="Finding", model=small_model)["id"]
    for name in ("Boat", "House"):
        files = {f"{name}/{name.lower()}-{n}.jpg": jpeg(drawing(name, n, SIDE)) for n in range(8)}
        server.add(number, files, by_folder=True)
    server.add(number, {"House/boat-8.jpg": jpeg(drawing("Boat", 8, SIDE))}, by_folder=True)
    new = {"between.jpg": between(9)}
    for name in ("House", "Tree"):
        picture = drawing(name, 31, SIDE)
        new[f"{name.lower()}.jpg"] = jpeg(picture)
        new[f"{name.lower()}-copy.jpg"] = jpeg(picture.resize((SIDE - 8, SIDE - 8)))
    server.add(number, new)
    server.get(f"/projects/{number}/quality")  # waits until it has learnt
    return number


@pytest.fixture
def studio(open_studio: Open, server: RunningStudio, project: str) -> StudioPage:
    return open_studio(server, project)


def test_filters_show_the_doubtful_photos(studio: StudioPage) -> None:
    for name, photos in (
        ("Uncertain", ["between.jpg"]),
        ("Mislabelled?", ["boat-8.jpg"]),
        ("None of these", ["between.jpg"]),
    ):
        studio.filter(name)
        expect(studio.photos).to_contain_text(photos)
        expect(studio.photos).to_have_count(len(photos))
    studio.filter("Mislabelled?")
    expect(studio.photos).to_have_accessible_name("House looks like Boat boat-8.jpg")


def test_photos_are_sorted_by_name_by_class_and_by_doubt(studio: StudioPage) -> None:
    order = studio.page.get_by_label("Sort")
    order.select_option("By name")
    expect(studio.photos.nth(1)).to_contain_text("boat-0.jpg")
    unwritten = studio.photos.locator(".hidden").all_text_contents()
    names = [words.split(", ")[-1] for words in unwritten]
    assert len(names) > 10
    assert names == sorted(names)
    order.select_option("By class")
    expect(studio.photos.first).to_contain_text("boat-0.jpg")
    expect(studio.photos.nth(8)).to_contain_text("house-0.jpg")
    order.select_option("Uncertain first")
    expect(studio.photos.first).to_contain_text("between.jpg")
    order.select_option("Newest first")
    expect(studio.photos.first).to_contain_text("tree-copy.jpg")


def test_the_answer_may_be_none_of_these(studio: StudioPage) -> None:
    file = {"name": "q.jpg", "mimeType": "image/jpeg", "buffer": between(9)}
    studio.drop(studio.answer, [file])
    expect(studio.answer.get_by_text("It looks unlike all your classes.")).to_be_visible()
    expect(studio.answer.get_by_role("heading", name="If it had to choose")).to_be_visible()
    bars = studio.answer.get_by_role("list", name="Probabilities").get_by_role("listitem")
    closest = bars.first.locator(".bar-name").inner_text()
    expect(studio.answer.get_by_text(f"The closest is {closest}.")).to_be_visible()
    assert studio.violations() == []


def test_quality_leads_to_the_photos_to_label_to_move_and_to_drop(studio: StudioPage) -> None:
    page = studio.page
    studio.view("How good is it?")
    suspect = page.get_by_role("listitem").filter(has_text="times as probable as House")
    expect(suspect.get_by_role("img")).to_have_accessible_name("House looks like Boat, boat-8.jpg")
    expect(suspect.get_by_role("paragraph")).to_contain_text("boat-8.jpg The other photos say Boat")
    # Copies are shown side by side, and not among others.
    pairs = page.get_by_role("listitem").filter(has=page.get_by_alt_text("copy.jpg"))
    expect(pairs).to_have_count(2)
    for pair in pairs.all():
        expect(pair.get_by_role("img")).to_have_count(2)
    # It names what it suggests, and each copy.
    expect(page.get_by_alt_text(re.compile(r", tree\.jpg$"))).to_have_count(2)
    assert studio.violations() == []
    suspect.get_by_role("button", name="Move to Boat").click()
    studio.says("Put 1 photo into Boat.")
    studio.counts("Boat", 9)
    page.locator(".notices").get_by_role("button", name="Undo").click()
    studio.counts("Boat", 8)
    page.get_by_role("button", name="Show them all").click()
    expect(studio.photos).to_have_accessible_name("House looks like Boat boat-8.jpg")
    studio.view("How good is it?")
    page.get_by_role("button", name="Label them").click()
    expect(studio.photos).to_have_count(5)
    expect(page.get_by_role("button", name="These photos. Show all photos")).to_be_visible()
    studio.view("How good is it?")
    page.get_by_role("button", name="Show 4 photos").click()
    expect(studio.photos).to_contain_text(["house.jpg", "house-copy", "tree.jpg", "tree-copy"])
