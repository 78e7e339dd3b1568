"""The attack on our own readers, runs and kernels: `make attack`. Prints what was tried and failed.

    python tests/attack/campaign.py [--seconds 600] [--seed 0] [--only images ...]

Each attack runs in a process of its own, so that a crash is a line of the table and not its end. A
failure is reported with the number of its try: the same seed, attack and number make the same file.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

HERE = Path(__file__)
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent)]

#: Tries a process makes and reports at a time.
_REPORT = 50
#: Deaths of each kind in the whole campaign.
KILLS = 20
#: Memory that a process may take, in bytes: more ends in a MemoryError, which is a failure.
_MOST_MEMORY = 8 * 2**30


@dataclass
class Outcome:
    """What an attack came to.

    Attributes:
        attack: Its name.
        tried: How many tries there were, or deaths.
        refused: How many ended in a sentence.
        failures: What went wrong, with the number of the try.
        seconds: How long it took.
    """

    attack: str
    tried: int = 0
    refused: int = 0
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0


def damaged_files(name: str, seed: int) -> Iterator[str]:
    """Verdicts on one damaged file after the other, for ever."""
    import numpy as np
    from mutation import mutated
    from readers import READERS, verdict

    reader = next(reader for reader in READERS if reader.name == name)
    seeds = sorted(reader.seeds().items())
    with tempfile.TemporaryDirectory() as folder:
        number = 0
        while True:
            dice = np.random.default_rng([seed, number])
            label, content = seeds[dice.integers(len(seeds))]
            path = Path(folder) / label
            path.write_bytes(mutated(content, dice))
            yield verdict(reader.read, path)
            number += 1


def hostile_fields(seed: int) -> Iterator[str]:
    """Verdicts on classifiers with nonsense in a field and the right checksum; exports some."""
    import numpy as np
    from hostile import NONSENSE, places, rewrite, with_value
    from readers import read_classifier, saved_classifier, verdict

    from tadam import FewShotClassifier

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        saved_classifier(folder / "c.tadam")
        whole, number = (folder / "c.tadam").read_bytes(), 0
        while True:
            dice = np.random.default_rng([seed, number])
            path = folder / "h.tadam"
            path.write_bytes(whole)

            def change(raw: object, dice: np.random.Generator = dice) -> object:
                where = places(raw)
                value = NONSENSE[dice.integers(len(NONSENSE))]
                return with_value(raw, where[dice.integers(len(where))], value)

            rewrite(path, change)
            found = verdict(read_classifier, path)
            if found == "read" and number % 25 == 0:
                found = verdict(
                    lambda p: FewShotClassifier.load(p, device="cpu").export(folder / "x.onnx"),
                    path,
                )
            yield found
            number += 1


def attack_files(name: str, seed: int, seconds: float, most: int) -> Outcome:
    """Tries damaged files until the time is over."""
    verdicts = hostile_fields(seed) if name == "hostile fields" else damaged_files(name, seed)
    outcome, began = Outcome(name), time.monotonic()
    for number, found in enumerate(verdicts):
        outcome.tried += 1
        outcome.refused += found == "refused"
        if found not in ("read", "refused"):
            outcome.failures.append(f"try {number}: {found}")
        if time.monotonic() - began > seconds or outcome.tried >= most:
            break
        if outcome.tried % _REPORT == 0:
            _report(outcome, began)
    _report(outcome, began)
    return outcome


def _report(outcome: Outcome, began: float) -> None:
    """The last line is what counts, should the process die."""
    outcome.seconds = time.monotonic() - began
    print(json.dumps(asdict(outcome)), flush=True)


def attack_runs(name: str, seed: int, deaths: int) -> Outcome:
    """Kills a run and compares what it comes to with an undisturbed one."""
    import kills

    from tiny import write_image_folder

    how: Callable[..., int] = {
        "kills": kills.alone, "kills of ranks": kills.torchrun, "kills on Ray": kills.on_ray,
    }[name]  # fmt: skip
    os.environ["PYTHONPATH"] = kills.python_path()
    outcome, began = Outcome(name), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        images = write_image_folder(Path(folder) / "images")
        expected, run = Path(folder) / "undisturbed", Path(folder) / "run"
        if how is kills.torchrun:
            kills.torchrun(expected, images, deaths, seed, undisturbed=True)
        else:
            kills.train(expected, images, deaths)
        outcome.tried = how(run, images, deaths, seed)
        outcome.failures = kills.differences(run, expected)
    _report(outcome, began)
    return outcome


def attack_kernels(seconds: float, seed: int) -> Outcome:
    """Random shapes for the kernels under the sanitizers."""
    import random

    from native.test_sanitizers import built, complaint, runnable

    outcome, dice = Outcome("kernels"), random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        program = built(runnable()[-1], Path(folder))
        began = time.monotonic()  # compiling may take longer than the attack
        while time.monotonic() - began < seconds:
            kinds = [("conv", (5, 20, 20, 70, 70, 4)), ("norm", (3, 4, 18, 18, 70, 4))] * 10
            shapes = [(kind, tuple(dice.randint(1, n) for n in most)) for kind, most in kinds]
            outcome.tried += len(shapes)
            if found := complaint(program, shapes):
                outcome.failures.append(f"{shapes}: {found[:200]}")
            _report(outcome, began)
    return outcome


def attacks() -> list[str]:
    """Names of all attacks."""
    from readers import READERS

    killing = ["kills of ranks", "kills on Ray", "kills"]  # the longest first
    return [*killing, "kernels", *(reader.name for reader in READERS), "hostile fields"]


def run_one(name: str, seed: int, seconds: float, most: int, deaths: int) -> Outcome:
    """Runs an attack here."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if name.startswith("kills"):
        return attack_runs(name, seed, deaths)
    if name == "kernels":
        return attack_kernels(seconds, seed)
    if not name.startswith("images"):  # those may rightly need much address space, in eight threads
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    return attack_files(name, seed, seconds, most)


