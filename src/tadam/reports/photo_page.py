"""What pages of photos share: tiles that open the photo, their style, and words for numbers."""

import os
from collections.abc import Sequence
from html import escape
from pathlib import Path
from urllib.parse import quote

from tadam.reports.html import inline_image

#: Side of a thumbnail on the page.
_SIDE = 168
#: Most characters of a class's name in a caption; hovering shows all of it.
_LONGEST = 40

PHOTO_STYLE = """
:root { color-scheme: light dark; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6eaef; --soft: #9aa7b5; --line: #313a45; --accent: #59b4dd; --good: #4cc38a;
          --bad: #f0845c; --paper: #1b2129; --ground: #12161b; }
}
img { image-rendering: auto; object-fit: cover; }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(150px, 1fr)); gap: 16px; }
.tile { min-width: 0; max-width: 200px; }
.tile img, .none { width: 100%; height: auto; aspect-ratio: 1; border-radius: 6px; }
.none { background: var(--line); } .tile a { display: block; color: inherit; }
.tile a:hover img, .tile a:focus-visible img { outline: 3px solid var(--accent); }
.tile figcaption { overflow: hidden; overflow-wrap: anywhere; }
.tile .file { display: block; white-space: nowrap; overflow: hidden; text-overflow: ellipsis;
              color: var(--soft); }
.sure { height: 4px; border-radius: 2px; background: var(--line); margin-top: 4px; }
.sure > i { display: block; height: 4px; border-radius: 2px; }
.dot { display: inline-block; width: 12px; height: 12px; border-radius: 50%; margin-right: 8px;
       vertical-align: -1px; }
.scroll { max-height: 460px; overflow-y: auto; } .scroll td:first-child { overflow-wrap: anywhere;
  min-width: 7em; }
.tiles + p { margin: 16px 0 0; }
summary { cursor: pointer; font-size: 18px; font-weight: 600; }
details > p { margin-top: 8px; }
@media (max-width: 600px) { main { padding: 20px 10px 40px; } section { padding: 16px 14px; }
  h1 { font-size: 26px; } th, td { padding: 6px; } .bar { min-width: 60px; }
  .tiles { grid-template-columns: repeat(auto-fill, minmax(130px, 1fr)); gap: 12px; } }
"""


def photo_link(path: str, page: Path) -> str:
    """The address of a photo, relative to the page's folder if there is a way from it.

    It is quoted so that no name can be taken for an address elsewhere.
    """
    file = os.path.abspath(path)
    try:
        way = os.path.relpath(file, page.absolute().parent)
    except ValueError:  # on another drive
        return Path(file).as_uri()
    return quote(os.fsencode(way.replace(os.sep, "/")))


def tile(
    page: Path, path: str, thumbnail: bytes | None, caption: str, label: str, bar: str = ""
) -> str:
    """A photo that opens when it is clicked.

    Args:
        page: The file that the tile will be in.
        path: The photo's file.
        thumbnail: A small JPEG.
        caption: HTML.
        label: What the photo is, for those who cannot see it.
        bar: HTML between photo and caption.
    """
    image = '<div class="none"></div>'
    if thumbnail is not None:
        image = inline_image(thumbnail, "jpeg", _SIDE, f"{label}: {path}")
    name = escape(Path(path).name)
    return (
        f'<figure class="tile"><a href="{escape(photo_link(path, page))}" title="{escape(path)}">'
        f'{image}</a>{bar}<figcaption>{caption}<span class="file" title="{escape(path)}">{name}'
        "</span></figcaption></figure>"
    )


def tiles(some: Sequence[str], total: int, where: str) -> str:
    """Tiles in a grid, and how many more there are; `where` is HTML that says how to see them."""
    more = total - len(some)
    rest = f'<p class="soft">… and {more:,} more; {where}.</p>' if more > 0 else ""
    return f'<div class="tiles">{"".join(some)}</div>{rest}'


def class_name(name: str) -> str:
    """A class's name as HTML, shortened if it is long, whole on hovering."""
    short = name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
    return f'<span title="{escape(name)}">{escape(short)}</span>'


def photos(count: int, kind: str = "") -> str:
    """`1 labelled photo`, `1,200 photos`."""
    return f"{count:,} {kind}photo{'' if count == 1 else 's'}"


def rough_percent(share: float) -> str:
    """A share without decimals."""
    return f"{100 * share:.0f}%" if share >= 0.01 or share == 0 else "<1%"
