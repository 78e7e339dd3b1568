"""Coverage-guided fuzzing of the readers with atheris, which has to be installed by hand.

    pip install atheris
    python tests/attack/fuzz.py NAME -max_total_time=150 -artifact_prefix=/tmp/crash-

NAME is the start of a reader's name in readers.py, and perhaps an ending: archives=.tar. A crash
that it finds becomes a case of test_attack.py, made by code.
"""

import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]

import atheris  # noqa: E402

with atheris.instrument_imports(include=["tadam", "PIL", "zipfile", "tarfile", "pickle"]):
    from readers import READERS, verdict


def main() -> None:
    wanted, _, suffix = sys.argv.pop(1).partition("=")
    reader = next(reader for reader in READERS if reader.name.startswith(wanted))
    seeds = reader.seeds()
    suffix = suffix or Path(next(iter(seeds))).suffix
    folder = Path(tempfile.mkdtemp())
    corpus = folder / "corpus"
    corpus.mkdir()
    for name, content in seeds.items():
        (corpus / name).write_bytes(content)

    def once(content: bytes) -> None:
        path = folder / f"fuzzed{suffix}"
        path.write_bytes(content)
        found = verdict(reader.read, path)
        if found not in ("read", "refused"):
            raise AssertionError(found)

    atheris.Setup([*sys.argv, str(corpus)], once)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
