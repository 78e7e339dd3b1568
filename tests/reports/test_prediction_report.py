"""The report on predictions: order, sections, escaping, a bounded size, nothing fetched."""

import re
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest

from tadam.classify.predictions import Prediction
from tadam.reports.prediction_report import write_report
from tadam.reports.strangeness_words import strangeness_words

JPEG = b"\xff\xd8 not decoded here"
_VOID = {"meta", "img", "br"}


class Tags(HTMLParser):
    """Every start tag with its attributes; fails if tags are not balanced."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[Any]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def classifier_of(names: list[str], shots: int = 2) -> SimpleNamespace:
    """The parts of a fitted classifier that the report reads."""
    random = np.random.default_rng(0)
    way = len(names)
    return SimpleNamespace(
        classes_=np.array(names),
        reject_threshold_=1.0,
        support_labels_=np.repeat(np.arange(way), shots),
        support_embeddings_=random.normal(size=(way * shots, 4)).astype(np.float32),
        support_thumbnails_=[[JPEG] * min(shots, 8) for _ in names],
        standardised=lambda z: z,
    )


def prediction(
    names: list[str], probabilities: list[float], path: str | None, unknown: float = 0.0
) -> Prediction:
    p = np.array(probabilities, dtype=np.float32)
    label = "unknown" if unknown else names[int(p.argmax())]
    embedding = np.full(4, p[0], dtype=np.float32)
    return Prediction(path, label, p, unknown or 0.1, bool(unknown), embedding, JPEG)


def report(tmp_path: Path, names: list[str], predictions: list[Prediction]) -> str:
    write_report(tmp_path / "r.html", classifier_of(names), predictions)  # type: ignore[arg-type]
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    Tags(text)
    return text


def tiles(text: str, start: str, end: str) -> list[str]:
    """File names of the tiles between two texts, in order."""
    part = text[text.index(start) : text.index(end, text.index(start))]
    return re.findall(r'class="file" title="[^"]*">([^<]+)<', part)


NAMES = ["aster", "rose", "tulip"]


def test_uncertain_images_come_first_then_unknown_then_classes_by_confidence(
    tmp_path: Path,
) -> None:
    text = report(
        tmp_path,
        NAMES,
        [
            prediction(NAMES, [0.9, 0.1, 0.0], "in/sure.jpg"),
            prediction(NAMES, [0.5, 0.4, 0.1], "in/close.jpg"),
            prediction(NAMES, [0.7, 0.2, 0.1], "in/fair.jpg"),
            prediction(NAMES, [0.34, 0.33, 0.33], "in/closest.jpg"),
            prediction(NAMES, [0.1, 0.9, 0.0], "in/rose.jpg"),
            prediction(NAMES, [0.5, 0.5, 0.0], "in/far.jpg", unknown=1.2),
            prediction(NAMES, [0.9, 0.1, 0.0], "in/farther.jpg", unknown=3.0),
        ],
    )
    first, none = "Look at these first", "None of these"
    assert tiles(text, first, none) == ["closest.jpg", "close.jpg"]
    assert tiles(text, none, "How many of each") == ["farther.jpg", "far.jpg"]
    assert tiles(text, 'id="class-0"', 'id="class-1"') == [
        "closest.jpg",
        "close.jpg",
        "fair.jpg",
        "sure.jpg",
    ]
    assert tiles(text, 'id="class-1"', 'id="class-2"') == ["rose.jpg"]
    words = re.sub(r"<[^>]+>", "", text)
    assert "aster 50%, or rose 40%" in words
    assert "most like aster, unlike anything labelled" in words
    assert "most like aster, very unusual" in words
    assert "aster 90%sure.jpg" in words  # typical: nothing to say
    assert "7 photos sorted into 3 classes from 6 labelled photos: 2 uncertain, 2 unknown" in text
    assert text.count('alt="labelled aster"') == 2
    assert "No photos." in text  # of tulips


def test_names_cannot_smuggle_html_in(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    names = [evil, 'x" onload="alert(2)', "&amp;"]
    paths = [f"{evil}.jpg", '"><img src=http://evil.example/x onerror=alert(3)>.jpg', "a&b.jpg"]
    predictions = [prediction(names, [0.4, 0.35, 0.25], path) for path in paths]
    predictions.append(prediction(names, [0.2, 0.6, 0.2], paths[1], unknown=9.0))
    text = report(tmp_path, names, predictions)
    found = Tags(text).found
    assert "script" not in {tag for tag, _ in found}
    assert not [name for _, attributes in found for name in attributes if name.startswith("on")]
    assert {tag for tag, _ in found} <= {
        *("html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "p", "section"),
        *("div", "figure", "img", "i", "figcaption", "span", "table", "tr", "th", "td", "a"),
        *("svg", "g", "circle", "path", "text", "details", "summary"),
    }
    assert "&lt;script&gt;" in text
    assert "&amp;amp;" in text


def test_a_file_name_that_is_not_text_is_shown_as_far_as_possible(tmp_path: Path) -> None:
    assert "b?d.jpg" in report(
        tmp_path, NAMES, [prediction(NAMES, [0.9, 0.1, 0.0], "b\udcffd.jpg")]
    )


def test_the_page_fetches_nothing_and_knows_dark_and_narrow_screens(tmp_path: Path) -> None:
    text = report(tmp_path, NAMES, [prediction(NAMES, [0.9, 0.1, 0.0], "http://x.example/a.jpg")])
    for tag, attributes in Tags(text).found:
        assert (attributes.get("src") or "data:").startswith("data:")
        href = attributes.get("href") or "#"
        assert href.startswith("#") or (tag == "a" and ":" not in href and not href.startswith("/"))
    assert "url(" not in text
    assert "@import" not in text
    assert "prefers-color-scheme: dark" in text
    assert "max-width: 600px" in text
    assert 'name="viewport"' in text


def test_three_hundred_classes_and_five_thousand_images_stay_a_page(tmp_path: Path) -> None:
    names = [f"class {k:03}" for k in range(300)]
    random = np.random.default_rng(0)
    # half of them in one class, a tenth unknown, many of them uncertain
    predictions = []
    for i in range(5000):
        p = random.dirichlet(np.full(300, 0.02))
        if i % 2:
            p = np.eye(300)[7] * 0.9 + p * 0.1
        predictions.append(
            prediction(names, p.tolist(), f"{i}.jpg", unknown=2.0 if i % 10 == 0 else 0.0)
        )
    text = report(tmp_path, names, predictions)
    assert text.count("<img") <= 40 + 40 + 600 + 400
    assert text.count('class="image"') + text.count('class="unknown"') == 2000
    assert len(text) < 3_000_000
    inside = text[text.index('id="class-7"') : text.index('id="class-8"')]
    shown = inside.count('class="file"')
    more = re.search(r"and ([\d,]+) more", inside)
    assert more is not None
    assert "more; <code>tadam predict --csv</code> lists all of them." in inside
    count = sum(p.label == names[7] for p in predictions)
    assert shown + int(more[1].replace(",", "")) == count > 2000
    assert "<details open" not in text


@pytest.mark.parametrize("count", [0, 1])
def test_two_classes_and_hardly_an_image_make_a_page_too(tmp_path: Path, count: int) -> None:
    names = ["a", "b"]
    text = report(tmp_path, names, [prediction(names, [0.9, 0.1], None)] * count)
    assert f"{count} photo{'' if count == 1 else 's'} sorted into 2 classes" in text
    assert "Look at these first" not in text
    assert "None of these" not in text
    assert tiles(text, 'id="class-0"', 'id="class-1"') == ["image 1"] * count
    assert "<details open" in text


def test_an_image_without_thumbnail_keeps_its_place(tmp_path: Path) -> None:
    p = prediction(NAMES, [0.9, 0.1, 0.0], "a.jpg")
    text = report(tmp_path, NAMES, [Prediction(**{**vars(p), "thumbnail": None})])
    assert '<div class="none"></div>' in text
    assert text.count("<img") == 6  # the labelled ones


def test_a_tile_opens_its_photo_wherever_the_page_is(tmp_path: Path) -> None:
    paths = [tmp_path / "in" / name for name in ("a b.jpg", "100%#?.jpg", "<x>.jpg")]
    (tmp_path / "pages").mkdir()
    predictions = [prediction(NAMES, [0.9, 0.1, 0.0], str(path)) for path in paths]
    write_report(tmp_path / "pages" / "r.html", classifier_of(NAMES), predictions)  # type: ignore[arg-type]
    text = (tmp_path / "pages" / "r.html").read_text(encoding="utf-8")
    links = [a["href"] for tag, a in Tags(text).found if tag == "a" and a["href"][0] != "#"]  # type: ignore[index]
    found = [(tmp_path / "pages" / unquote(str(link))).resolve() for link in links]
    assert found == [path.resolve() for path in paths]
    titles = [a.get("title") for tag, a in Tags(text).found if tag == "a" and "title" in a]
    assert titles == [str(path) for path in paths]


def test_long_names_are_shortened_and_whole_on_hovering(tmp_path: Path) -> None:
    names = ["x" * 70, "b"]
    text = report(tmp_path, names, [prediction(names, [0.9, 0.1], "a.jpg")])
    assert f'<span title="{"x" * 70}">{"x" * 39}…</span>' in text


def test_words_for_strangeness_begin_where_most_labelled_photos_end() -> None:
    for strangeness, words in [
        (-0.4, "typical"),
        (0.6, "fairly typical"),
        (0.9, "a little unusual"),
        (1.0, "very unusual"),
        (7.0, "unlike anything labelled"),
    ]:
        assert strangeness_words(strangeness) == words
