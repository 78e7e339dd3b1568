"""The page as a person uses it: its words for what is clicked, dropped and read."""

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import ConsoleMessage, Locator, Page, Request, expect

from running_studio import RunningStudio

_AXE = Path(__file__).parent / "browser" / "vendor" / "axe.min.js"
File = dict[str, Any]

#: Drops files, or a folder of files, as the system's file manager would.
_DROP = """([target, files]) => {
  const entry = (file, path) => ({
    isFile: true, isDirectory: false, name: file.name, fullPath: `/${path}`,
    file: (done) => done(file),
  });
  const folder = (name, inside) => ({
    isFile: false, isDirectory: true, name, fullPath: `/${name}`,
    createReader: () => {
      const parts = [inside, []];
      return { readEntries: (done) => done(parts.shift()) };
    },
  });
  const transfer = new DataTransfer();
  const folders = new Map();
  for (const { path, type, data } of files) {
    const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
    const file = new File([bytes], path.split("/").pop(), { type });
    const [first, ...rest] = path.split("/");
    if (rest.length) folders.set(first, [...(folders.get(first) ?? []), entry(file, path)]);
    else transfer.items.add(file);
  }
  const event = (kind) => {
    const made = new DragEvent(kind, { bubbles: true, cancelable: true, dataTransfer: transfer });
    if (folders.size) {
      const items = [...folders].map(([name, inside]) => (
        { kind: "file", webkitGetAsEntry: () => folder(name, inside) }));
      Object.defineProperty(made, "dataTransfer", {
        value: { types: ["Files"], items, files: [] } });
    }
    return made;
  };
  for (const kind of ["dragenter", "dragover", "drop"]) target.dispatchEvent(event(kind));
}"""

_PASTE = """([name, type, data]) => {
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  const clipboardData = new DataTransfer();
  clipboardData.items.add(new File([bytes], name, { type }));
  document.dispatchEvent(new ClipboardEvent("paste", { bubbles: true, clipboardData }));
}"""


#: Lines of code, the confusion matrix and the row of filters may be pushed; words may be cut.
_OVERFLOWING = """() => [...document.querySelectorAll("*")].filter((one) => {
  const style = getComputedStyle(one);
  const page = one === document.documentElement;
  return (page || style.overflowX !== "visible") && style.textOverflow !== "ellipsis"
    && one.checkVisibility() && one.scrollWidth > one.clientWidth + 1
    && !one.matches("pre, .scroll-x, .hidden, svg, svg *, input, select, progress")
    && !(innerWidth < 760 && one.matches(".filters"));
}).map((one) => `${one.tagName} ${one.className}: ${one.scrollWidth} in ${one.clientWidth}`)"""


