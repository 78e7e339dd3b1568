"""Draws photo-task.png: a few labelled photos of each class, and the answers for new ones.

python docs/images/photo_task.py CLOTHING docs/images/photo-task.png

CLOTHING is a folder of A. Grigorev's clothing dataset (CC0), a sub-folder for each class. Only the
classes were picked by hand: the first photos are the labelled ones, the next are the new ones.
"""

import sys
from pathlib import Path

from matplotlib import font_manager
from PIL import Image, ImageDraw, ImageFont, ImageOps

import tadam

CLASSES = ("dress", "outwear", "pants", "shirt", "shoes")
SHOTS, QUERIES = 5, 4
SIDE, GAP, LEFT, TOP, MIDDLE, CAPTION = 80, 8, 88, 40, 32, 22
INK, SOFT, RIGHT, WRONG = "#1a2230", "#5b677a", "#0b7a4b", "#c2410c"


def font(size: int, weight: str = "normal") -> ImageFont.FreeTypeFont:
    found = font_manager.findfont(font_manager.FontProperties(family="DejaVu Sans", weight=weight))
    return ImageFont.truetype(found, size)


def main(folder: Path, out: Path) -> None:
    photos = {name: sorted((folder / name).iterdir())[: SHOTS + QUERIES] for name in CLASSES}
    labelled = [(path, name) for name, paths in photos.items() for path in paths[:SHOTS]]
    paths, labels = zip(*labelled, strict=True)
    classifier = tadam.FewShotClassifier("imagenet").fit(list(paths), list(labels))

    step, height = SIDE + GAP, SIDE + CAPTION + GAP
    width = LEFT + (SHOTS + QUERIES) * step + MIDDLE
    page = Image.new("RGB", (width, TOP + len(CLASSES) * height), "white")
    draw = ImageDraw.Draw(page)
    queries_at = LEFT + SHOTS * step + MIDDLE
    draw.text((LEFT, 12), "five labelled photos of each class", SOFT, font(15))
    draw.text((queries_at, 12), "new photos, and the answers", SOFT, font(15))
    for row, (name, paths) in enumerate(photos.items()):
        y = TOP + row * height
        draw.text((4, y + SIDE // 2), name, INK, font(15, "bold"), anchor="lm")
        for column, path in enumerate(paths):
            x = LEFT + column * step + (MIDDLE if column >= SHOTS else 0)
            page.paste(ImageOps.fit(Image.open(path).convert("RGB"), (SIDE, SIDE)), (x, y))
            if column < SHOTS:
                continue
            [answer] = classifier.classify([path])
            colour = RIGHT if answer.label == name else WRONG
            draw.rectangle((x - 2, y - 2, x + SIDE + 1, y + SIDE + 1), outline=colour, width=3)
            text = f"{answer.label} {100 * answer.confidence:.0f}%"
            draw.text((x + SIDE // 2, y + SIDE + 5), text, colour, font(12), anchor="ma")
    page.quantize(256, dither=Image.Dither.FLOYDSTEINBERG).save(out, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
