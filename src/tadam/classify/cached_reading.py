"""Reads only the photos whose embeddings are not in the cache, and adds them to it."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tadam import __version__
from tadam.classify.embedding_cache import EmbeddingCache, Kept, file_id
from tadam.classify.predictor import Predictor
from tadam.classify.reading import ImageSource, Prepared, Reader
from tadam.classify.thumbnails import thumbnail
from tadam.data.decode import DECODER_VERSION
from tadam.models.modelfile import ModelInfo
from tadam.system.progress import Progress


def identity(predictor: Predictor, origin: ModelInfo | None) -> bytes | None:
    """A digest of all that an embedding depends on besides the photo.

    None if that cannot be told, because the network's code is the user's own, or if nobody would
    ask again, because the network is conditioned on its task.
    """
    if origin is None or not predictor.cacheable:
        return None
    if "conditioning" in origin.config.method.tables and origin.config.conditioning.enabled:
        return None
    settings = (__version__, DECODER_VERSION, origin.config.backbone, origin.spec)
    digest = hashlib.sha256(repr((settings, predictor.mirrored)).encode())
    for part in (predictor.preprocess, predictor.network):
        for name, tensor in part.state_dict().items():
            digest.update(f"{name} {tuple(tensor.shape)}\n".encode())
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.digest()


def with_cache(
    reader: Reader, predictor: Predictor, origin: ModelInfo | None
) -> "Reader | CachedReader":
    """The reader of a predictor's images, with the user's cache before it if `origin` allows."""
    network = identity(predictor, origin)
    return CachedReader(reader, EmbeddingCache(), network) if network else reader


@dataclass(frozen=True)
class CachedReader:
    """Stands in for a `Reader`.

    Attributes:
        reader: Reads what is not in the cache.
        cache: Where embeddings are kept.
        identity: Of the network; see above.
    """

    reader: Reader
    cache: EmbeddingCache
    identity: bytes

    def batches(
        self,
        images: Sequence[ImageSource],
        progress: Progress | None = None,
        problems: list[str] | None = None,
    ) -> Iterator[Prepared]:
        """As `Reader.batches`, but what is known comes first; images in memory are not looked up.

        Batches have pictures as JPEGs, and keep what they need to be remembered by.
        """
        files = [image for image in images if isinstance(image, Path)]
        if len(files) < len(images):
            yield from self.reader.batches(images, progress, problems)
            return
        keys = self._keys(files)
        found = self.cache.look_up([key for key in keys if key])
        if self.reader.thumbnail:
            found = {key: kept for key, kept in found.items() if kept.picture}
        known = [row for row, key in enumerate(keys) if key in found]
        if known:
            kept = [found[key] for row in known if (key := keys[row])]
            pictures = [one.picture for one in kept] if self.reader.thumbnail else []
            z = torch.from_numpy(np.stack([one.z for one in kept]))
            yield Prepared(
                known, z.to(self.reader.preprocess.pixel_mean.device), pictures, embedded=True
            )
            if progress:
                progress(len(known), len(images))
        yield from self._read(files, keys, set(known), progress, problems)

    def _keys(self, files: Sequence[Path]) -> list[bytes | None]:
        return [
            content and hashlib.blake2b(self.identity + content, digest_size=20).digest()
            for content in self.cache.contents(files)
        ]

    def _read(
        self,
        files: Sequence[Path],
        keys: Sequence[bytes | None],
        known: set[int],
        progress: Progress | None,
        problems: list[str] | None,
    ) -> Iterator[Prepared]:
        """The files that are not known, with their places among all."""
        rows = [row for row in range(len(files)) if row not in known]
        if not rows:
            return
        ids = {row: file_id(files[row]) for row in rows}
        reader = replace(self.reader, thumbnail=thumbnail if self.reader.thumbnail else None)

        def shifted(done: int, total: int) -> None:
            if progress:
                progress(len(known) + done, len(files))

        for batch in reader.batches([files[row] for row in rows], shifted, problems):
            places = [rows[i] for i in batch.rows]

            def keep(z: Tensor, places: list[int] = places, batch: Prepared = batch) -> None:
                vectors, pictures = z.cpu().numpy(), batch.thumbnails or [b""] * len(places)
                self.cache.keep(
                    {
                        key: Kept(vectors[i], pictures[i])
                        for i, row in enumerate(places)
                        # a file that changed while it was read is not what was looked up
                        if (key := keys[row]) and file_id(files[row]) == ids[row]
                    }
                )

            yield replace(batch, rows=places, keep=keep)
