"""A sample project with pictures that the program draws itself, to try the studio with."""

from pathlib import Path

from tadam.serve.arrivals import from_bytes
from tadam.serve.drawings import drawing, jpeg
from tadam.serve.serve_settings import ServeSettings
from tadam.serve.studio import Studio

#: What the classes show, labelled pictures of each, and others without a label.
_CLASSES, _LABELLED, _UNLABELLED = ("Boat", "House", "Tree", "Fish"), 6, 7
#: Pictures of something that no class shows.
_STRANGERS = 4


def make_sample(folder: Path) -> bool:
    """Makes the project `sample` in a folder of projects unless it is there; says if it did."""
    if (folder / "sample").exists():
        return False
    studio = Studio(ServeSettings(), folder)
    try:
        live = studio.library.create("Sample", None)
        for subject in _CLASSES:
            pictures = [jpeg(drawing(subject, i)) for i in range(_LABELLED)]
            names = [f"{subject}/{subject} {i + 1}.jpg" for i in range(_LABELLED)]
            files = [from_bytes(*pair) for pair in zip(names, pictures, strict=True)]
            studio.add(live, files, by_folder=True)
        rest = [
            jpeg(drawing(subject, _LABELLED + i))
            for i in range(_UNLABELLED)
            for subject in _CLASSES
        ]
        rest += [jpeg(drawing("Lamp", i)) for i in range(_STRANGERS)]
        studio.add(live, [from_bytes(f"picture {i + 1}.jpg", one) for i, one in enumerate(rest)])
    finally:
        studio.close()
    return True
