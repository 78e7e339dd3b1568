"""`tadam check --report`: what a look at labelled photos found, on one self-contained page."""

import math
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from tadam.reports.html import page, section
from tadam.reports.photo_page import PHOTO_STYLE, class_name, photos, rough_percent, tile, tiles
from tadam.system.files import write_text

if TYPE_CHECKING:
    from tadam.classify.check import Check, Copies

#: Most photos shown of each fault, and rows of each table.
_PHOTOS, _ROWS = 60, 200
_ALL = "<code>tadam check --json</code> lists all of them"

_STYLE = """
.group { display: flex; flex-wrap: wrap; gap: 12px; padding: 12px 0; align-items: flex-start;
         border-bottom: 1px solid var(--line); }
.group .tile { width: 150px; } .group p { flex: 1 0 100%; margin: 0; }
.warn { color: var(--bad); font-weight: 600; }
.curve { max-width: 640px; } .curve text { font-size: 14px; fill: var(--soft); }
.curve .line { fill: none; stroke: var(--accent); stroke-width: 2.5px; }
.curve .dashed { stroke-dasharray: 6 5; } .curve circle { fill: var(--accent); }
.curve .range { stroke: var(--accent); stroke-width: 2px; opacity: 0.6; }
.curve .grid { stroke: var(--line); }
@media (max-width: 600px) { .curve text { font-size: 22px; }
  .group .tile { width: calc(50% - 6px); } .classes :is(th, td):nth-child(4) { display: none; } }
"""


def write_check_report(path: Path, check: "Check") -> None:
    """Writes the page; a file of that name is replaced."""
    html = _Page(path, check).html()
    # A file name may not be valid text; what cannot be written shows as ?
    write_text(path, html.encode("utf-8", "replace").decode())


class _Page:
    def __init__(self, path: Path, check: "Check") -> None:
        self.path, self.check = path, check

    def html(self) -> str:
        check = self.check
        right = "no photo could be left out, because every class has only one"
        if check.accuracy is not None:
            right = f"classified by the others, {rough_percent(check.accuracy)} are right"
        intro = (
            f'<p class="soft">{photos(check.images)} in {len(check.classes)} classes; {right}.</p>'
        )
        sections = [self._doubtful(), self._odd(), self._copies(), self._classes()]
        if check.confused:
            sections.append(self._confused())
        sections.append(self._more())
        return page("A look at your photos", intro, sections, PHOTO_STYLE + _STYLE)

    def _tile(self, path: str, caption: str, label: str) -> str:
        return tile(self.path, path, self.check.thumbnails.get(path), caption, label)

    def _doubtful(self) -> str:
        found = self.check.mislabelled
        if not found:
            return section("Labels to check", _nothing("No label is contradicted."))
        shown = [
            self._tile(
                p.path,
                f"{class_name(p.label)}, but looks like {class_name(p.looks_like)}",
                f"labelled {p.label}",
            )
            for p in found[:_PHOTOS]
        ]
        return section(
            "Labels to check",
            tiles(shown, len(found), _ALL),
            f"To the other photos, {photos(len(found))} look at least five times as much like "
            "another class. Some are mislabelled, others only hard. The most doubtful come first.",
        )

    def _odd(self) -> str:
        found = self.check.odd
        if not found:
            return section("Odd photos", _nothing("Every photo resembles others of its class."))
        shown = [self._tile(p.path, class_name(p.label), p.label) for p in found[:_PHOTOS]]
        return section(
            "Odd photos",
            tiles(shown, len(found), _ALL),
            f"{photos(len(found)).capitalize()} unlike the others of their class, the oddest "
            "first: perhaps something else, or a view that no other photo shows.",
        )

    def _copies(self) -> str:
        found = self.check.copies
        if not found:
            return section("The same photo twice", _nothing("No photo is there twice."))
        groups = "".join(self._group(copies) for copies in found[:_PHOTOS])
        more = len(found) - _PHOTOS
        rest = f'<p class="soft">… and {more:,} more; {_ALL}.</p>' if more > 0 else ""
        return section(
            "The same photo twice",
            groups + rest,
            "Copies make a classifier look better than it is. Two classes with the same photo "
            "cannot both be right, and a photo to test on must not have been learnt from.",
        )

    def _group(self, copies: "Copies") -> str:
        how = "The same file" if copies.exact else "Photos that look the same"
        across = f', <span class="warn">across {copies.across}</span>' if copies.across else ""
        shown = "".join(
            self._tile(path, "test" if label is None else class_name(label), label or "test")
            for path, label in zip(copies.paths[:12], copies.labels[:12], strict=True)
        )
        return f'<div class="group"><p>{how}{across}:</p>{shown}</div>'

    def _classes(self) -> str:
        rows = []
        for c in self.check.classes[:_ROWS]:
            share = "-" if c.accuracy is None else escape(rough_percent(c.accuracy))
            few = ' <span class="warn">few</span>' if c.name in self.check.few else ""
            rows.append(
                f'<tr><td>{class_name(c.name)}</td><td class="number">{c.photos:,}{few}</td>'
                f'<td class="number">{share}</td><td><div class="bar"><i style="width:'
                f'{100 * (c.accuracy or 0):.0f}%"></i></div></td>'
                f"<td>{class_name(c.mistaken_for) if c.mistaken_for else '-'}</td></tr>"
            )
        head = "<tr><th>class</th><th>photos</th><th>right</th><th></th><th>mistaken for</th></tr>"
        count = len(self.check.few)
        lead = "Photos of each class that the others get right, worst first."
        if count:
            lead += (
                f" {count} of the classes {'has' if count == 1 else 'have'} fewer than 5 photos."
            )
        table = f'<div class="scroll classes"><table>{head}{"".join(rows)}</table></div>'
        return section("Classes", table, lead)

    def _confused(self) -> str:
        rows = "".join(
            f"<tr><td>{class_name(c.classes[0])} and {class_name(c.classes[1])}</td>"
            f'<td class="number">{photos(c.photos)}</td></tr>'
            for c in self.check.confused[:_ROWS]
        )
        table = f'<div class="scroll"><table>{rows}</table></div>'
        lead = "Photos of one that look like the other. More photos of these would help most."
        return section("Classes that are confused", table, lead)

    def _more(self) -> str:
        curve, then = self.check.curve, self.check.doubled
        if then is None:
            text = "Most classes have too few photos to tell: four of each show a first trend."
            return section("What more photos would bring", _nothing(text))
        now = curve[-1]
        lead = (
            f"With {now.photos} photos of a class {rough_percent(now.accuracy)} are right, with "
            f"{then.photos} about {rough_percent(then.accuracy)} would be, or "
            f"{rough_percent(then.low)} to {rough_percent(then.high)}: if the trend goes on, and "
            "if the new photos are like these."
        )
        return section("What more photos would bring", _curve(self.check), lead)


