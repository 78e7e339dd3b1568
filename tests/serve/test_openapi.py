"""Everything the OpenAPI document promises, tried with generated requests, good and bad."""

from pathlib import Path
from typing import Any

import hypothesis
import pytest
import schemathesis
from schemathesis.specs.openapi.checks import positive_data_acceptance

from serving import API, TOKEN, client, in_thread, pngs
from tadam.serve.app import studio_app
from tadam.serve.serve_settings import ServeSettings

#: Never ends, so there is no answer to judge; test_projects_api.py listens to it.
_ENDLESS = "/events"


@pytest.mark.filterwarnings("ignore")
def test_no_request_makes_the_server_fail_or_break_its_word(tmp_path: Path) -> None:
    settings = ServeSettings(port=0, token=TOKEN, patience=5.0)
    with in_thread(studio_app(settings, tmp_path), settings) as where, client(where) as web:
        project = web.project("flowers", "fc100")  # the examples name it
        for subject in ("disc", "box"):
            number = web.add_class(project, subject)
            web.add(project, pngs(subject, range(2)), class_id=number)
        schema = schemathesis.openapi.from_url(f"{where}{API}/openapi.json")
        headers = {"X-Tadam-Token": TOKEN}
        tried = 0
        for found in schema.get_all_operations():
            operation: Any = found.ok()  # type: ignore[union-attr]
            if operation.path.endswith(_ENDLESS) or "export/onnx" in operation.path:
                continue

            @hypothesis.given(case=operation.as_strategy())
            @hypothesis.settings(
                max_examples=4,
                derandomize=True,
                deadline=None,
                database=None,
                suppress_health_check=list(hypothesis.HealthCheck),
            )
            def attempt(case: Any) -> None:
                nonlocal tried
                tried += 1
                # A schema cannot say which bytes are a photo, or which names are taken.
                case.call_and_validate(headers=headers, excluded_checks=[positive_data_acceptance])

            attempt()
        assert tried > 60
        assert web.get(f"{API}/health").json()["status"] == "ok"


def test_the_document_has_examples_and_every_route_says_what_it_does(server: str) -> None:
    with client(server) as web:
        document = web.get(f"{API}/openapi.json").json()
        page = web.get(f"{API}/docs").text
        usual = web.get("/docs", follow_redirects=True)
        assert (usual.text, usual.url.path) == (page, f"{API}/docs")
    routes = [route for path in document["paths"].values() for route in path.values()]
    assert len(routes) > 25
    assert all(route["description"].endswith(".") for route in routes)
    assert "examples" in str(document["components"]["schemas"]["ClassName"])
    assert "http://" not in page
    assert "https://" not in page
