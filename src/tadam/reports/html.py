"""Self-contained HTML pages: style, pictures and tables inlined, nothing fetched."""

import base64
import io
from collections.abc import Iterable
from html import escape

import numpy as np
import numpy.typing as npt
from PIL import Image

from tadam.reports.terminal import percent

_STYLE = """
:root { --ink: #1c2430; --soft: #5d6b7c; --line: #e3e8ee; --accent: #0b6e99; --good: #1a7f4b;
        --bad: #c2410c; --paper: #ffffff; --ground: #f5f7f9; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink);
       font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
main { max-width: 1020px; margin: 0 auto; padding: 40px 24px 64px; }
h1 { font-size: 34px; line-height: 1.15; margin: 0 0 8px; letter-spacing: -0.02em; }
h2 { font-size: 21px; margin: 0 0 6px; letter-spacing: -0.01em; }
p { margin: 0 0 12px; } .soft { color: var(--soft); } .small { font-size: 13.5px; }
section { background: var(--paper); border: 1px solid var(--line); border-radius: 12px;
          padding: 24px 28px; margin: 20px 0; overflow-x: auto; }
.columns { display: flex; flex-wrap: wrap; gap: 24px; }
.columns > * { flex: 1 1 420px; min-width: 0; }
svg { max-width: 100%; height: auto; display: block; }
table { border-collapse: collapse; width: 100%; } th { text-align: left; font-weight: 600; }
th, td { padding: 8px 10px; border-bottom: 1px solid var(--line); vertical-align: middle; }
td.number { white-space: nowrap; font-variant-numeric: tabular-nums; }
tr.best td { font-weight: 650; }
.bar { background: var(--line); border-radius: 5px; height: 12px; min-width: 180px; }
.bar > i { display: block; height: 12px; border-radius: 5px; background: #9db4c4; }
tr.best .bar > i { background: var(--accent); }
.pictures { display: flex; flex-wrap: wrap; gap: 12px; }
figure { margin: 0; } figcaption { font-size: 12.5px; line-height: 1.3; margin-top: 4px; }
img { image-rendering: pixelated; border-radius: 6px; display: block; }
.right img { outline: 3px solid var(--good); } .right figcaption { color: var(--good); }
.wrong img { outline: 3px solid var(--bad); } .wrong figcaption { color: var(--bad); }
pre { background: #f0f3f6; border-radius: 8px; padding: 12px 16px; overflow-x: auto;
      margin: 0 0 12px; font: 14px/1.6 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
@media print { body { background: white; } section { break-inside: avoid; } }
"""


def page(title: str, intro: str, sections: Iterable[str], style: str = "") -> str:
    """A whole page; `intro` and `sections` are HTML, `style` is additional CSS."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}{style}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{escape(title)}</h1>\n{intro}\n{''.join(sections)}</main>\n</body>\n</html>\n"
    )


def section(heading: str, body: str, lead: str = "") -> str:
    """A card with a heading, a sentence on what it shows, and HTML."""
    lead_html = f'<p class="soft">{escape(lead)}</p>\n' if lead else ""
    return f"<section>\n<h2>{escape(heading)}</h2>\n{lead_html}{body}\n</section>\n"


def picture(pixels: npt.NDArray[np.uint8], side: int, alt: str) -> str:
    """An <img> with its pixels inlined, (H, W, 1 or 3); `side` is its size on the page."""
    image = Image.fromarray(pixels if pixels.shape[2] == 3 else pixels[:, :, 0])
    buffer = io.BytesIO()
    image.save(buffer, format="PNG")
    return inline_image(buffer.getvalue(), "png", side, alt)


def inline_image(content: bytes, kind: str, side: int, alt: str) -> str:
    """An <img> with a file's content inlined; `kind` is png or jpeg."""
    data = base64.b64encode(content).decode()
    return (
        f'<img src="data:image/{kind};base64,{data}" width="{side}" height="{side}" '
        f'alt="{escape(alt, quote=True)}">'
    )


def accuracy_table(rows: Iterable[tuple[str, float, float | None, str]], best: str) -> str:
    """Rows of (name, accuracy, interval half-width, note) with a bar; `best` stands out."""
    lines = []
    for name, accuracy, interval, note in rows:
        lines.append(
            f"<tr{' class=best' if name == best else ''}><td>{escape(name)}</td>"
            f'<td class="number">{percent(accuracy, interval)}</td>'
            f'<td><div class="bar"><i style="width:{100 * accuracy:.1f}%"></i></div></td>'
            f'<td class="soft small">{escape(note)}</td></tr>'
        )
    return f"<table>{''.join(lines)}</table>"
