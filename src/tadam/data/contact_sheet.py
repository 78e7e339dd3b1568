"""A contact sheet: a PNG with one row of images per class, labelled with the class name."""

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from tadam.data.store import ImageStore
from tadam.system.files import write_with

_LABEL_WIDTH, _GAP, _MOST_CLASSES, _PER_CLASS = 230, 2, 64, 12


def contact_sheet(store: ImageStore) -> Image.Image:
    """Up to 12 evenly spaced images of up to 64 classes, small images enlarged."""
    side = max(store.image_size, 48)
    classes = min(len(store.class_names), _MOST_CLASSES)
    cell = side + _GAP
    sheet = Image.new("RGB", (_LABEL_WIDTH + _PER_CLASS * cell, classes * cell), "white")
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(size=13)
    for k in range(classes):
        name = store.class_names[k]
        draw.text((6, k * cell + side // 2), name[:34], "black", font, anchor="lm")
        rows = np.linspace(store.offsets[k], store.offsets[k + 1] - 1, _PER_CLASS).astype(np.int64)
        for i, row in enumerate(np.unique(rows)):
            pixels = store.images[row]
            image = Image.fromarray(pixels if store.channels == 3 else pixels[:, :, 0])
            image = image.convert("RGB").resize((side, side), Image.Resampling.NEAREST)
            sheet.paste(image, (_LABEL_WIDTH + i * cell, k * cell))
    return sheet


def write_contact_sheet(store: ImageStore, path: Path) -> None:
    """Writes the sheet as PNG."""
    write_with(path, lambda temporary: contact_sheet(store).save(temporary, format="PNG"))
