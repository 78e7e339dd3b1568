"""Files of a model of the Hugging Face hub: found, fetched, digested and read, never executed."""

import hashlib
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import nn

from tadam.errors import UserError

#: All that is ever fetched.
_FILES = ("config.json", "preprocessor_config.json", "model*.safetensors", "model*.index.json")
#: Models of images and text -> the class that reads only the part for images.
_TOWERS = {"clip": "CLIPVisionModelWithProjection", "siglip": "SiglipVisionModel"}


def local_folder(name: str) -> Path:
    """Where the files of a model are: a folder, or a copy of the hub's, fetched if need be."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        return _checked(folder, name)
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise UserError(f"hf:{name} does not exist: give a folder, or a name such as owner/model")
    try:
        from huggingface_hub import errors, snapshot_download
    except ImportError:
        raise UserError(
            f"hf:{name} needs the package transformers: pip install 'tadam-fewshot[hf]'"
        ) from None
    try:
        return _checked(Path(snapshot_download(name, allow_patterns=list(_FILES))), name)
    except (errors.RepositoryNotFoundError, errors.GatedRepoError, errors.HFValidationError):
        raise UserError(f"there is no public model {name!r} on the hub: check the name") from None
    except (OSError, errors.HfHubHTTPError):
        raise UserError(
            f"hf:{name} is not on this machine and the hub cannot be reached: download it where "
            "there is a network, then give its folder as hf:FOLDER"
        ) from None


def _checked(folder: Path, name: str) -> Path:
    if not (folder / "config.json").is_file():
        raise UserError(f"hf:{name} has no config.json: give a folder that save_pretrained wrote")
    if not weight_files(folder):
        raise UserError(
            f"hf:{name} has no model.safetensors, and other formats can run code: choose a model "
            "with safetensors, or convert it"
        )
    return folder


def weight_files(folder: Path) -> list[Path]:
    """The weights, in one file or several."""
    whole = folder / "model.safetensors"
    return [whole] if whole.is_file() else sorted(folder.glob("model-*.safetensors"))


def digest_of(folder: Path) -> str:
    """SHA-256 of the weights and of the description of the network."""
    digest = hashlib.sha256()
    for file in (folder / "config.json", *weight_files(folder)):
        with file.open("rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()


def model_from(folder: Path) -> tuple[nn.Module, bool]:
    """The model in a folder, and whether its weights include its pooling layer's."""
    try:
        import transformers
    except ImportError:
        raise UserError(
            f"hf:{folder} needs the package transformers: pip install 'tadam-fewshot[hf]'"
        ) from None
    safe: dict[str, Any] = {"trust_remote_code": False, "local_files_only": True}
    try:
        with _quiet(transformers):
            kind = transformers.AutoConfig.from_pretrained(folder, **safe).model_type
            reader = getattr(transformers, _TOWERS.get(kind, "AutoModel"))
            model, report = reader.from_pretrained(
                folder, use_safetensors=True, output_loading_info=True, **safe
            )
    except Exception as error:  # it raises nearly anything for a file that does not fit
        reason = " ".join(str(error).split())
        raise UserError(
            f"hf:{folder} cannot be read ({reason[:200]}): choose an image encoder that this "
            "version of transformers knows"
        ) from None
    missing = [key for key in report["missing_keys"] if "pooler" not in key]
    if missing:
        raise UserError(f"hf:{folder} lacks weights, such as {missing[0]}: download it again")
    return model.eval().requires_grad_(False), not report["missing_keys"]


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """No progress bar for what takes a moment, and no report on weights that we do not need."""
    logger, bars = logging.getLogger("transformers"), transformers.utils.logging
    level, shown = logger.level, bars.is_progress_bar_enabled()
    try:
        logger.setLevel(logging.ERROR)
        bars.disable_progress_bar()
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logger.setLevel(level)
        if shown:
            bars.enable_progress_bar()
