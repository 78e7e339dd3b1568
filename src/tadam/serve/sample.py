"""A sample project with pictures that the program draws itself, to try the studio with."""

import io
from pathlib import Path

from PIL import Image

from tadam.data.shapes import class_names, draw_class
from tadam.serve.arrivals import from_bytes
from tadam.serve.serve_settings import ServeSettings
from tadam.serve.studio import Studio

#: Classes of the benchmark `shapes`, labelled pictures of each, and others without a label.
_CLASSES, _LABELLED, _UNLABELLED = (0, 1, 2, 40), 6, 8
#: Side of the pictures in pixels; they are drawn with 32.
_SIDE = 192


def make_sample(folder: Path) -> bool:
    """Makes the project `sample` in a folder of projects unless it is there; says if it did."""
    if (folder / "sample").exists():
        return False
    studio = Studio(ServeSettings(), folder)
    try:
        live = studio.library.create("Sample", None)
        pictures = {class_names()[k]: draw_class(k) for k in _CLASSES}
        for name, drawn in pictures.items():
            label = name.partition(" (")[0]
            files = [
                from_bytes(f"{label}/{label} {i + 1}.png", _png(drawn[i])) for i in range(_LABELLED)
            ]
            studio.add(live, files, by_folder=True)
        rest = [
            from_bytes(f"picture {i * len(pictures) + k + 1}.png", _png(drawn[_LABELLED + i]))
            for i in range(_UNLABELLED)
            for k, drawn in enumerate(pictures.values())
        ]
        studio.add(live, rest)
    finally:
        studio.close()
    return True


def _png(pixels: object) -> bytes:
    content = io.BytesIO()
    picture = Image.fromarray(pixels)  # type: ignore[arg-type]
    picture.resize((_SIDE, _SIDE), Image.Resampling.NEAREST).save(content, "PNG")
    return content.getvalue()
