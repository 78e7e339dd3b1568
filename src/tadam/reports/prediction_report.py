"""`tadam predict --report`: where every image went, on one self-contained page."""

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tadam.classify.predictions import Prediction
from tadam.reports.html import inline_image, page, section
from tadam.reports.photo_page import PHOTO_STYLE, class_name, photos, rough_percent, tile, tiles
from tadam.reports.prediction_map import STYLE as MAP_STYLE
from tadam.reports.prediction_map import Map, class_colours
from tadam.reports.strangeness_words import is_unusual, strangeness_words
from tadam.system.files import write_text

if TYPE_CHECKING:
    from tadam.classify.classifier import FewShotClassifier

#: Most thumbnails on the page, to bound its size: uncertain, unknown, sorted, labelled.
_UNCERTAIN, _UNKNOWN, _SORTED, _SUPPORT = 40, 40, 400, 400
_MOST_POINTS = 2000
#: Up to this many classes are shown expanded.
_OPEN = 12
_WHERE = "<code>tadam predict --csv</code> lists all of them"

_STYLE = """
.support img { outline: 2px solid var(--soft); outline-offset: 1px; width: 72px; height: 72px; }
.support { margin-bottom: 16px; } .scroll a { color: inherit; }
@media (max-width: 600px) {
  .counts :is(th, td):is(:nth-child(3), :nth-child(5)) { display: none; } }
"""


def write_report(
    path: Path, classifier: "FewShotClassifier", predictions: Sequence[Prediction]
) -> None:
    """Writes the page.

    Args:
        path: The page's file; replaced if it exists.
        classifier: A fitted one.
        predictions: The results of its `classify`, with thumbnails.
    """
    html = _Page(path, classifier, predictions).html()
    # A file name may not be valid text; what cannot be written shows as ?
    write_text(path, html.encode("utf-8", "replace").decode())


def runner_up(prediction: Prediction) -> int:
    """Number of the second most probable class."""
    return int(np.argsort(-prediction.probabilities, kind="stable")[1])


def uncertain(prediction: Prediction) -> bool:
    """Whether another class is at least half as probable as the answer."""
    second = float(prediction.probabilities[runner_up(prediction)])
    return not prediction.unknown and second > prediction.confidence / 2


