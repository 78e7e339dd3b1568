"""`/projects/{p}/images`: adding, listing, labelling and showing photos."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import FileResponse

from tadam.serve.answers import listed, photo_item, state_of
from tadam.serve.arrivals import AddedPhotos
from tadam.serve.live import LiveProject
from tadam.serve.photo_files import MEDIA_TYPES
from tadam.serve.problem import Refused
from tadam.serve.schemas import PROBLEMS, Added, Assignment, Number, PhotoIds, PhotoList, State
from tadam.serve.studio import ALearntProject, AProject, AStudio, in_thread, writable
from tadam.serve.uploads import FILES_SCHEMA, sent_files

images_router = APIRouter(prefix="/projects/{p}", tags=["photos"], responses=PROBLEMS)
_MOST = 2**53
_FOREVER = {"Cache-Control": "private, max-age=31536000, immutable"}

MULTIPART: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["files"],
                    "properties": {
                        "files": FILES_SCHEMA,
                        "class_id": {"type": "integer", "description": "their class"},
                        "by_folder": {
                            "type": "boolean",
                            "description": "the first folder in a file's name is its class",
                        },
                        "undo_group": {
                            "type": "string",
                            "description": "requests in a row with the same text undo together",
                        },
                    },
                }
            }
        },
    }
}


def added_items(live: LiveProject, result: AddedPhotos) -> dict[str, Any]:
    """What became of files that were sent, as the API shows it."""
    photos = [live.project.photos[number] for number in result.added]
    return {
        "added": [photo_item(photo, live.taught) for photo in photos],
        "duplicates": [{"name": name, "id": number} for name, number in result.duplicates],
        "problems": [{"name": name, "detail": detail} for name, detail in result.problems],
    }


@images_router.post("/images", response_model=Added, openapi_extra=MULTIPART)
async def add(request: Request, live: AProject, studio: AStudio) -> Any:
    """Add photos, many at a time; zips are unpacked and duplicates recognised."""
    writable(live)
    async with sent_files(request, studio.settings) as sent:
        class_id, by_folder = sent.number("class_id"), sent.flag("by_folder")
        group = sent.fields.get("undo_group", "")
        result = await in_thread(studio.add, live, sent.files, class_id, by_folder, group)
    return added_items(live, result)


@images_router.get("/images", response_model=PhotoList)
def list_images(
    live: AProject,
    show: Literal["all", "unlabelled", "uncertain", "suspected", "unknown", "class"] = "all",
    sort: Literal["newest", "uncertain", "class", "name"] = "newest",
    class_id: Annotated[int | None, Query(ge=1, le=_MOST)] = None,
    truth: Annotated[int | None, Query(ge=1, le=_MOST)] = None,
    answer: Annotated[int | None, Query(ge=1, le=_MOST)] = None,
    ids: Annotated[
        str | None, Query(pattern=r"^(\d{1,18}(,\d{1,18})*)?$", description="just these")
    ] = None,
    offset: Annotated[int, Query(ge=0, le=_MOST)] = 0,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 200,
) -> Any:
    """List photos with the classifier's guesses."""
    revision = live.project.revision
    if ids is not None:
        wanted = [int(number) for number in ids.split(",") if number]
        found = [p for i in wanted if (p := live.project.photos.get(i)) and not p.deleted]
    else:
        found = listed(live, show, sort, class_id, truth, answer)
    items = [photo_item(photo, live.taught) for photo in found[offset : offset + limit]]
    return {"total": len(found), "revision": revision, "items": items}


@images_router.get("/images/{i}/thumbnail", response_class=FileResponse)
def thumbnail(live: AProject, i: Number) -> FileResponse:
    """A small JPEG of a photo."""
    digest = live.project.photo(i).digest
    path = live.project.files.thumbnail(digest)
    return FileResponse(path, media_type="image/jpeg", headers=_FOREVER)


@images_router.get("/images/{i}/original", response_class=FileResponse)
def original(live: AProject, i: Number) -> FileResponse:
    """A photo as it was sent."""
    photo = live.project.photo(i)
    kind = MEDIA_TYPES.get(photo.format, "application/octet-stream")
    return FileResponse(live.project.files.path(photo.digest), media_type=kind, headers=_FOREVER)


@images_router.post("/images/assign", response_model=State)
def assign(live: AProject, body: Assignment) -> Any:
    """Give photos a label, or take it away."""
    writable(live).project.assign(body.ids, body.class_id)
    return state_of(live)


@images_router.post("/images/accept", response_model=State)
def accept(live: ALearntProject, body: PhotoIds) -> Any:
    """Give each photo the label that the classifier guesses."""
    guesses = writable(live).current().guesses
    labels = {i: guesses[i].class_id for i in body.ids if i in guesses}
    if len(labels) < len(set(body.ids)):
        raise Refused(409, "there is no guess for some of these photos: label them yourself")
    live.project.assign_each(labels)
    return state_of(live)


@images_router.post("/images/delete", response_model=State)
def delete(live: AProject, body: PhotoIds) -> Any:
    """Delete photos, which can be undone."""
    writable(live).project.delete_photos(body.ids)
    return state_of(live)
