"""`/projects`: making, opening, changing and watching them, their classes, undo and quality."""

from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from tadam.errors import RunFailed, UserError
from tadam.serve.answers import state_of
from tadam.serve.live import LiveProject
from tadam.serve.predicting import answered
from tadam.serve.problem import Refused
from tadam.serve.quality import quality_of
from tadam.serve.schemas import (
    PROBLEMS,
    AnswerList,
    ClassItem,
    ClassName,
    MergeInto,
    NewProject,
    Number,
    ProjectChange,
    ProjectItem,
    Quality,
    State,
)
from tadam.serve.studio import ALearntProject, AProject, AStudio, writable
from tadam.serve.uploads import FILES_SCHEMA, sent_files

projects_router = APIRouter(prefix="/projects", tags=["projects"], responses=PROBLEMS)
#: A question may also be the bytes of a single photo.
QUESTION: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["files"],
                    "properties": {"files": FILES_SCHEMA},
                }
            },
            "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
            "image/*": {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


def project_item(live: LiveProject) -> dict[str, Any]:
    """A project in a list."""
    project = live.project
    return {
        "id": live.id,
        "name": project.name,
        "model": project.model,
        "images": len(project.live_photos()),
        "classes": len(project.live_boxes()),
        "modified": project.modified,
    }


@projects_router.get("", response_model=list[ProjectItem])
def list_projects(studio: AStudio) -> Any:
    """List projects, the last changed first."""
    found: list[dict[str, Any]] = []
    for number in studio.library.ids():
        try:
            found.append(project_item(studio.library.get(number)))
        except (UserError, RunFailed) as error:
            blank = {"model": "", "images": 0, "classes": 0, "modified": 0.0}
            found.append({"id": number, "name": number, **blank, "problem": str(error)})
    return sorted(found, key=lambda item: -item["modified"])


@projects_router.post("", response_model=ProjectItem, status_code=201)
def create_project(studio: AStudio, body: NewProject) -> Any:
    """Make an empty project."""
    return project_item(studio.library.create(body.name, body.model))


@projects_router.get("/{p}", response_model=ProjectItem)
def show_project(live: AProject) -> Any:
    """Show a project."""
    return project_item(live)


@projects_router.patch("/{p}", response_model=ProjectItem)
def change_project(live: AProject, body: ProjectChange) -> Any:
    """Rename a project, or choose another model, with which all photos are embedded anew."""
    if body.name is not None:
        from tadam.serve.naming import clean_name

        live.project.set_fact("name", clean_name(body.name))
    if body.model is not None and body.model != live.project.model:
        writable(live).change_model(body.model)
    return project_item(live)


@projects_router.delete("/{p}", status_code=204)
def delete_project(live: AProject, studio: AStudio) -> Response:
    """Move a project to the trash folder."""
    studio.library.remove(live.id)
    return Response(status_code=204)


@projects_router.get("/{p}/state", response_model=State)
def show_state(live: AProject) -> Any:
    """Show everything about a project but its photos."""
    return state_of(live)


@projects_router.get("/{p}/events", response_class=StreamingResponse)
async def watch(live: AProject, studio: AStudio) -> StreamingResponse:
    """Watch a project: server-sent events `state` and `progress`."""

    def look() -> tuple[int, dict[str, object] | None]:
        return live.project.revision, live.busy and live.busy._asdict()

    events = studio.hub.watch(live.id, look)
    return StreamingResponse(
        events, media_type="text/event-stream", headers={"Cache-Control": "no-store"}
    )


@projects_router.post("/{p}/classes", response_model=ClassItem, status_code=201, tags=["classes"])
def add_class(live: AProject, body: ClassName) -> Any:
    """Make a class."""
    box = writable(live).project.add_class(body.name)
    return {"id": box.id, "name": box.name, "count": 0, "accuracy": None}


@projects_router.patch("/{p}/classes/{c}", response_model=State, tags=["classes"])
def rename_class(live: AProject, c: Number, body: ClassName) -> Any:
    """Rename a class."""
    writable(live).project.rename_class(c, body.name)
    return state_of(live)


@projects_router.delete("/{p}/classes/{c}", response_model=State, tags=["classes"])
def delete_class(
    live: AProject, c: Number, photos: Literal["unlabel", "delete"] = "unlabel"
) -> Any:
    """Delete a class, and its photos if asked to."""
    writable(live).project.delete_class(c, photos == "delete")
    return state_of(live)


@projects_router.post("/{p}/classes/{c}/merge", response_model=State, tags=["classes"])
def merge_class(live: AProject, c: Number, body: MergeInto) -> Any:
    """Move all photos of a class to another and delete it."""
    writable(live).project.merge_class(c, body.into)
    return state_of(live)


@projects_router.post("/{p}/undo", response_model=State)
def undo(live: AProject) -> Any:
    """Undo the last action."""
    writable(live).project.step(undone=False)
    return state_of(live)


@projects_router.post("/{p}/redo", response_model=State)
def redo(live: AProject) -> Any:
    """Do again what was undone."""
    writable(live).project.step(undone=True)
    return state_of(live)


@projects_router.get("/{p}/quality", response_model=Quality)
def show_quality(live: ALearntProject) -> Any:
    """Show how good the classifier is, and what would make it better."""
    if live.is_read_only:
        raise Refused(409, "this project only predicts: it has no photos to judge it by")
    return quality_of(live)


@projects_router.post(
    "/{p}/predict", response_model=AnswerList, tags=["predict"], openapi_extra=QUESTION
)
async def predict(request: Request, live: AProject, studio: AStudio) -> Any:
    """Classify photos: a form with `files`, or the bytes of one photo as the body."""
    async with sent_files(request, studio.settings) as sent:
        now = await live.teachable_soon()
        return await answered(
            studio.queue, now, sent.files, live.project.model, live.project.revision
        )
