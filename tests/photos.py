"""Generated photos for end-to-end tests: drawings that a person could sort, in many formats."""

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

#: Class name -> colour and how to draw it.
SUBJECTS = {
    "disc": ((200, 40, 40), "ellipse"),
    "box": ((40, 160, 60), "rectangle"),
    "wedge": ((50, 70, 210), "polygon"),
}
FORMATS = ("jpg", "png", "webp", "bmp", "gif", "tiff")


def photo(subject: str, seed: int) -> Image.Image:
    """A coloured shape on a grey, noisy ground; sizes and places differ."""
    dice = np.random.default_rng([seed, *subject.encode()])
    width, height = (int(v) for v in dice.integers(40, 90, 2))
    ground = dice.integers(90, 130, (height, width, 3)).astype(np.uint8)
    image = Image.fromarray(ground)
    colour, kind = SUBJECTS[subject]
    side = min(width, height)
    x, y = (width - side) // 2 + 5, (height - side) // 2 + 5
    area = (x, y, x + side - 10, y + side - 10)
    draw = ImageDraw.Draw(image)
    if kind == "polygon":
        draw.polygon(
            [(area[0], area[3]), (area[2], area[3]), ((area[0] + area[2]) // 2, y)], colour
        )
    else:
        getattr(draw, kind)(area, fill=colour)
    return image


def write_photos(folder: Path, each: int = 4, start: int = 0) -> Path:
    """A sub-folder for each subject, with photos of changing formats."""
    for subject in SUBJECTS:
        (folder / subject).mkdir(parents=True)
        for i in range(each):
            name = f"{start + i}.{FORMATS[i % len(FORMATS)]}"
            photo(subject, start + i).save(folder / subject / name)
    return folder
