"""The Dockerfile: what can be judged without Docker; `make docker-steps` runs its steps."""

import json
import tomllib

from dockerfile_steps import ROOT, installed, instructions


def test_the_image_installs_our_extras_and_runs_as_a_user_without_rights() -> None:
    text = (ROOT / "Dockerfile").read_text()
    steps = instructions(text)
    extras, command = installed(text)
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(extras.split(",")) <= set(known["optional-dependencies"])
    assert "serve" in extras
    assert "constraints.txt" in command
    kinds = [kind for kind, _ in steps]
    assert kinds.index("USER") < kinds.index("ENTRYPOINT")
    assert "HEALTHCHECK" in kinds
    entry = json.loads(dict(steps)["ENTRYPOINT"])
    assert entry[:2] == ["tadam", "serve"]
    assert entry[0] in known["scripts"]
