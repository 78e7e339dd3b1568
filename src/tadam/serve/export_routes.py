"""`/projects/{p}/export` and imports: a project as files, and files as a project."""

import copy
import os
import tempfile
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from fastapi.responses import FileResponse
from starlette.background import BackgroundTask

from tadam.data.folder import class_files
from tadam.errors import UserError
from tadam.serve.archives import answers_csv, photos_zip, support_pictures
from tadam.serve.arrivals import Incoming
from tadam.serve.image_routes import MULTIPART, added_items
from tadam.serve.live import LiveProject
from tadam.serve.naming import slug
from tadam.serve.predicting import check_classifier
from tadam.serve.problem import Refused
from tadam.serve.project import DATABASE
from tadam.serve.project_routes import project_item
from tadam.serve.schemas import PROBLEMS, Added, FolderToOpen, Imported, ProjectItem
from tadam.serve.studio import ALearntProject, AProject, AStudio, Studio, in_thread, writable
from tadam.serve.uploads import is_zip, sent_files

exports_router = APIRouter(prefix="/projects", tags=["export and import"], responses=PROBLEMS)
_FILE: Any = {"responses": {"200": {"content": {"application/octet-stream": {}}}}}


def _sent(live: LiveProject, ending: str, write: Any, media_type: str) -> FileResponse:
    """A file that is made now and deleted once it has been sent."""
    handle, name = tempfile.mkstemp(suffix=f".{ending}")
    os.close(handle)
    path = Path(name)
    try:
        write(path)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    plain = f"{slug(live.project.name)}.{ending}"
    disposition = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(plain)}"
    return FileResponse(
        path,
        media_type=media_type,
        headers={"Content-Disposition": disposition, "Cache-Control": "no-store"},
        background=BackgroundTask(path.unlink, missing_ok=True),
    )


@exports_router.get("/{p}/export/tadam", response_class=FileResponse)
def export_tadam(live: ALearntProject) -> FileResponse:
    """Download the classifier as a `.tadam` file, for `tadam predict` and Python."""
    now = live.teachable()
    assert now.classifier is not None
    made = copy.copy(now.classifier)
    if not live.is_read_only:
        made.support_pictures_ = support_pictures(live.project, now)
    return _sent(live, "tadam", made.save, "application/octet-stream")


@exports_router.get("/{p}/export/onnx", response_class=FileResponse)
def export_onnx(live: ALearntProject) -> FileResponse:
    """Download the classifier as an ONNX file, which needs no tadam."""
    classifier = live.teachable().classifier
    assert classifier is not None
    return _sent(live, "onnx", classifier.export, "application/octet-stream")


@exports_router.get("/{p}/export/zip", response_class=FileResponse)
def export_zip(
    live: AProject,
    unlabelled: Annotated[bool, Query(description="also those, outside the folders")] = True,
) -> FileResponse:
    """Download the photos as a zip with a folder for each class."""
    writable(live)
    return _sent(
        live, "zip", lambda path: photos_zip(live.project, path, unlabelled), "application/zip"
    )


@exports_router.get("/{p}/export/csv", response_class=FileResponse)
def export_csv(live: ALearntProject) -> FileResponse:
    """Download what the classifier says of every photo."""
    writable(live)
    now = live.teachable()
    return _sent(
        live,
        "csv",
        lambda path: path.write_text(answers_csv(live.project, now), "utf-8", newline=""),
        "text/csv; charset=utf-8",
    )


@exports_router.post("/{p}/import", response_model=Added, openapi_extra=MULTIPART)
async def import_photos(request: Request, live: AProject, studio: AStudio) -> Any:
    """Add the photos of zips of class folders."""
    writable(live)
    async with sent_files(request, studio.settings) as sent:
        result = await in_thread(studio.add, live, sent.files, None, True)
    return added_items(live, result)


@exports_router.post("/import", response_model=Imported, status_code=201, openapi_extra=MULTIPART)
async def import_project(request: Request, studio: AStudio) -> Any:
    """Make a project of a zip of class folders, or of a `.tadam` file, which then only predicts."""
    async with sent_files(request, studio.settings) as sent:
        if len(sent.files) != 1:
            raise Refused(422, "a project is made of one file: send a zip or a .tadam file")
        return await in_thread(_imported, studio, sent.files[0], sent.fields)


def _imported(studio: Studio, file: Incoming, fields: dict[str, str]) -> dict[str, Any]:
    name = fields.get("name") or Path(file.name).stem or "project"
    if is_zip(file):
        live = studio.library.create(name, fields.get("model"))
        try:
            result = studio.add(live, [file], None, True)
        finally:
            if not live.project.photos:
                studio.library.remove(live.id)
        if not result.added:
            sentence = result.problems[0][1] if result.problems else "there are no photos in it"
            raise Refused(422, sentence)
        return {**added_items(live, result), "project": project_item(live)}
    with tempfile.TemporaryDirectory(prefix="tadam-import-") as folder:
        path = Path(folder) / "classifier.tadam"
        with file.open() as content, open(path, "wb") as copied:
            while chunk := content.read(2**20):
                copied.write(chunk)
        model = check_classifier(path)
        live = studio.library.create_predicting(name, model, path)
    return {"added": [], "duplicates": [], "problems": [], "project": project_item(live)}


@exports_router.post("/open", response_model=ProjectItem, status_code=201)
def open_folder(studio: AStudio, body: FolderToOpen) -> Any:
    """Open a project of this machine, or copy a folder of classes into a new project."""
    if not studio.settings.is_local:
        raise Refused(403, "folders can be opened from this machine only: send a zip instead")
    if "\0" in body.folder:
        raise Refused(422, "that is not a path: check it")
    return project_item(opened(studio, Path(body.folder).expanduser()))


def opened(studio: Studio, folder: Path) -> LiveProject:
    """A project that is in a folder, or a new one with copies of the photos there."""
    if not folder.is_dir():
        raise Refused(422, f"{folder} is not a folder: check the path")
    if (folder / DATABASE).is_file():
        return studio.library.open_folder(folder)
    try:
        found = class_files(folder)
    except UserError as error:
        raise Refused(422, str(error)) from None
    live = studio.library.create(folder.name or "photos", None)
    files = [
        Incoming(f"{name}/{path.name}", _opener(path))
        for name, paths in found.items()
        for path in paths
    ]
    studio.add_later(live, files)
    return live


def _opener(path: Path) -> Any:
    return lambda: open(path, "rb")
