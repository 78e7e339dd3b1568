"""Teaching it in a real browser: classes, photos, the answer, and putting it right."""

import io
import re
import zipfile
from collections.abc import Callable

import pytest
from playwright.sync_api import Route, expect

from photo_files import photo_file
from running_studio import RunningStudio
from studio_page import StudioPage
from tadam.serve.drawings import drawing, jpeg

Open = Callable[..., StudioPage]


def photos(subject: str, numbers: range, folder: str = "") -> list[dict[str, object]]:
    files = [photo_file(subject, number) for number in numbers]
    return [{**file, "name": folder + str(file["name"])} for file in files]


@pytest.fixture
def studio(open_studio: Open, server: RunningStudio, small_model: str) -> StudioPage:
    """An empty project with a model that answers at once."""
    page = open_studio(server)
    page.new_project("Shapes", small_model)
    return page


@pytest.fixture
def taught(studio: StudioPage) -> StudioPage:
    """Two classes of five photos."""
    for name in ("Boat", "House"):
        studio.new_class(name)
        studio.drop(studio.box(name), photos(name, range(5)))
        studio.counts(name, 5)
    return studio


def test_a_first_project_is_made_on_the_page(open_studio: Open, server: RunningStudio) -> None:
    studio = open_studio(server)
    studio.new_project("Garden & <b>flowers</b>")
    expect(studio.page.get_by_text("Nothing here yet")).to_be_visible()
    expect(studio.answer.get_by_text("as soon as two classes have photos")).to_be_visible()
    studio.page.get_by_role("link", name="all projects").click()
    expect(studio.page.get_by_role("link", name=re.compile("Garden & <b>"))).to_be_visible()


def test_two_classes_and_dropped_photos_give_an_answer_that_teaching_changes(
    taught: StudioPage,
) -> None:
    question = photo_file("House", 77)
    taught.drop(taught.answer, [question])
    bars = taught.answer.get_by_role("list", name="Probabilities").get_by_role("listitem")
    expect(bars).to_have_count(2)
    expect(taught.answer.get_by_role("heading", name="Because it resembles")).to_be_visible()
    taught.answer.get_by_role("group").get_by_role("button", name="Boat").click()
    taught.says("Learnt: Boat.")
    taught.counts("Boat", 6)
    # It now knows this very photo.
    expect(bars.first).to_contain_text("Boat")
    # Shown again as House, the photo moves: it is there only once.
    taught.answer.get_by_role("group").get_by_role("button", name="House").click()
    taught.counts("House", 6)
    taught.counts("Boat", 5)
    expect(bars.first).to_contain_text("House")
    taught.page.get_by_role("button", name=re.compile("^Undo:")).click()
    taught.counts("Boat", 6)
    taught.page.get_by_role("button", name=re.compile("^Redo:")).click()
    taught.counts("Boat", 5)


def test_two_hundred_photos_are_assigned_with_two_keys_and_undone_with_one(
    studio: StudioPage,
) -> None:
    studio.new_class("Boat")
    many = [
        {"name": f"{n}.jpg", "mimeType": "image/jpeg", "buffer": jpeg(drawing("Boat", n, 24))}
        for n in range(200)
    ]
    studio.drop(studio.page.get_by_role("region", name="Photos"), many)
    studio.says("Added 200 photos.")
    # They went in many requests, but came in one action.
    studio.page.locator(".notices").get_by_role("button", name="Undo").click()
    expect(studio.page.get_by_text("Nothing here yet")).to_be_visible()
    studio.page.get_by_role("button", name="Redo: Add 200 photos").click()
    expect(studio.grid).to_have_accessible_name(re.compile("^200 photos"))
    studio.grid.focus()
    studio.page.keyboard.press("Control+a")
    expect(studio.selection).to_contain_text("200 selected")
    studio.page.keyboard.press("1")
    studio.says("Put 200 photos into Boat.")
    studio.counts("Boat", 200)
    studio.page.keyboard.press("Control+z")
    studio.counts("Boat", 0)
    studio.page.keyboard.press("Control+Shift+z")
    studio.counts("Boat", 200)


