"""The site builds without a dead link, loads nothing from elsewhere, and has all of the program."""

import html
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import tadam
from built_site import ROOT, built_site, mkdocs
from site_pages.command_reference import commands
from site_pages.http_reference import documents

DOCS = ROOT / "docs"
Point = npt.NDArray[np.float64]
#: Elements that make a browser fetch something; links in the text do not.
LOADED = re.compile(
    r"<(?:script|img|iframe|source|video|link)\b[^>]*?\b(?:src|href)=\"?([^\"\s>]+)"
)
PROTOTYPES = np.array([[3, 2.5], [9, 2.8], [5.6, 6.3]])
ASKED = np.array([5.4, 3.4])
QUERIES = [
    (0, 2, 1.4), (0, 4.1, 3.3), (0, 6.7, 2.2), (1, 8.1, 1.5), (1, 10.4, 3.5), (1, 7.3, 4.1),
    (2, 4.6, 7.1), (2, 7.4, 5.9), (2, 3.9, 4.9),
]  # fmt: skip


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_site(tmp_path_factory)


def page_words(page: Path) -> str:
    """The text of a page as a reader sees it."""
    body = page.read_text(encoding="utf-8").partition("<article")[2].partition("</article>")[0]
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", body)).split())


def test_every_page_of_the_docs_is_on_the_site_and_in_the_search(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    pages = {page.relative_to(DOCS).with_suffix(".html").as_posix() for page in DOCS.rglob("*.md")}
    assert pages - {"index.html"} <= found
    assert all((site / page).is_file() for page in pages)
    assert any("relative Mahalanobis" in entry["text"] for entry in index["docs"])
    script = (site / "search" / "search_index.js").read_text(encoding="utf-8")
    assert script.startswith("var __index = ")  # the search's file:// copy


def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    loaded: list[str] = []
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        loaded += [f"{page.name}: {link}" for link in LOADED.findall(text) if "//" in link]
    for sheet in site.rglob("*.css"):
        links = re.findall(r"(?:url\(|@import)\s*[\"']?([^\"')\s]+)", sheet.read_text())
        loaded += [f"{sheet.name}: {link}" for link in links if "//" in link.partition(",")[0]]
    assert len(list(site.rglob("*.html"))) > 40
    assert loaded == []


def test_every_command_and_option_is_in_the_reference(site: Path) -> None:
    text = page_words(site / "reference" / "commands.html")
    sections = dict(re.findall(r"(tadam [\w -]+?)¶ (.*?)(?=tadam [\w -]+?¶|$)", text))
    found = dict(commands())
    assert len(found) > 35
    assert set(sections) == set(found)
    for name, command in found.items():
        flags = [flag for p in command.params for flag in p.opts if flag.startswith("-")]
        missing = [f for f in flags if f not in ("-h", "--help") and f not in sections[name]]
        assert missing == [], name
        assert " ".join(command.help.split()) in sections[name]


def settings_of_a_new_process() -> list[tuple[str, str]]:
    """Key and meaning of each: other tests register methods of their own in this process."""
    code = (
        "import json; from tadam.config.documentation import settings; "
        "print(json.dumps([(s.key, s.meaning) for s in settings()]))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found: list[tuple[str, str]] = json.loads(said.stdout)
    return found


def test_every_setting_is_in_the_reference_with_default_and_meaning(site: Path) -> None:
    text = page_words(site / "reference" / "settings.html")
    for key, meaning in settings_of_a_new_process():
        assert f"{key} " in text, key
        assert " ".join(meaning.replace("`", "").split()) in text.replace("*", ""), key
    assert "episode.way 5 " in text


def test_every_public_name_and_every_request_is_in_the_reference(site: Path) -> None:
    names = (site / "reference" / "python.html").read_text(encoding="utf-8")
    public = [name for name in tadam.__all__ if name != "__version__"]
    assert [name for name in public if not re.search(rf'id="tadam\.[\w.]*\b{name}"', names)] == []
    requests = page_words(site / "reference" / "http.html")
    served = [
        f"{method.upper()} {path.removeprefix('/api/v1')} "
        for _, document in documents()
        for path, methods in document["paths"].items()
        for method in methods
    ]
    assert len(served) > 30
    assert [request for request in served if request not in requests] == []


def test_changelog_cards_and_benchmarks_are_what_the_repository_has(site: Path) -> None:
    reference = site / "reference"
    assert tadam.__version__ in page_words(reference / "changelog.html")
    assert "middle square of a photo at 224 pixels" in page_words(reference / "model-imagenet.html")
    text = page_words(reference / "benchmarks.html")
    run = json.loads((DOCS / "bench.json").read_text(encoding="utf-8"))
    assert all(row["name"] in text for row in run["measurements"])
    first = next(r for r in run["measurements"] if r["unit"] == "x")
    assert f"{first['setting']} {first['value']:.2f} times" in text


def test_a_link_that_leads_nowhere_fails_the_build(tmp_path: Path) -> None:
    links = ("nowhere.md", "index.md#no-such-section", "../LICENSE")
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text("# Page\n\n" + "\n".join(f"[away]({link})" for link in links))
    config = tmp_path / "mkdocs.yml"
    config.write_text(
        f"INHERIT: {ROOT / 'mkdocs.yml'}\ndocs_dir: {docs}\nnav: [index.md]\nhooks: []\n"
        "plugins: {search: {}}\ntheme: {name: mkdocs, logo: null, favicon: null}\nwatch: []\n"
        "extra_css: []\nextra_javascript: []\n"
    )
    done = mkdocs("build", "--strict", "-f", config, "-d", tmp_path / "out")
    assert done.returncode != 0
    assert [link for link in links if f"'{link}'" not in done.stderr] == []
    assert "Aborted with 3 warnings in strict mode" in done.stdout, done.stderr


def shares(point: Point, alpha: float) -> Point:
    distances = np.linalg.norm(PROTOTYPES - point, axis=1)
    powers = np.exp(-alpha * (distances - distances.min()))
    found: Point = powers / powers.sum()
    return found


def still_moves(own: int, point: Point, alpha: float) -> bool:
    weights = np.eye(3)[own] - shares(point, alpha)
    away = PROTOTYPES - point
    directions = away / np.linalg.norm(away, axis=1, keepdims=True)
    return bool(np.linalg.norm(weights @ directions) >= 0.05)


def test_the_table_below_the_slider_is_the_softmax_of_scaled_distances() -> None:
    page = (DOCS / "explain" / "pictures.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\d.]+) \| (\d+) % \| (\d+) % \| (\d+) % \| (\d) of 9 \|$", page, re.M)
    assert len(rows) == 4
    for alpha, *percents, moving in rows:
        expected = 100 * shares(ASKED, float(alpha))
        assert [int(p) for p in percents] == np.rint(expected).astype(int).tolist()
        count = sum(still_moves(own, np.array([x, y]), float(alpha)) for own, x, y in QUERIES)
        assert int(moving) == count


def test_the_figures_of_conditioning_are_those_of_the_findings() -> None:
    page = (DOCS / "explain" / "pictures.md").read_text(encoding="utf-8")
    findings = (DOCS / "explain" / "findings.md").read_text(encoding="utf-8")
    drawn = re.findall(r">([+-]\d+\.\d+ ± \d+\.\d+)<", page)
    assert len(drawn) == 5
    assert [figure for figure in drawn if figure not in findings] == []
    bars = [
        float(width) for width in re.findall(r'<rect[^>]* width="([\d.]+)" height="16"/>', page)
    ]
    assert bars == pytest.approx([23 * abs(float(figure.split()[0])) for figure in drawn], abs=1)


def test_the_shell_completes_a_command() -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "_TADAM_COMPLETE": "complete_bash",
        "COMP_WORDS": "tadam sugg",
        "COMP_CWORD": "1",
    }
    done = subprocess.run(
        [sys.executable, "-m", "tadam"], env=environment, capture_output=True, text=True
    )
    assert done.stdout.split() == ["suggest"], done.stderr


def test_the_lines_of_python_on_the_install_page_run(capsys: pytest.CaptureFixture[str]) -> None:
    page = (DOCS / "start" / "install.md").read_text(encoding="utf-8")
    lines = re.findall(r'^python -c "(.+)"$', page, re.M)
    for line, answers in zip(lines, (("True", "False"), ("native", "plain PyTorch")), strict=True):
        exec(line, {})
        assert capsys.readouterr().out.startswith(answers)


def test_the_makefile_zips_what_it_builds(tmp_path: Path, site: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    [line] = re.findall(r"-m (zipfile -c) dist/tadam-docs.zip site$", makefile, re.M)
    target = tmp_path / "tadam-docs.zip"
    subprocess.run([sys.executable, "-m", *line.split(), str(target), str(site)], check=True)
    with zipfile.ZipFile(target) as archive:
        assert "site/index.html" in archive.namelist()