class _Page:
    def __init__(
        self, path: Path, classifier: "FewShotClassifier", predictions: Sequence[Prediction]
    ) -> None:
        self.path, self.classifier = path, classifier
        self.names = [str(label) for label in classifier.classes_.tolist()]
        self.colours = class_colours(len(self.names))
        self.all = [
            p if p.path else replace(p, path=f"image {number}")
            for number, p in enumerate(predictions, start=1)
        ]
        self.unknown = sorted(
            (p for p in self.all if p.unknown), key=lambda p: -(p.strangeness or 0)
        )
        self.uncertain = sorted(filter(uncertain, self.all), key=_odds)
        self.of_class: list[list[Prediction]] = [[] for _ in self.names]
        for p in sorted(self.all, key=lambda p: p.confidence):
            if not p.unknown:
                self.of_class[p.nearest].append(p)

    def html(self) -> str:
        count, way = len(self.all), len(self.names)
        sections = []
        if self.uncertain:
            sections.append(
                section(
                    "Look at these first",
                    self._tiles(self.uncertain, _UNCERTAIN),
                    f"Uncertain: for {photos(len(self.uncertain))} another class is at least half "
                    "as probable as the answer. The closest calls come first.",
                )
            )
        if self.unknown:
            sections.append(
                section(
                    "None of these",
                    self._tiles(self.unknown, _UNKNOWN),
                    f"{photos(len(self.unknown)).capitalize()} unlike every class, the "
                    "strangest first, each with the class it resembles most.",
                )
            )
        sections += [section("How many of each", self._counts()), self._map(), self._classes()]
        intro = (
            f'<p class="soft">{photos(count).capitalize()} sorted into {way} classes from '
            f"{photos(len(self.classifier.support_labels_), 'labelled ')}: "
            f"{len(self.uncertain):,} uncertain, {len(self.unknown):,} unknown. Click on a photo "
            "to open it.</p>"
        )
        return page("Sorted photos", intro, sections, PHOTO_STYLE + _STYLE + MAP_STYLE)

    def _tile(self, p: Prediction) -> str:
        answer, second = p.nearest, runner_up(p)
        name, words = self.names[answer], strangeness_words(p.strangeness)
        text = f"{class_name(name)} {escape(rough_percent(p.confidence))}"
        if p.unknown:
            text = f"most like {class_name(name)}, {words}"
        elif uncertain(p):
            share = escape(rough_percent(float(p.probabilities[second])))
            text += f", or {class_name(self.names[second])} {share}"
        if is_unusual(words) and not p.unknown:
            text += f", {words}"
        colour = "var(--soft)" if p.unknown else self.colours[answer]
        said = ", ".join(filter(None, (rough_percent(p.confidence), words)))
        bar = (
            f'<div class="sure" title="{escape(name)}: {escape(said)}">'
            f'<i style="width:{100 * p.confidence:.0f}%;background:{colour}"></i></div>'
        )
        return tile(self.path, str(p.path), p.thumbnail, text, str(p.label), bar)

    def _tiles(self, chosen: Sequence[Prediction], most: int) -> str:
        return tiles([self._tile(p) for p in chosen[:most]], len(chosen), _WHERE)

    def _counts(self) -> str:
        shots = np.bincount(self.classifier.support_labels_, minlength=len(self.names))
        largest = max(1, *map(len, self.of_class))
        rows = [
            f'<tr><td><span class="dot" style="background:{colour}"></span>'
            f'<a href="#class-{k}">{class_name(name)}</a></td>'
            f'<td class="number">{len(found):,}</td><td><div class="bar"><i style="width:'
            f'{100 * len(found) / largest:.1f}%;background:{colour}"></i></div></td>'
            f'<td class="number">{_mean_confidence(found)}</td>'
            f'<td class="number">{shots[k]:,}</td></tr>'
            for k, (name, colour, found) in enumerate(
                zip(self.names, self.colours, self.of_class, strict=True)
            )
        ]
        head = "<tr><th>class</th><th>photos</th><th></th><th>mean confidence</th>"
        table = f"<table>{head}<th>labelled</th></tr>{''.join(rows)}</table>"
        return f'<div class="scroll counts">{table}</div>'

    def _map(self) -> str:
        z = self.classifier.standardised(self.classifier.support_embeddings_)
        c = np.stack(
            [z[self.classifier.support_labels_ == k].mean(0) for k in range(len(self.names))]
        )
        shown = _evenly(len(self.all), _MOST_POINTS)
        support = _evenly(len(z), _MOST_POINTS)
        chosen = [self.all[i] for i in shown]
        images = (
            self.classifier.standardised(np.stack([p.embedding for p in chosen]))
            if chosen
            else c[:0]
        )
        drawing = Map(self.names, self.colours, np.concatenate([c, z[support], images]), False)
        titles = [
            f"{Path(str(p.path)).name}: {p.label}, {rough_percent(p.confidence)}" for p in chosen
        ]
        drawing.images(images, [None if p.unknown else p.nearest for p in chosen], titles)
        drawing.support(z[support], self.classifier.support_labels_[support].tolist())
        drawing.prototypes(c)
        few = len(chosen) < len(self.all)
        some = f" {len(chosen):,} of the {len(self.all):,} photos are shown." if few else ""
        return section(
            "Map",
            drawing.svg(),
            "Photos that look alike to the network are close together. A diamond is the middle of "
            "a class, rings are labelled photos, dots sorted ones and crosses unknown ones."
            f"{some} Hover over a point for its name. A map is flat: this one shows "
            f"{100 * drawing.share:.0f}% of the differences.",
        )

    def _classes(self) -> str:
        way = len(self.names)
        tiles, labelled = max(1, _SORTED // way), max(1, _SUPPORT // way)
        parts, thumbnails = [], self.classifier.support_thumbnails_
        for k, (name, found) in enumerate(zip(self.names, self.of_class, strict=True)):
            support = "".join(
                inline_image(jpeg, "jpeg", 72, f"labelled {name}")
                for jpeg in thumbnails[k][:labelled]
            )
            body = self._tiles(found, tiles) if found else '<p class="soft">No photos.</p>'
            parts.append(
                f'<section id="class-{k}"><details{" open" if way <= _OPEN else ""}><summary>'
                f'<span class="dot" style="background:{self.colours[k]}"></span>'
                f"{class_name(name)}: {photos(len(found))}</summary>"
                '<p class="soft small">Labelled:</p>'
                f'<div class="pictures support">{support}</div><p class="soft small">Sorted, '
                f"least certain first:</p>{body}</details></section>\n"
            )
        return "".join(parts)


def _odds(p: Prediction) -> float:
    """Odds of the answer against the runner-up."""
    return p.confidence / max(float(p.probabilities[runner_up(p)]), 1e-12)


def _mean_confidence(found: Sequence[Prediction]) -> str:
    return escape(rough_percent(sum(p.confidence for p in found) / len(found))) if found else "-"


def _evenly(count: int, most: int) -> list[int]:
    """At most `most` of 0..count-1, evenly spread."""
    return [int(i) for i in np.linspace(0, count - 1, min(count, most))]