def test_guesses_are_accepted_and_labels_removed_by_keyboard_alone(taught: StudioPage) -> None:
    taught.drop(taught.page.get_by_role("region", name="Photos"), photos("House", range(20, 22)))
    taught.filter("No label")
    expect(taught.photos).to_have_count(2)
    expect(taught.photos.first).to_have_accessible_name(re.compile("a guess|none of these"))
    taught.grid.focus()
    taught.page.keyboard.press("Space")
    taught.page.keyboard.press("Shift+ArrowRight")
    expect(taught.selection).to_contain_text("2 selected")
    taught.page.keyboard.press("a")
    taught.says("Accepted the guess for 2 photos.")
    expect(taught.page.get_by_text("No photos match.")).to_be_visible()
    taught.page.keyboard.press("Control+z")
    expect(taught.photos).to_have_count(2)
    taught.filter("All")
    expect(taught.photos).to_have_count(12)
    taught.grid.focus()
    taught.page.keyboard.press("End")
    taught.page.keyboard.press("0")
    taught.says("Removed the label of 1 photo.")
    taught.page.keyboard.press("Delete")
    taught.says("Deleted 1 photo.")
    expect(taught.photos).to_have_count(11)


def test_folders_zips_and_pasted_pictures_come_in(studio: StudioPage) -> None:
    area = studio.page.get_by_role("region", name="Photos")
    studio.drop(area, [*photos("Boat", range(3), "boats/"), *photos("Fish", range(2), "fish/")])
    studio.counts("boats", 3)
    studio.counts("fish", 2)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for file in photos("Tree", range(4)):
            archive.writestr(f"trees/{file['name']}", file["buffer"])  # type: ignore[arg-type]
    held: list[Route] = []
    studio.page.route(re.compile("/images$"), lambda route: held.append(route))
    studio.choose(
        studio.page.get_by_role("button", name="Add photos", exact=True),
        [{"name": "trees.zip", "mimeType": "application/zip", "buffer": packed.getvalue()}],
    )
    # How many photos are in a zip shows only when it has been unpacked.
    progress = studio.page.get_by_role("region", name="Adding photos")
    expect(progress.get_by_role("progressbar")).to_have_js_property("position", -1)
    expect(progress).to_have_text("Adding photos")
    held[0].continue_()
    studio.counts("trees", 4)
    expect(progress).to_have_count(0)
    studio.page.unroute(re.compile("/images$"))
    studio.paste(photo_file("Lamp", 1))
    studio.says("Added 1 photo.")
    studio.filter("No label")
    expect(studio.photos).to_have_count(1)
    studio.paste(photo_file("Lamp", 1))
    studio.says("1 photo was there already.")


def test_photos_that_are_there_already_move_to_the_box_they_are_dropped_on(
    taught: StudioPage,
) -> None:
    boats, one_of_its_own, new = (
        photos("Boat", range(2)), photos("House", range(1)), photos("House", range(5, 6)),
    )  # fmt: skip
    taught.drop(taught.box("House"), [*boats, *one_of_its_own, *new])
    taught.says("Added 1 photo. Put 2 photos into House. 1 photo was there already.")
    taught.counts("House", 8)
    taught.counts("Boat", 3)
    taught.page.locator(".notices").get_by_role("button", name="Undo").click()
    taught.counts("House", 5)
    taught.counts("Boat", 5)


def test_what_cannot_be_read_is_a_sentence(taught: StudioPage) -> None:
    bad = {"name": "broken.jpg", "mimeType": "image/jpeg", "buffer": b"no picture at all"}
    taught.drop(taught.box("Boat"), [bad, photo_file("Boat", 9)])
    taught.says("broken.jpg")
    taught.counts("Boat", 6)
    taught.drop(taught.answer, [bad])
    expect(taught.answer.get_by_role("alert")).to_be_visible()
    taught.drop(
        taught.box("Boat"),
        [{"name": "notes.txt", "mimeType": "text/plain", "buffer": b"text"}],
    )
    taught.says("There are no photos in that.")