def _nothing(text: str) -> str:
    return f'<p class="soft">{escape(text)}</p>'


def _curve(check: "Check") -> str:
    """Accuracy against photos of a class, doubled at each step to the right."""
    then = check.doubled
    assert then is not None
    width, height, left, below = 640, 320, 76, 66
    most = math.log2(then.photos)
    lowest = math.floor(10 * min(p.accuracy - p.error for p in check.curve)) / 10
    lowest = max(0.0, min(lowest, 0.9))

    def place(count: int, share: float) -> tuple[float, float]:
        x = left + (width - left - 24) * math.log2(count) / most
        return x, 12 + (height - below - 12) * (1 - (share - lowest) / (1 - lowest))

    parts = []
    for step in range(round(10 * lowest), 11, 1 if lowest > 0.5 else 2):
        y = place(1, step / 10)[1]
        parts.append(f'<path class="grid" d="M{left} {y:.1f}H{width - 24}"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 5:.1f}" text-anchor="end">{10 * step}%</text>')
    points = [(p.photos, p.accuracy, p.error) for p in check.curve]
    line = " L".join("{:.1f} {:.1f}".format(*place(n, a)) for n, a, _ in points)
    x, y = place(then.photos, then.accuracy)
    start = "{:.1f} {:.1f}".format(*place(*points[-1][:2]))
    parts.append(f'<path class="line" d="M{line}"/>')
    parts.append(f'<path class="line dashed" d="M{start} L{x:.1f} {y:.1f}"/>')
    low, high = place(then.photos, then.low)[1], place(then.photos, then.high)[1]
    parts.append(f'<path class="range" d="M{x:.1f} {low:.1f}V{high:.1f}"/>')
    for count, share, _ in (*points, (then.photos, then.accuracy, 0.0)):
        x, y = place(count, share)
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5"><title>{count} photos: '
            f"{rough_percent(share)}</title></circle>"
            f'<text x="{x:.1f}" y="{height - 36}" text-anchor="middle">{count}</text>'
        )
    parts.append(
        f'<text x="{(left + width) / 2:.0f}" y="{height - 6}" text-anchor="middle">'
        "photos of a class</text>"
    )
    return (
        f'<svg class="curve" viewBox="0 0 {width} {height}" width="100%" role="img" '
        f'aria-label="accuracy by number of photos">{"".join(parts)}</svg>'
    )
