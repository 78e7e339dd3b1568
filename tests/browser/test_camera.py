"""The camera: recording into a class, live answers, and a browser that refuses."""

import re
from collections.abc import Callable

from playwright.sync_api import expect

from running_studio import RunningStudio
from studio_page import StudioPage
from tadam.serve.drawings import drawing, jpeg

Open = Callable[..., StudioPage]


def two_classes(server: RunningStudio, model: str) -> str:
    """A project with two classes, made by the API."""
    project: str = server.post("/projects", name="Camera", model=model)["id"]
    for name in ("Boat", "House"):
        made = server.post(f"/projects/{project}/classes", name=name)
        files = {f"{name}-{n}.jpg": jpeg(drawing(name, n, 48)) for n in range(3)}
        server.add(project, files, made["id"])
    return project


def photos_of(studio: StudioPage, name: str) -> int:
    label = studio.page.get_by_role("button", name=re.compile(f"^{name}: ")).get_attribute(
        "aria-label"
    )
    found = re.search(r": (\d+) photo", label or "")
    assert found
    return int(found[1])


def test_holding_the_button_records_and_the_answer_is_live(
    open_studio: Open, server: RunningStudio, small_model: str
) -> None:
    studio = open_studio(server, two_classes(server, small_model), permissions=["camera"])
    page = studio.page
    page.get_by_role("button", name="Record Boat with the camera").click()
    hold = page.get_by_role("button", name="Hold to record")
    expect(hold).to_be_enabled()
    hold.hover()
    page.mouse.down()
    taken = page.get_by_role("dialog").get_by_text(re.compile(r"^[3-9] photos taken"))
    expect(taken).to_be_visible()
    page.mouse.up()
    # All that were taken have arrived.
    page.wait_for_function(
        "() => Number(/: (\\d+) photo/.exec(document.querySelector("
        "'[aria-label^=\"Boat: \"]').ariaLabel)[1]) "
        "=== 3 + parseInt(document.querySelector('dialog .buttons [role=status]').textContent)"
    )
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert photos_of(studio, "House") == 3
    # One recording is one action, however many photos it took.
    total = photos_of(studio, "Boat") - 3
    page.get_by_role("button", name=f"Undo: Add {total} photos").click()
    studio.counts("Boat", 3)
    page.get_by_role("button", name=f"Redo: Add {total} photos").click()
    studio.counts("Boat", 3 + total)
    studio.answer.get_by_role("button", name="Camera").click()
    expect(studio.answer.get_by_role("list", name="Probabilities")).to_be_visible()
    first = studio.answer.get_by_role("list", name="Probabilities").inner_text()
    assert "%" in first
    studio.answer.get_by_role("button", name="Stop").click()
    expect(studio.answer.get_by_text("Drop a photo here")).to_be_visible()


def test_hands_free_recording_counts_down(
    open_studio: Open, server: RunningStudio, small_model: str
) -> None:
    studio = open_studio(server, two_classes(server, small_model), permissions=["camera"])
    page = studio.page
    page.get_by_role("button", name="Record House with the camera").click()
    page.get_by_role("button", name=re.compile("^Hands-free")).click()
    expect(page.get_by_text("In 3 …")).to_be_visible()
    expect(page.get_by_text("In 1 …")).to_be_visible()
    expect(
        page.get_by_role("dialog").get_by_text(re.compile(r"^[2-9] photos taken"))
    ).to_be_visible()
    page.get_by_role("button", name="Close").first.click()
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_refused_camera_is_a_sentence(
    open_studio: Open, server: RunningStudio, small_model: str
) -> None:
    studio = open_studio(server, two_classes(server, small_model))
    page = studio.page
    for name, words in (("NotAllowedError", "does not let"), ("NotFoundError", "No camera")):
        page.evaluate(
            "(name) => { navigator.mediaDevices.getUserMedia ="
            " () => Promise.reject(new DOMException('', name)); }",
            name,
        )
        page.get_by_role("button", name="Record Boat with the camera").click()
        expect(page.get_by_role("alert")).to_contain_text(words)
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