def test_classes_are_renamed_merged_and_deleted_with_a_way_back(taught: StudioPage) -> None:
    page = taught.page
    menu = page.get_by_role("button", name=re.compile("^Rename, merge or delete Boat"))
    menu.click()
    page.get_by_role("dialog").get_by_label("Rename").fill("<i>Ship</i>")
    page.keyboard.press("Enter")
    taught.counts("<i>Ship</i>", 5)
    taught.expect_complaint("409")  # the browser notes that the server refused
    page.get_by_role("button", name="Rename, merge or delete House").click()
    page.get_by_role("dialog").get_by_label("Rename").fill("<i>Ship</i>")
    page.keyboard.press("Enter")
    taught.says("already")
    page.get_by_role("dialog").get_by_role("button", name="Merge").click()
    taught.counts("<i>Ship</i>", 10)
    page.locator(".notices").get_by_role("button", name="Undo").click()
    taught.counts("House", 5)
    page.get_by_role("button", name="Rename, merge or delete House").click()
    page.get_by_role("button", name="Delete its photos too").click()
    taught.says("Deleted the class House.")
    expect(taught.photos).to_have_count(5)
    page.keyboard.press("Control+z")
    taught.counts("House", 5)
    page.get_by_role("button", name="Rename, merge or delete House").click()
    page.get_by_role("button", name="Keep its photos").click()
    taught.filter("No label")
    expect(taught.photos).to_have_count(5)


def test_photos_are_selected_by_click_ctrl_shift_and_a_frame_and_dragged(
    taught: StudioPage,
) -> None:
    tiles, page = taught.photos, taught.page
    expect(tiles).to_have_count(10)
    tiles.nth(1).click()
    tiles.nth(3).click(modifiers=["Shift"])
    expect(taught.selection).to_contain_text("3 selected")
    tiles.nth(2).click(modifiers=["Control"])
    expect(taught.selection).to_contain_text("2 selected")
    page.keyboard.press("Escape")
    expect(taught.selection).to_have_count(0)
    first, fifth = tiles.nth(0).bounding_box(), tiles.nth(1).bounding_box()
    assert first
    assert fifth
    page.mouse.move(first["x"] + 30, first["y"] + 30)
    page.mouse.down()
    page.mouse.move(fifth["x"] + 40, fifth["y"] + 60, steps=4)
    expect(page.locator(".frame")).to_be_visible()
    page.mouse.up()
    expect(taught.selection).to_contain_text("2 selected")
    # The newest two are houses; dragged into the other box, they are boats.
    tiles.nth(0).drag_to(taught.box("Boat"))
    taught.counts("Boat", 7)
    tiles.nth(0).dblclick()
    expect(page.get_by_role("dialog").get_by_role("img")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_the_confusion_matrix_leads_to_the_photos_behind_a_cell(taught: StudioPage) -> None:
    # Two boats are labelled House, so the others contradict them.
    taught.drop(taught.box("House"), photos("Boat", range(40, 42)))
    taught.counts("House", 7)
    taught.view("How good is it?")
    page = taught.page
    expect(page.get_by_role("heading", name="By class")).to_be_visible()
    cells = page.get_by_role("region", name="What it takes for what").get_by_role("button")
    numbers = [int(text) for text in cells.all_inner_texts()]
    assert sum(numbers) == 12
    largest = cells.nth(numbers.index(max(numbers)))
    largest.click()
    expect(taught.photos).to_have_count(max(numbers))
    page.get_by_role("button", name=re.compile("Show all photos")).click()
    expect(taught.photos).to_have_count(12)


def test_in_the_large_view_keys_label_and_go_on_and_the_label_is_undone_there(
    taught: StudioPage,
) -> None:
    page, dialog = taught.page, taught.page.get_by_role("dialog")
    taught.photos.nth(8).dblclick()
    expect(dialog).to_have_accessible_name("boat-001.jpg")
    page.keyboard.press("ArrowRight")
    expect(dialog).to_have_accessible_name("boat-000.jpg")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("2")
    notices = dialog.get_by_role("status")
    expect(notices).to_contain_text("Put 1 photo into House.")
    taught.counts("House", 6)
    assert taught.violations() == []
    notices.get_by_role("button", name="Undo").click()
    expect(notices).to_contain_text("Undone: Assign 1 photo to House.")
    taught.counts("House", 5)
    # At the last photo, the button that leads on can no longer hold the focus.
    dialog.get_by_role("button", name="Next photo").click()
    expect(dialog).to_have_accessible_name("boat-000.jpg")
    page.keyboard.press("ArrowLeft")
    expect(dialog).to_have_accessible_name("boat-001.jpg")
    page.keyboard.press("Escape")
    expect(page.get_by_role("status").filter(has_text="Undone")).to_be_visible()