class StudioPage:
    """A window with the studio in it.

    Attributes:
        page: Playwright's page.
        errors: What the browser complained about; tests end with none.
        strangers: Requests that went to another host than the server.
    """

    def __init__(self, page: Page, running: RunningStudio) -> None:
        self.page, self._running = page, running
        self.errors: list[str] = []
        self.strangers: list[str] = []
        self.expected: tuple[str, ...] = ()
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", self._asked)

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            text = f"{message.text} {message.location.get('url', '')}"
            if not any(words in text for words in self.expected):
                self.errors.append(text)

    def _asked(self, request: Request) -> None:
        host = urlsplit(self._running.address).netloc
        address = urlsplit(request.url)
        if address.scheme not in ("blob", "data") and address.netloc != host:
            self.strangers.append(request.url)

    def expect_complaint(self, *words: str) -> None:
        """From now on, the browser may say this on its console."""
        self.expected = words

    # What one does

    def new_project(self, name: str, model: str | None = None) -> None:
        """Makes a project on the page, or by the API if it needs a model that is not listed."""
        if model is not None:
            made = self._running.post("/projects", name=name, model=model)
            self.page.goto(f"{self._running.address}/#/p/{made['id']}")
        else:
            self.page.get_by_label("Name").fill(name)
            self.page.get_by_role("button", name="Create").click()
        expect(self.page.get_by_role("heading", name=name, level=1)).to_be_visible()

    def new_class(self, name: str) -> None:
        """Types a name below the classes."""
        self.page.get_by_label("Name of the new class").fill(name)
        self.page.keyboard.press("Enter")
        expect(self.box(name)).to_be_visible()

    def drop(self, target: Locator, files: Sequence[File]) -> None:
        """Drops files from outside; a name with a slash comes in a folder."""
        sent = [
            {
                "path": file["name"],
                "type": file["mimeType"],
                "data": base64.b64encode(file["buffer"]).decode(),
            }
            for file in files
        ]
        self.page.evaluate(_DROP, [target.element_handle(), sent])

    def paste(self, file: File) -> None:
        """Pastes a picture."""
        data = base64.b64encode(file["buffer"]).decode()
        self.page.evaluate(_PASTE, [file["name"], file["mimeType"], data])

    def choose(self, button: Locator, files: Sequence[File]) -> None:
        """Chooses files in the dialog that a button opens."""
        with self.page.expect_file_chooser() as chooser:
            button.click()
        chooser.value.set_files(list(files))  # type: ignore[arg-type]

    def filter(self, name: str) -> None:
        """Shows only some photos."""
        self.page.get_by_role("group", name="Which photos").get_by_role("button", name=name).click()

    def view(self, name: str) -> None:
        """Goes to a part of the page."""
        self.page.get_by_role("navigation").get_by_role("button", name=name).click()

    # What one sees

    def box(self, name: str) -> Locator:
        """The box of a class."""
        named = self.page.get_by_role("button", name=f"{name}: ")
        return self.page.get_by_role("listitem").filter(has=named)

    @property
    def photos(self) -> Locator:
        """The photos of the grid that are drawn."""
        return self.grid.get_by_role("option")

    @property
    def grid(self) -> Locator:
        """The grid."""
        return self.page.get_by_role("listbox")

    @property
    def answer(self) -> Locator:
        """The part that answers."""
        return self.page.get_by_role("region", name="Try it")

    @property
    def selection(self) -> Locator:
        """What to do with the selected photos."""
        return self.page.get_by_role("region", name="What to do with the selected photos")

    def counts(self, name: str, number: int) -> None:
        """Waits until a class has so many photos."""
        photos = "photo" if number == 1 else "photos"
        button = self.page.get_by_role("button", name=f"{name}: {number} {photos}. Show them")
        expect(button).to_be_visible()

    def says(self, words: str) -> None:
        """Waits for a message at the foot of the page."""
        expect(self.page.locator(".notices")).to_contain_text(words)

    def drawn(self) -> None:
        """Waits until all pictures in sight are there."""
        expect(self.grid.locator(".waiting")).to_have_count(0)
        self.page.wait_for_function(
            "() => [...document.images].every((one) => one.complete || !one.checkVisibility()"
            " || one.getBoundingClientRect().top > innerHeight)"
        )

    def overflowing(self) -> list[str]:
        """What is wider inside than outside, apart from what is meant to be pushed sideways."""
        found: list[str] = self.page.evaluate(_OVERFLOWING)
        return found

    def violations(self, *rules: str) -> list[str]:
        """What axe-core finds wrong for people who cannot see or point, by all rules or by some."""
        if not self.page.evaluate("() => 'axe' in window"):
            self.page.evaluate(_AXE.read_text("utf-8"))  # the page's policy forbids a script tag
        options = {"runOnly": list(rules)} if rules else {}
        found = self.page.evaluate("(options) => axe.run(options)", options)["violations"]
        return [
            f"{one['id']}: {one['help']}: {node['target']} {node.get('failureSummary', '')}"
            for one in found
            for node in one["nodes"]
        ]
