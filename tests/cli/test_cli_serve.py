"""`tadam serve` where it is not installed, and nothing of it where it is not asked for."""

import subprocess
import sys

import pytest

from command_line import CommandLine, assert_one_sentence

HELP = """
import sys
import tadam
from tadam.cli.app import main
dir(tadam)
sys.argv = ["tadam", "--help"]
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
found = {name.partition(".")[0] for name in sys.modules}
assert not {"fastapi", "starlette", "uvicorn"} & found, found
"""


def test_who_does_not_serve_does_not_load_the_server() -> None:
    done = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "serve" in done.stdout


@pytest.mark.parametrize("missing", ["fastapi", "uvicorn", "python_multipart"])
def test_without_the_extra_it_says_what_to_install(
    tadam: CommandLine, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    assert_one_sentence(tadam("serve"), "pip install 'tadam-fewshot[serve]'")
