"""Every request of the HTTP API, from the OpenAPI documents that the servers give out."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from site_pages.markdown_tables import markdown_table
from tadam.serve.app import PREFIX, studio_app
from tadam.serve.classifier_app import classifier_router
from tadam.serve.serve_settings import ServeSettings


def documents() -> Iterator[tuple[str, dict[str, Any]]]:
    """What is served -> its OpenAPI document."""
    with tempfile.TemporaryDirectory() as folder:
        app = studio_app(ServeSettings(), Path(folder))
        try:
            yield "A folder of projects", app.openapi()
        finally:
            app.state.studio.close()
    bare = FastAPI()
    bare.include_router(classifier_router, prefix=PREFIX)
    yield "A classifier", bare.openapi()


def _named(schema: dict[str, Any]) -> str:
    """A schema in a word: its name with a link, a list of it, or its plain type."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_named(one) for one in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {_named(schema.get('items', {}))}"
    return str(schema.get("format") or schema.get("type") or "anything")


def _body(request: dict[str, Any]) -> str:
    kinds = request.get("requestBody", {}).get("content", {})
    found = []
    for kind, content in kinds.items():
        schema = content.get("schema", {})
        fields = ", ".join(f"`{field}`" for field in schema.get("properties", {}))
        found.append(f"{_named(schema)}" if "$ref" in schema else f"{kind}: {fields or 'bytes'}")
    return "; ".join(found)


def _queries(request: dict[str, Any]) -> str:
    asked = [p["name"] for p in request.get("parameters", []) if p["in"] == "query"]
    return ", ".join(f"`?{name}=`" for name in asked)


def _answer(request: dict[str, Any]) -> str:
    status, answer = next(item for item in request["responses"].items() if item[0].startswith("2"))
    schemas = [c["schema"] for c in answer.get("content", {}).values() if c.get("schema")]
    named = [_named(schema) for schema in schemas]
    return (named[0] if named else "") or ("nothing" if status == "204" else "a file")


def _requests(document: dict[str, Any]) -> str:
    rows = []
    for path, methods in document["paths"].items():
        for method, request in methods.items():
            sent = ", ".join(filter(None, (_queries(request), _body(request))))
            meaning = request.get("description", "").split("\n\n")[0]
            meaning += f"<br>Send {sent}." if sent else ""
            place = path.removeprefix(PREFIX)
            rows.append((f"`{method.upper()}`", f"`{place}`", meaning, _answer(request)))
    return markdown_table(("method", "path", "what it does", "answer"), rows)


def _schemas(schemas: dict[str, Any]) -> Iterator[str]:
    for name, schema in sorted(schemas.items()):
        fields = [
            (f"`{field}`", _named(about), about.get("description", ""))
            for field, about in schema.get("properties", {}).items()
        ]
        yield f"### {name}\n\n{' '.join(schema.get('description', '').split())}\n"
        if fields:
            yield markdown_table(("field", "type", "meaning"), fields) + "\n"


def http_reference() -> str:
    """A table of requests for each kind of server, then every object they exchange."""
    parts: list[str] = []
    schemas: dict[str, Any] = {}
    for title, document in documents():
        parts.append(f"## {title}\n\n{_requests(document)}\n")
        schemas |= document.get("components", {}).get("schemas", {})
    return "\n".join([*parts, "## Objects\n", *_schemas(schemas)])
