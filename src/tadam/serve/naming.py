"""Names of classes, photos and projects: text of a sensible length, never a path."""

import re
import unicodedata

from tadam.serve.problem import Refused

LONGEST_NAME = 200


def clean_name(name: str) -> str:
    """A name without spaces around it, in one Unicode form; refused if nothing can be seen of it.

    Characters that act, such as line breaks, are refused: a name is shown, saved in archives and
    typed on command lines.
    """
    name = unicodedata.normalize("NFC", name).strip()
    if not name or len(name) > LONGEST_NAME:
        raise Refused(422, f"a name has 1 to {LONGEST_NAME} characters: choose another one")
    if any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in name):
        raise Refused(422, "a name cannot contain control characters: choose another one")
    return name


def photo_name(name: str | None) -> str:
    """What a sender calls a photo, as text of a sensible length: the last part of a path."""
    last = re.split(r"[/\\]", name or "")[-1]
    return "".join(c for c in last if c.isprintable())[-LONGEST_NAME:] or "photo"


def folder_of(name: str | None) -> str | None:
    """The outermost folder of a relative path that a sender gave, which may name a class."""
    parts = [part for part in re.split(r"[/\\]", name or "") if part not in ("", ".", "..")]
    shown = "".join(c for c in parts[0] if c.isprintable()).strip() if len(parts) > 1 else ""
    return shown[:LONGEST_NAME] or None


def slug(name: str) -> str:
    """A folder name for a project: lower-case letters, digits and hyphens."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:40] or "project"


def counted(photos: int) -> str:
    """So many photos, in words."""
    return "1 photo" if photos == 1 else f"{photos} photos"
