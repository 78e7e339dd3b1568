"""Everything that reads a file of somebody else's, as a function of the file's bytes.

Each reader has files to start from, made by code. Reading damaged ones must end in a result or in
one sentence; what else happens is a failure.
"""

import io
import pickle
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from tadam import FewShotClassifier
from tadam.config import Config
from tadam.data import mini_imagenet
from tadam.data.archive import members
from tadam.data.decode import decode, decode_upright
from tadam.data.folder import read_splits
from tadam.data.unpickle import load_pickle
from tadam.errors import RunFailed, UserError
from tadam.models.modelfile import load_model, save_model
from tadam.recipes import load_recipe
from tadam.system.untrusted_text import printable
from tadam.training.log import read_log
from toy_backbones import blobs, random_model

_OPTIONS: dict[str, dict[str, Any]] = {
    "jpg": {}, "png": {}, "webp": {}, "gif": {}, "bmp": {}, "tiff": {},
    "progressive.jpg": {"progressive": True}, "lossless.webp": {"lossless": True},
    "lzw.tiff": {"compression": "tiff_lzw"}, "jpeg.tiff": {"compression": "jpeg"},
    "deflate.tiff": {"compression": "tiff_deflate"},
}  # fmt: skip


@dataclass(frozen=True)
class UntrustedReader:
    """Something that reads files.

    Attributes:
        name: What it reads.
        seeds: Names and contents of good files.
        read: Reads a file; raises `UserError` or `RunFailed` if it is not as it should be.
    """

    name: str
    seeds: Callable[[], dict[str, bytes]]
    read: Callable[[Path], object]


def verdict(read: Callable[[Path], object], path: Path) -> str:
    """What becomes of a file: `read`, `refused`, or what went wrong."""
    try:
        read(path)
    except (UserError, RunFailed) as error:
        sentence = printable(error)
        return "refused" if 0 < len(sentence) < 600 else f"a long sentence: {sentence[:200]}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200]
    return "read"


def _pictures() -> dict[str, bytes]:
    noise = np.random.default_rng(0).integers(0, 256, (40, 30, 3), np.uint8)
    made = {}
    for name, options in _OPTIONS.items():
        for mode in ("RGB", "L", "CMYK", "RGBA", "P", "I;16"):
            content = io.BytesIO()
            image = Image.fromarray(noise)
            try:
                kind = {"jpg": "JPEG"}.get(name.split(".")[-1], name.split(".")[-1].upper())
                exif = Image.Exif()
                exif[0x0112] = 6
                extra = {"exif": exif} if kind in ("JPEG", "PNG", "WEBP", "TIFF") else {}
                converted = image.convert("I" if mode == "I;16" else mode)
                converted.save(content, kind, **options, **extra)
            except (OSError, ValueError, KeyError):
                continue  # this format has no such mode
            made[f"{mode.replace(';', '')}.{name}"] = content.getvalue()
    return made | _heic(noise)


def _heic(pixels: npt.NDArray[np.uint8]) -> dict[str, bytes]:
    """The same as HEIC, with and without transparency, where the extra is installed."""
    try:
        import pillow_heif
    except ImportError:
        return {}
    made = {}
    for mode in ("RGB", "RGBA", "L"):
        content, image = io.BytesIO(), Image.fromarray(pixels).convert(mode)
        pillow_heif.from_pillow(image).save(content)
        made[f"{mode}.heic"] = content.getvalue()
    return made


def _read_picture(path: Path) -> None:
    square = decode(path, 32)
    assert square.shape == (32, 32, 3)
    whole = decode_upright(path, 32)
    assert whole.ndim == 3
    assert whole.shape[2] == 3


@cache
def imagenet_classifier() -> FewShotClassifier:
    images, labels = blobs(2, 2, side=40)
    return FewShotClassifier("imagenet", device="cpu").fit(images, labels)


def _classify_picture(path: Path) -> None:
    probabilities = imagenet_classifier().predict_proba([path])
    assert np.isfinite(probabilities).all()


