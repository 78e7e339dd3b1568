"""Drawings as Playwright wants files."""

from tadam.serve.drawings import drawing, jpeg


def photo_file(subject: str, seed: int, side: int = 96) -> dict[str, str | bytes]:
    """A drawing to drop or to choose."""
    name = f"{subject.lower()}-{seed:03}.jpg"
    return {"name": name, "mimeType": "image/jpeg", "buffer": jpeg(drawing(subject, seed, side))}
