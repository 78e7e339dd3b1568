"""The shapes of what the API takes and gives, with examples: what the OpenAPI document shows."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

#: Ids are SQLite's: 64 bits.
Number = Annotated[int, Field(ge=1, le=2**63 - 1)]
Name = Annotated[str, Field(min_length=1, max_length=200, examples=["cat"])]
Numbers = Annotated[list[Number], Field(max_length=100_000, examples=[[1, 2, 3]])]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ProblemDocument(BaseModel):
    """What went wrong (RFC 9457)."""

    type: str = "about:blank"
    title: str = Field(examples=["Not Found"])
    status: int = Field(examples=[404])
    detail: str = Field(examples=["there is no class 7 here: it may have been deleted"])


class Health(BaseModel):
    """Whether the server works."""

    status: str = Field(examples=["ok"])
    version: str = Field(examples=["0.2.0"])


class ModelItem(BaseModel):
    """A model that projects can use."""

    name: str = Field(examples=["imagenet"])
    description: str
    installed: bool
    is_default: bool


class NewProject(_Body):
    """A project to make."""

    name: Name
    model: Annotated[str | None, Field(max_length=200, examples=["imagenet"])] = None


class ProjectChange(_Body):
    """What to change; what is left out stays."""

    name: Name | None = None
    model: Annotated[str | None, Field(max_length=200)] = None


class FolderToOpen(_Body):
    """A project, or a folder with a sub-folder of photos for each class."""

    folder: Annotated[str, Field(min_length=1, max_length=4096, examples=["/home/me/flowers"])]


class ProjectItem(BaseModel):
    """A project in a list."""

    id: str = Field(examples=["flowers"])
    name: str
    model: str
    images: int
    classes: int
    modified: float
    problem: str | None = None


class ProjectFacts(BaseModel):
    """The project itself."""

    id: str
    name: str
    model: str
    read_only: bool


class ClassItem(BaseModel):
    """A class with its photos and the share of them that the others get right."""

    id: int
    name: str = Field(examples=["cat"])
    count: int
    accuracy: float | None
    covers: list[int] = Field(default=[], description="some of its newest photos")


class ListLengths(BaseModel):
    """How long each list of photos is."""

    all: int
    unlabelled: int
    uncertain: int
    suspected: int
    unknown: int


class AccuracyPoint(BaseModel):
    """Leave-one-out accuracy with so many labelled photos."""

    images: int
    accuracy: float


class UndoItem(BaseModel):
    """What can be undone and redone, in words."""

    undo: str | None = Field(examples=["Assign 12 photos to cat"])
    redo: str | None


class BusyItem(BaseModel):
    """What is under way."""

    what: str = Field(examples=["embedding"])
    done: int
    total: int


class ProblemItem(BaseModel):
    """A file that cannot be used, or something that could not be done, and why."""

    name: str
    detail: str


class State(BaseModel):
    """Everything about a project but its photos."""

    project: ProjectFacts
    revision: int
    classes: list[ClassItem]
    counts: ListLengths
    accuracy: float | None
    accuracy_history: list[AccuracyPoint]
    undo: UndoItem
    busy: BusyItem | None
    problems: list[ProblemItem] = Field(
        default=[], description="what went wrong in the background since the server started"
    )


class ClassName(_Body):
    """The name of a class."""

    name: Name


class MergeInto(_Body):
    """The class that gets the photos."""

    into: Number


class PhotoItem(BaseModel):
    """A photo; of a labelled one, the guess is what the others say."""

    id: int
    name: str
    class_id: int | None
    guess: int | None
    confidence: float | None
    unknown: bool
    suspected: bool
    added: float
    width: int
    height: int


class PhotoList(BaseModel):
    """Part of a list of photos."""

    total: int
    revision: int
    items: list[PhotoItem]


class DuplicateItem(BaseModel):
    """A file that was there already."""

    name: str
    id: int


class Added(BaseModel):
    """What became of files that were sent."""

    added: list[PhotoItem]
    duplicates: list[DuplicateItem]
    problems: list[ProblemItem]


class Imported(Added):
    """A project that was made of a file."""

    project: ProjectItem


class Assignment(_Body):
    """Photos and their class; null takes the label away."""

    ids: Numbers
    class_id: Number | None


class PhotoIds(_Body):
    """Some photos."""

    ids: Numbers


class ClassProbability(BaseModel):
    """How probable a class is."""

    class_id: int
    label: str
    probability: float


class NearPhoto(BaseModel):
    """A labelled photo that looks like the one that was asked about."""

    id: int
    label: str
    similarity: float


class AnswerItem(BaseModel):
    """What the classifier says of one photo."""

    name: str
    label: str | None = Field(description="null for none of these")
    class_id: int | None
    confidence: float
    unknown: bool
    strangeness: float = Field(description="0 is typical of the classes, 1 is the limit")
    probabilities: list[ClassProbability]
    nearest: list[NearPhoto]


class AnswerList(BaseModel):
    """Answers for several photos."""

    model: str
    revision: int
    answers: list[AnswerItem]
    problems: list[ProblemItem]


class SuspectedItem(BaseModel):
    """A photo whose label the others contradict."""

    id: int
    class_id: int
    guess: int
    why: str


class Quality(BaseModel):
    """How good the classifier is, and what would make it better."""

    revision: int
    accuracy: float | None
    classes: list[ClassItem]
    confusion: list[list[int]] = Field(description="rows are labels, columns are answers")
    suggestions: list[int]
    suspected: list[SuspectedItem]
    duplicates: list[list[int]]
    advice: list[str]


class ClassifierFacts(BaseModel):
    """A served `.tadam` file."""

    model_config = ConfigDict(protected_namespaces=())
    name: str
    model: str | None
    classes: list[ClassItem]
    image_size: int
    reject_threshold: float


_DOCUMENT = {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}
#: What every route may answer instead.
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": ProblemDocument, "content": {"application/problem+json": _DOCUMENT}}
    for status in (400, 401, 403, 404, 405, 408, 409, 413, 422, 429, 503, 507)
}