def saved_classifier(path: Path) -> None:
    """Writes a small classifier."""
    model, info = random_model()
    folder = path.parent
    save_model(folder / "m.safetensors", model, info)
    FewShotClassifier(folder / "m.safetensors", device="cpu").fit(*blobs(3, 2)).save(path)


def _bytes_of(write: Callable[[Path], object], name: str) -> dict[str, bytes]:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / name)
        return {name: (Path(folder) / name).read_bytes()}


def read_classifier(path: Path) -> None:
    """Loads a classifier and predicts with it."""
    classifier = FewShotClassifier.load(path, device="cpu")
    images, _ = blobs(2, 1)
    assert np.isfinite(classifier.predict_proba(images)).all()


def _read_model(path: Path) -> None:
    model, _ = load_model(path)
    images = torch.randint(0, 256, (1, 4, 3, 16, 16), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        model(images, torch.tensor([[0, 0, 1, 1]]), images, 2)


def _pickles() -> dict[str, bytes]:
    content = {
        "image_data": np.zeros((6, 84, 84, 3), np.uint8)[:, :2, :2],
        "class_dict": {"a": [0, 1], "b": [2]},
    }
    return {f"protocol{p}.pkl": pickle.dumps(content, p) for p in range(5)}


def _npz() -> dict[str, bytes]:
    made = {}
    for name, save in (("plain", np.savez), ("deflated", np.savez_compressed)):
        content = io.BytesIO()
        targets = np.repeat(np.arange(2), 2)
        save(content, features=np.zeros((4, 84, 84, 3), np.uint8), targets=targets)
        made[f"few-shot-train-{name}.npz"] = content.getvalue()
    return made


def _archives() -> dict[str, bytes]:
    made = {}
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w", method) as archive:
            archive.writestr("a/one.txt", b"one" * 50)
            archive.writestr("a/two.txt", bytes(range(256)))
        made[f"{method}.zip"] = content.getvalue()
    for kind in ("", "gz", "bz2", "xz"):
        content = io.BytesIO()
        mode: Any = f"w:{kind}"
        with tarfile.open(fileobj=content, mode=mode) as tar:
            info = tarfile.TarInfo("a/one.txt")
            info.size = 150
            tar.addfile(info, io.BytesIO(b"one" * 50))
        made[f"{kind or 'plain'}.tar"] = content.getvalue()
    return made


def _read_archive(path: Path) -> None:
    for member in members(path):
        member.read()


def _recipes() -> dict[str, bytes]:
    extends = b'extends = "images"\n[run]\nseed = 3\n'
    return {"full.toml": Config().to_toml().encode(), "extends.toml": extends}


def _read_splits(path: Path) -> None:
    read_splits(path, ["a", "b", "c"])


def _logs() -> dict[str, bytes]:
    lines = [b'{"step": 1, "loss": 0.5, "gamma0": {"1": 0.25}}', b'{"step": 2, "loss": [1, null]}']
    return {"log.jsonl": b"\n".join(lines)}


READERS = (
    UntrustedReader("images", _pictures, _read_picture),
    UntrustedReader("images, by the model imagenet", _pictures, _classify_picture),
    UntrustedReader(
        ".tadam files", lambda: _bytes_of(saved_classifier, "c.tadam"), read_classifier
    ),
    UntrustedReader(
        "model files",
        lambda: _bytes_of(lambda path: save_model(path, *random_model()), "m.safetensors"),
        _read_model,
    ),
    UntrustedReader("pickles", _pickles, lambda path: load_pickle(path, 2**24)),
    UntrustedReader("mini-ImageNet's .npz", _npz, lambda path: mini_imagenet._read_npz(path)),
    UntrustedReader("archives", _archives, _read_archive),
    UntrustedReader("recipes", _recipes, load_recipe),
    UntrustedReader("splits.toml", lambda: {"splits.toml": b'train=["a"]\nval=["b"]\ntest=["c"]'},
                    _read_splits),
    UntrustedReader("log.jsonl", _logs, lambda path: read_log(path.parent)),
)  # fmt: skip
