"""`tadam predict --report`: where every image went, on one self-contained page."""

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tadam.classify.predictions import Prediction
from tadam.reports.html import inline_image, page, section
from tadam.reports.prediction_map import STYLE as MAP_STYLE
from tadam.reports.prediction_map import Map, class_colours
from tadam.system.files import write_text

if TYPE_CHECKING:
    from tadam.classify.classifier import FewShotClassifier

#: Most thumbnails on the page, to bound its size: uncertain, unknown, sorted, labelled.
_UNCERTAIN, _UNKNOWN, _SORTED, _SUPPORT = 40, 40, 600, 400
_MOST_POINTS = 2000
#: Up to this many classes are shown expanded.
_OPEN = 12
_SIDE = 96

_STYLE = """
:root { color-scheme: light dark; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6eaef; --soft: #9aa7b5; --line: #313a45; --accent: #59b4dd; --paper: #1b2129;
          --ground: #12161b; }
}
img { image-rendering: auto; object-fit: cover; }
.tile { width: 96px; } .tile figcaption { overflow: hidden; overflow-wrap: anywhere; }
.tile .file { display: block; white-space: nowrap; overflow: hidden; text-overflow: ellipsis;
              color: var(--soft); }
.none { width: 96px; height: 96px; border-radius: 6px; background: var(--line); }
.sure { height: 4px; border-radius: 2px; background: var(--line); margin-top: 4px; }
.sure > i { display: block; height: 4px; border-radius: 2px; }
.dot { display: inline-block; width: 12px; height: 12px; border-radius: 50%; margin-right: 8px;
       vertical-align: -1px; }
.support img { outline: 2px solid var(--soft); outline-offset: 1px; width: 64px; height: 64px; }
.support { margin-bottom: 16px; }
.counts { max-height: 460px; overflow-y: auto; }
.counts a { color: inherit; } .counts td:first-child { overflow-wrap: anywhere; }
.pictures + p { margin: 16px 0 0; }
summary { cursor: pointer; font-size: 18px; font-weight: 600; }
details > p { margin-top: 8px; }
@media (max-width: 600px) { main { padding: 20px 10px 40px; } section { padding: 16px 14px; }
  h1 { font-size: 26px; } th, td { padding: 6px; }
  .counts :is(th, td):nth-child(3) { display: none; } }
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
    html = _Page(classifier, predictions).html()
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
    def __init__(self, classifier: "FewShotClassifier", predictions: Sequence[Prediction]) -> None:
        self.classifier = classifier
        self.names = [str(label) for label in classifier.classes_.tolist()]
        self.colours = class_colours(len(self.names))
        self.all = [
            p if p.path else replace(p, path=f"image {number}")
            for number, p in enumerate(predictions, start=1)
        ]
        self.unknown = sorted((p for p in self.all if p.unknown), key=lambda p: -p.strangeness)
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
                    f"Uncertain: for {_images(len(self.uncertain))} another class is at least half "
                    "as probable as the answer. The closest calls come first.",
                )
            )
        if self.unknown:
            sections.append(
                section(
                    "None of these",
                    self._tiles(self.unknown, _UNKNOWN),
                    f"{_images(len(self.unknown)).capitalize()} unlike every class, strangest "
                    "first, each with the class it resembles most. A typical image of your classes "
                    f"has strangeness 0; the limit is {self.classifier.reject_threshold_:.3g}.",
                )
            )
        sections += [section("How many of each", self._counts()), self._map(), self._classes()]
        intro = (
            f'<p class="soft">{_images(count).capitalize()} sorted into {way} classes from '
            f"{_images(len(self.classifier.support_labels_), 'labelled ')}: "
            f"{len(self.uncertain):,} uncertain, {len(self.unknown):,} unknown.</p>"
        )
        return page("Sorted images", intro, sections, _STYLE + MAP_STYLE)

    def _tile(self, p: Prediction) -> str:
        answer, second = p.nearest, runner_up(p)
        name, file = self.names[answer], str(p.path)
        sure = escape(f"{name} {_percent(p.confidence)}")
        if p.unknown:
            text = f"most like {escape(name)}, strangeness {p.strangeness:.2g}"
        elif uncertain(p):
            other = f"{self.names[second]} {_percent(float(p.probabilities[second]))}"
            text = f"{sure}, or {escape(other)}"
        else:
            text = sure
        image = '<div class="none"></div>'
        if p.thumbnail is not None:
            image = inline_image(p.thumbnail, "jpeg", _SIDE, f"{p.label}: {file}")
        colour = "var(--soft)" if p.unknown else self.colours[answer]
        return (
            f'<figure class="tile" title="{escape(file)}">{image}<div class="sure">'
            f'<i style="width:{100 * p.confidence:.0f}%;background:{colour}"></i></div>'
            f'<figcaption>{text}<span class="file">{escape(Path(file).name)}</span></figcaption>'
            "</figure>"
        )

    def _tiles(self, chosen: Sequence[Prediction], most: int) -> str:
        tiles = "".join(map(self._tile, chosen[:most]))
        more = len(chosen) - most
        where = "<code>tadam predict --csv</code> lists all of them"
        rest = f'<p class="soft">… and {more:,} more; {where}.</p>' if more > 0 else ""
        return f'<div class="pictures">{tiles}</div>{rest}'

    def _counts(self) -> str:
        shots = np.bincount(self.classifier.support_labels_, minlength=len(self.names))
        largest = max(1, *map(len, self.of_class))
        rows = [
            f'<tr><td><span class="dot" style="background:{colour}"></span>'
            f'<a href="#class-{k}">{escape(name)}</a></td>'
            f'<td class="number">{len(found):,}</td><td><div class="bar"><i style="width:'
            f'{100 * len(found) / largest:.1f}%;background:{colour}"></i></div></td>'
            f'<td class="number">{_mean_confidence(found)}</td>'
            f'<td class="number">{shots[k]:,}</td></tr>'
            for k, (name, colour, found) in enumerate(
                zip(self.names, self.colours, self.of_class, strict=True)
            )
        ]
        head = "<tr><th>class</th><th>images</th><th></th><th>mean confidence</th>"
        return (
            f'<div class="counts"><table>{head}<th>labelled</th></tr>{"".join(rows)}</table></div>'
        )

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
        titles = [f"{Path(str(p.path)).name}: {p.label}, {_percent(p.confidence)}" for p in chosen]
        drawing.images(images, [None if p.unknown else p.nearest for p in chosen], titles)
        drawing.support(z[support], self.classifier.support_labels_[support].tolist())
        drawing.prototypes(c)
        few = len(chosen) < len(self.all)
        some = f" {len(chosen):,} of the {len(self.all):,} images are shown." if few else ""
        return section(
            "Map",
            drawing.svg(),
            "Images that look alike to the network are close together. Diamonds are prototypes, "
            f"rings labelled images, dots sorted images and crosses unknown ones.{some} The map "
            f"shows {100 * drawing.share:.0f}% of the spread; hover over a point for its name.",
        )

    def _classes(self) -> str:
        way = len(self.names)
        tiles, labelled = max(1, _SORTED // way), max(1, _SUPPORT // way)
        parts, thumbnails = [], self.classifier.support_thumbnails_
        for k, (name, found) in enumerate(zip(self.names, self.of_class, strict=True)):
            support = "".join(
                inline_image(jpeg, "jpeg", 64, f"labelled {name}")
                for jpeg in thumbnails[k][:labelled]
            )
            body = self._tiles(found, tiles) if found else '<p class="soft">No images.</p>'
            parts.append(
                f'<section id="class-{k}"><details{" open" if way <= _OPEN else ""}><summary>'
                f'<span class="dot" style="background:{self.colours[k]}"></span>{escape(name)}: '
                f'{_images(len(found))}</summary><p class="soft small">Labelled:</p>'
                f'<div class="pictures support">{support}</div><p class="soft small">Sorted, '
                f"least certain first:</p>{body}</details></section>\n"
            )
        return "".join(parts)


def _odds(p: Prediction) -> float:
    """Odds of the answer against the runner-up."""
    return p.confidence / max(float(p.probabilities[runner_up(p)]), 1e-12)


def _images(count: int, kind: str = "") -> str:
    return f"{count:,} {kind}image{'' if count == 1 else 's'}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%" if share >= 0.01 else "<1%"


def _mean_confidence(found: Sequence[Prediction]) -> str:
    return escape(_percent(sum(p.confidence for p in found) / len(found))) if found else "-"


def _evenly(count: int, most: int) -> list[int]:
    """At most `most` of 0..count-1, evenly spread."""
    return [int(i) for i in np.linspace(0, count - 1, min(count, most))]
