"""The site in Chromium: light and dark, large and small, by keyboard; no other host is asked."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from built_site import ROOT, built_site

PAGES = (
    "index.html",
    "start/first-classifier.html",
    "explain/pictures.html",
    "reference/benchmarks.html",
    "how-to/machines.html",  # a table with an empty corner
)
#: What axe looks for in light and in dark, where only the colours differ; nothing is everything.
SCHEMES: dict[Literal["light", "dark"], tuple[str, ...]] = {
    "light": (),
    "dark": ("color-contrast",),
}
_AXE = (ROOT / "tests" / "browser" / "vendor" / "axe.min.js").read_text(encoding="utf-8")


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        """Says nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_site(tmp_path_factory)


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


@contextmanager
def opened(browser: Browser, address: str, width: int = 1280) -> Iterator[Page]:
    """A window; at the end, nothing was complained about and no other host was asked."""
    context = browser.new_context(viewport={"width": width, "height": 860})
    page = context.new_page()
    complaints: list[str] = []
    strangers: list[str] = []
    page.on(
        "console",
        lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None,
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    own = (address, "file:", "data:", "blob:")
    page.on(
        "request",
        lambda asked: None if asked.url.startswith(own) else strangers.append(asked.url),
    )
    yield page
    context.close()
    assert complaints == []
    assert strangers == []


def violations(page: Page, *rules: str) -> list[str]:
    """What axe-core finds wrong for people who cannot see or point, by all rules or by some."""
    page.evaluate(_AXE)
    options = {"runOnly": list(rules)} if rules else {}
    found = page.evaluate("(options) => axe.run(options)", options)["violations"]
    return [
        f"{one['id']}: {one['help']}: {node['target']} {node.get('failureSummary', '')}"
        for one in found
        for node in one["nodes"]
    ]


def test_axe_finds_nothing_light_and_dark(browser: Browser, address: str) -> None:
    found: list[str] = []
    for scheme, rules in SCHEMES.items():
        with opened(browser, address) as page:
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            for name in PAGES:
                page.goto(address + name)
                shown = page.locator("body").get_attribute("data-md-color-scheme")
                assert shown == {"light": "default", "dark": "slate"}[scheme]
                found += [f"{name}, {scheme}: {v}" for v in violations(page, *rules)]
    assert not found, "\n".join(found)


def test_no_page_is_wider_than_a_phone(browser: Browser, address: str) -> None:
    with opened(browser, address, 390) as page:
        for name in (*PAGES, "reference/commands.html", "reference/http.html", "results.html"):
            page.goto(address + name)
            assert page.evaluate("() => document.documentElement.scrollWidth") == 390, name
        page.goto(address + PAGES[0])
        assert violations(page) == []


def test_the_slider_works_by_keyboard_and_says_what_the_table_says(
    browser: Browser, address: str
) -> None:
    text = (ROOT / "docs" / "explain" / "pictures.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\d.]+) \| (\d+ %) \| (\d+ %) \| (\d+ %) \| (\d of 9) \|$", text, re.M)
    with opened(browser, address) as page:
        page.goto(f"{address}explain/pictures.html")
        slider = page.get_by_role("slider", name="alpha")
        slider.focus()
        page.keyboard.press("Home")
        for alpha, *shares, moving in rows:
            expect(slider).to_have_attribute("aria-valuetext", alpha)
            expect(page.locator(".toy-bars li > span:last-child")).to_have_text(shares)
            expect(page.get_by_role("status")).to_contain_text(f"{moving} queries still move")
            for _ in range(40):
                page.keyboard.press("ArrowRight")
        page.keyboard.press("Home")
        assert page.locator(".toy-arrow:not(.toy-still)").count() == 9


def test_the_search_finds_a_page_also_from_the_disk(
    browser: Browser, address: str, site: Path
) -> None:
    for start in (f"{address}index.html", (site / "index.html").as_uri()):
        with opened(browser, address) as page:
            page.goto(start)
            page.wait_for_load_state("networkidle")
            page.get_by_role("textbox", name="Search").click()
            page.keyboard.type("strangeness")
            results = page.locator(".md-search-result__link")
            expect(results.first).to_be_visible()
            assert "none-of-these" in " ".join(
                link.get_attribute("href") or "" for link in results.all()
            )
