"""Commands for the paper's experiments beside its tables, one for each ablation."""

from collections.abc import Callable, Iterator

from tadam.cli.options import JobOptions, Json
from tadam.cli.tables import PaperOptions, Rows, RunOptions, Shots, reproduce_table, request

#: Name -> its help: what it varies, and its rows.
_HELP = {
    "table3-fair": "Table 3 with cross-validated alpha and the paper's schedules in proportion.",
    "ten-layers": "TEN on which layers, or shared: rows all, pre-pool, last, none, shared.",
    "ten-multipliers": "TEN with and without gamma0 and beta0: rows with, without.",
    "ten-penalty": "The penalty on gamma0 and beta0: rows decay-0, -0.001, -0.01, -0.1.",
    "ten-representation": "What TEN sees of a task: rows mean, mean-std, moments.",
    "pretraining": "The auxiliary task before or beside: rows co-training, pre-training.",
    "projection": "Projection layers after the ResNet: rows layers-0, layers-1, layers-2.",
    "learning-rate": "Scaled cosine with other learning rates: rows rate-0.0005 to rate-0.01.",
    "steps": "Prototypical Networks with 20,000 and 40,000 steps: rows 20k, 40k.",
}
#: Those that change a row of Table 2, which has 5 shots alone.
_FIVE_SHOTS = ("learning-rate", "steps")


def ablation_commands() -> Iterator[tuple[str, Callable[..., None]]]:
    """Each command with its name."""
    for name, text in _HELP.items():
        command = _of_five_shots(name) if name in _FIVE_SHOTS else _of_any_shots(name)
        command.__doc__ = text
        yield name, command


def _of_any_shots(name: str) -> Callable[..., None]:
    def command(
        rows: Rows = None,
        shots: Shots = None,
        *,
        paper: PaperOptions,
        runs: RunOptions,
        jobs: JobOptions,
        as_json: Json = False,
    ) -> None:
        wanted = request(name, paper, runs, rows=rows, shots=shots)
        reproduce_table(wanted, runs, jobs, as_json)

    return command


def _of_five_shots(name: str) -> Callable[..., None]:
    def command(
        rows: Rows = None,
        *,
        paper: PaperOptions,
        runs: RunOptions,
        jobs: JobOptions,
        as_json: Json = False,
    ) -> None:
        reproduce_table(request(name, paper, runs, rows=rows), runs, jobs, as_json)

    return command
