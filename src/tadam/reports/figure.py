"""Figures in one house style, as PNG files or as SVG to inline in a page; needs matplotlib.

Everything goes through matplotlib's `Figure` objects and the Agg canvas, never through pyplot, so
drawing needs no display and leaves no state behind. Sizes are in CSS pixels.
"""

import hashlib
import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tadam.errors import UserError
from tadam.system.files import write_with

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Okabe and Ito's colours, which colour-blind people can tell apart.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
INK, _FAINT = "#333333", "#e4e4e4"
_CSS_DPI = 96
FONT = 9.5  # points

_STYLE: Any = {  # matplotlib types the keys one by one
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Helvetica", "Arial", "sans-serif"],
    "font.size": FONT,
    "axes.titlesize": FONT + 1,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#999999",
    "axes.labelcolor": INK,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": _FAINT,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "text.parse_math": False,  # a class may be called "$5"
    "svg.fonttype": "none",  # text stays text: searchable, and any script a class name is in
    "svg.hashsalt": "tadam",
    "figure.constrained_layout.w_pad": 0.07,  # inches
    "figure.constrained_layout.h_pad": 0.07,
}


def available() -> bool:
    """Whether matplotlib can be imported."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


@contextmanager
def style() -> Iterator[None]:
    if not available():
        raise UserError("plots need matplotlib: pip install 'tadam-fewshot[plots]'")
    import matplotlib

    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def new_figure(width: int = 640, height: int = 360, rows: int = 1) -> "tuple[Figure, list[Axes]]":
    """An empty figure with `rows` stacked panels that share their x axis."""
    with style():
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure((width / _CSS_DPI, height / _CSS_DPI), _CSS_DPI, layout="constrained")
        FigureCanvasAgg(figure)
        grid = figure.subplots(rows, 1, sharex=True, squeeze=False)
    return figure, list(grid[:, 0])


def save_png(figure: "Figure", path: Path, scale: float = 2.0) -> None:
    """Writes a figure, whole or not at all, with `scale` image pixels per CSS pixel."""
    with style():
        write_with(path, lambda file: figure.savefig(file, format="png", dpi=scale * _CSS_DPI))


def svg_text(figure: "Figure", label: str = "") -> str:
    """A figure as one `<svg>` element to put into an HTML page.

    The same figure always gives the same text. Ids start with a digest of drawing and label, so
    several figures can be inlined in one page.

    Args:
        figure: What to draw.
        label: What it shows, for screen readers.
    """
    with style(), io.StringIO() as file:
        figure.savefig(file, format="svg")
        text = file.getvalue()
    text = text[text.index("<svg") :].strip()
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    digest = "c" + hashlib.sha256((label + text).encode()).hexdigest()[:10]
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{digest}-", text)
    text = text.replace("*{", f"#{digest} *{{", 1)  # its style sheet must not leak into the page
    width, height = (round(inches * _CSS_DPI) for inches in figure.get_size_inches())
    head = (
        f'<svg id="{digest}" xmlns="http://www.w3.org/2000/svg" '
        f'xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'width="{width}" height="{height}" viewBox="0 0 {width * 0.75:g} {height * 0.75:g}" '
        f'style="max-width:100%;height:auto" role="img" aria-label="{escape(label)}">'
    )
    return head + text[text.index(">") + 1 :]
