"""Small data files in the formats that data sets are published in."""

import hashlib
import io
import os
import pickle
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image


def md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes()).hexdigest()


def damage(path: Path, at: int) -> None:
    """Flips the bits of 16 bytes, without a trace in the file's size and time."""
    stat, content = path.stat(), bytearray(path.read_bytes())
    content[at : at + 16] = bytes(255 - byte for byte in content[at : at + 16])
    path.write_bytes(content)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def write_tar(path: Path, files: dict[str, bytes]) -> None:
    """A .tar.gz or .tgz of these files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz", compresslevel=1) as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def cifar100_batches(train: int, test: int) -> dict[str, dict[str, Any]]:
    """Batches with so many images of each class; a pixel tells class, batch and number.

    Red is the class, green the number, blue the batch (100 or 200); row 0, column 5 is black.
    """
    batches = {}
    for batch, (name, count) in enumerate({"train": train, "test": test}.items()):
        labels = np.random.default_rng(batch).permutation(np.repeat(np.arange(100), count))
        numbers = [int((labels[:i] == labels[i]).sum()) for i in range(len(labels))]
        planes = np.stack([labels, numbers, np.full(len(labels), 100 + 100 * batch)], axis=1)
        data = np.repeat(planes.astype(np.uint8), 32 * 32, axis=1).reshape(-1, 3, 32 * 32)
        data[:, :, 5] = 0
        batches[name] = {
            "data": data.reshape(-1, 3072),
            "fine_labels": labels.tolist(),
            "coarse_labels": [0] * len(labels),
            "filenames": [f"{i}.png" for i in range(len(labels))],
        }
    return batches


def write_cifar100(root: Path, archive: bool = False, train: int = 2, test: int = 1) -> None:
    """`cifar-100-python/`, or its archive."""
    files = {
        f"cifar-100-python/{name}": pickle.dumps(batch, 2)
        for name, batch in cifar100_batches(train, test).items()
    }
    if archive:
        write_tar(root / "cifar-100-python.tar.gz", files)
        return
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)


def png(pixels: np.ndarray) -> bytes:
    """An image file in memory."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


#: Characters of small Omniglot archives, in no particular order.
OMNIGLOT = {
    "images_background": ["Hebrew/character02", "Greek/character01", "Greek/character02"],
    "images_evaluation": ["ULOG/character01", "Gurmukhi/character42", "Gurmukhi/character41"],
}


def omniglot_drawing(character: str, number: int) -> np.ndarray:
    """105x105, black ink on white: a block, low down if number 2, wider with the character."""
    pixels = np.full((105, 105), True)
    left = 5 * [c for part in OMNIGLOT.values() for c in part].index(character)
    pixels[30 * number : 30 * number + 30, left : left + 15] = False
    return pixels


def write_omniglot(root: Path, drawings: int = 2) -> None:
    """Both archives, with so many drawings of each character."""
    (root / "omniglot").mkdir(parents=True, exist_ok=True)
    for name, characters in OMNIGLOT.items():
        with zipfile.ZipFile(root / "omniglot" / f"{name}.zip", "w") as archive:
            for character in characters:
                for number in range(drawings, 0, -1):
                    content = png(omniglot_drawing(character, number))
                    archive.writestr(f"{name}/{character}/0123_{number:02}.png", content)


#: Classes of small mini-ImageNets, in no particular order.
MINI_IMAGENET = {"train": ["n03", "n01", "n02"], "val": ["n04"], "test": ["n06", "n05"]}


def mini_imagenet_pixels(name: str, count: int) -> np.ndarray:
    """(count, 84, 84, 3): red tells the class, green the number, the left half is blue."""
    pixels = np.zeros((count, 84, 84, 3), np.uint8)
    pixels[..., 0] = 30 * int(name[1:])
    pixels[..., 1] = 20 * np.arange(count)[:, None, None]
    pixels[:, :, :42, 2] = 200
    return pixels


def write_mini_imagenet(root: Path, form: str, count: int = 3) -> Path:
    """The folder mini-imagenet in the form "pkl", "npz" or "csv"."""
    folder = root / "mini-imagenet"
    folder.mkdir(parents=True, exist_ok=True)
    for split, names in MINI_IMAGENET.items():
        images = np.concatenate([mini_imagenet_pixels(name, count) for name in names])
        if form == "pkl":
            rows = {name: list(range(k * count, (k + 1) * count)) for k, name in enumerate(names)}
            content = {"image_data": images, "class_dict": rows}
            path = folder / f"mini-imagenet-cache-{split}.pkl"
            path.write_bytes(pickle.dumps(content, 2))
        elif form == "npz":
            targets = np.repeat([sorted(names).index(name) for name in names], count)
            order = np.argsort(np.arange(len(targets)) % count, kind="stable")  # classes mixed
            np.savez(
                folder / f"few-shot-{split}.npz", features=images[order], targets=targets[order]
            )
        else:
            (folder / "images").mkdir(exist_ok=True)
            lines = ["filename,label"]
            for row, pixels in enumerate(images):
                name = names[row // count]
                (folder / "images" / f"{name}0000{row}.jpg").write_bytes(png(pixels))
                lines.append(f"{name}0000{row}.jpg,{name}")
            (folder / f"{split}.csv").write_text("\n".join(lines) + "\n")
    return folder


#: Names of the classes of small tiered-ImageNets.
TIERED_IMAGENET = {"train": ["crane", "wolf", "crane"], "val": ["gar"], "test": ["ant", "bee"]}


def write_tiered_imagenet(root: Path, count: int = 3) -> Path:
    """The folder tiered-imagenet; red tells the split, green the class, blue the number."""
    folder = root / "tiered-imagenet"
    folder.mkdir(parents=True, exist_ok=True)
    for s, (split, names) in enumerate(TIERED_IMAGENET.items()):
        images, labels = [], []
        for number in range(count):  # classes mixed
            for k in range(len(names)):
                pixels = np.full((84, 84, 3), (100 + s, 50 * k, 70 * number), np.uint8)
                images.append(np.frombuffer(png(pixels), np.uint8)[:, None])
                labels.append(k)
        content = {
            "label_specific": np.array(labels),
            "label_specific_str": names,
            "label_general": np.array(labels) % 2,
            "label_general_str": ["even", b"odd"],
        }
        (folder / f"{split}_images_png.pkl").write_bytes(pickle.dumps(images, 2))
        (folder / f"{split}_labels.pkl").write_bytes(pickle.dumps(content, 2))
    return folder


#: Classes of small birds, in no particular order.
CUB = ["004.Ani", "001.Albatross", "003.Auk", "002.Auklet", "006.Bunting", "013.Bobolink"]


def cub_images(count: int = 2) -> dict[str, bytes]:
    """Files below CUB_200_2011/images: red tells the class, green the number."""
    return {
        f"{name}/{name[4:]}_{i:04}.jpg": png(np.full((20, 30, 3), (int(name[:3]), i, 9), np.uint8))
        for name in CUB
        for i in range(count, 0, -1)
    }


def write_cub(root: Path, archive: bool = False) -> Path:
    """The folder cub, with `CUB_200_2011/` or its archive."""
    files = {f"CUB_200_2011/images/{name}": content for name, content in cub_images().items()}
    if archive:
        others = {"attributes.txt": b"1 x", "CUB_200_2011/images.txt": b"1 a.jpg"}
        write_tar(root / "cub" / "CUB_200_2011.tgz", {**others, **files})
        return root / "cub"
    for name, content in files.items():
        path = root / "cub" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root / "cub"