def run_apart(name: str, *numbers: float) -> Outcome:
    """Runs an attack in a process of its own, and counts its death as a failure."""
    command = [sys.executable, str(HERE), "--one", name, *map(str, numbers)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"attack"')]
    outcome = Outcome(**json.loads(lines[-1])) if lines else Outcome(name)
    if done.returncode:
        last = (done.stderr.strip() or "no word").splitlines()[-1]
        outcome.failures.append(f"exit {done.returncode} after try {outcome.tried}: {last[:200]}")
    return outcome


def table(outcomes: list[Outcome]) -> str:
    """What was tried and what failed."""
    lines = [f"{'attack':<32} {'tried':>8} {'refused':>8} {'failed':>7} {'seconds':>8}"]
    for o in outcomes:
        row = f"{o.tried:>8,} {o.refused:>8,} {len(o.failures):>7} {o.seconds:>8.0f}"
        lines.append(f"{o.attack:<32} {row}")
        lines += [f"    {failure}" for failure in o.failures[:5]]
    return "\n".join(lines)


def campaign(names: list[str], seconds: float, seed: int) -> list[Outcome]:
    """All attacks, two at a time; the files share what time the kills leave."""
    files = [name for name in names if not name.startswith("kills")]
    share = max(1.0, 1.2 * seconds / max(1, len(files)))

    def run(name: str) -> Outcome:
        outcome = run_apart(name, seed, share, 10**9, KILLS)
        print(table([outcome]).split("\n", 1)[1], flush=True)
        return outcome

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(run, names))


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        name, seed, seconds, most, deaths = sys.argv[2:]
        run_one(name, int(seed), float(seconds), int(most), int(deaths))
        return
    parser = argparse.ArgumentParser(description="Attacks tadam's own readers, runs and kernels.")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", help="names of attacks")
    given = parser.parse_args()
    outcomes = campaign(given.only or attacks(), given.seconds - 180, given.seed)
    failed = sum(len(outcome.failures) for outcome in outcomes)
    print(f"\n{table(outcomes)}\n\nseed {given.seed}: {failed} failures")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
