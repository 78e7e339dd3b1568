"""`tadam evaluate FILE.tadam FOLDER --report`: the mistakes as photos, on one page."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from tadam.reports.html import page, section
from tadam.reports.photo_page import PHOTO_STYLE, class_name, photos, rough_percent, tile, tiles
from tadam.system.files import write_text

if TYPE_CHECKING:
    from tadam.evaluation.folders import FolderEvaluation, JudgedPhoto

#: Most photos of each kind on the page; a matrix of more classes is left out.
_PHOTOS, _MATRIX = 200, 16
_ALL = "<code>tadam evaluate --csv</code> lists all of them"

_STYLE = """
.matrix td { text-align: right; font-variant-numeric: tabular-nums; }
.matrix td.own { font-weight: 700; } .matrix td.wrong { color: var(--bad); font-weight: 700; }
.matrix th { font-weight: 500; font-size: 13.5px; }
@media (max-width: 600px) { .classes :is(th, td):nth-child(4) { display: none; } }
"""


def write_evaluation_report(path: Path, result: "FolderEvaluation") -> None:
    """Writes the page; a file of that name is replaced."""
    unknown = [photo for photo in result.photos if photo.label not in result.class_names]
    intro = (
        f'<p class="soft">{photos(result.images)} of {len(result.per_class)} classes: '
        f"{rough_percent(result.accuracy)} are classified correctly. Click on a photo to open it."
        "</p>"
    )
    sections = [
        section(
            "Mistakes",
            _mistakes(path, result.mistakes),
            f"{photos(len(result.mistakes)).capitalize()} taken for another class, the most "
            "confident answers first.",
        )
    ]
    if result.rejection:
        sections.append(section("None of these", _rejection(path, result, unknown)))
    sections.append(section("Classes", _classes(result), "From worst to best."))
    if len(result.class_names) <= _MATRIX:
        lead = "Rows are the true classes, columns the answers."
        sections.append(section("What was taken for what", _matrix(result), lead))
    html = page("How good the classifier is", intro, sections, PHOTO_STYLE + _STYLE)
    # A file name may not be valid text; what cannot be written shows as ?
    write_text(path, html.encode("utf-8", "replace").decode())


def _mistakes(path: Path, wrong: "Sequence[JudgedPhoto]") -> str:
    if not wrong:
        return '<p class="soft">There are none.</p>'
    shown = [
        tile(
            path,
            photo.path,
            photo.prediction.thumbnail,
            f"{class_name(photo.label)} taken for {class_name(photo.answer)} "
            f"{escape(rough_percent(photo.prediction.confidence))}",
            photo.label,
        )
        for photo in wrong[:_PHOTOS]
    ]
    return tiles(shown, len(wrong), _ALL)


def _rejection(path: Path, result: "FolderEvaluation", unknown: "Sequence[JudgedPhoto]") -> str:
    found = result.rejection
    assert found is not None
    text = f"<code>--reject</code> keeps {rough_percent(found.kept)} of the photos of a class"
    if found.caught is None:
        return f'<p class="soft">{text}. There were no photos of no class.</p>'
    text += f" and catches {rough_percent(found.caught)} of the {photos(found.unknown)} of none."
    missed = [photo for photo in unknown if not photo.rejected]
    shown = [
        tile(
            path,
            photo.path,
            photo.prediction.thumbnail,
            f"taken for {class_name(photo.answer)} "
            f"{escape(rough_percent(photo.prediction.confidence))}",
            "unknown",
        )
        for photo in missed[:_PHOTOS]
    ]
    body = f"<p>Not caught:</p>{tiles(shown, len(missed), _ALL)}" if missed else ""
    return f'<p class="soft">{text}</p>{body}'


def _classes(result: "FolderEvaluation") -> str:
    rows = []
    for name, share in sorted(result.per_class.items(), key=lambda item: item[1]):
        own = result.class_names.index(name)
        row = result.confusion[own]
        wrong = [0 if k == own else count for k, count in enumerate(row)]
        taken = class_name(result.class_names[wrong.index(max(wrong))]) if max(wrong) else "-"
        rows.append(
            f'<tr><td>{class_name(name)}</td><td class="number">{sum(row):,}</td>'
            f'<td class="number">{escape(rough_percent(share))}</td><td><div class="bar">'
            f'<i style="width:{100 * share:.0f}%"></i></div></td><td>{taken}</td></tr>'
        )
    head = "<tr><th>class</th><th>photos</th><th>right</th><th></th><th>mistaken for</th></tr>"
    return f'<div class="scroll classes"><table>{head}{"".join(rows)}</table></div>'


def _matrix(result: "FolderEvaluation") -> str:
    head = "".join(f"<th>{class_name(name)}</th>" for name in result.class_names)
    rows = []
    for k, (name, row) in enumerate(zip(result.class_names, result.confusion, strict=True)):
        cells = "".join(
            f'<td class="{"own" if j == k else "wrong" if count else ""}">{count or "·"}</td>'
            for j, count in enumerate(row)
        )
        rows.append(f"<tr><th>{class_name(name)}</th>{cells}</tr>")
    return f'<table class="matrix"><tr><th></th>{head}</tr>{"".join(rows)}</table>'
