"""Many alike jobs on a Ray cluster as one data set of Ray Data, mapped by a pool of actors.

An actor keeps what its jobs share, such as a classifier, from one job to the next. Ray starts a
worker that died again and repeats its job.
"""

import logging
import os
import signal
import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from tadam.distributed.jobs import Ended, Job
from tadam.distributed.ray_pool import RayPool, attempt
from tadam.errors import Interrupted, RunFailed, UserError
from tadam.system.interruption import on_terminate

try:
    import ray
    import ray.data as ray_data
    from ray.exceptions import RayError, RayTaskError
except ImportError:
    raise UserError(
        "predictions on a cluster need Ray Data: pip install 'tadam-fewshot[cluster]'"
    ) from None

R = TypeVar("R")


class RayDataPool(RayPool):
    """Runs jobs as rows of a data set; created by `connected`."""

    def run(self, jobs: Sequence[Job[R]]) -> Generator[Ended[R], None, None]:
        if not jobs:
            return
        done = 0
        previous = on_terminate(signal.default_int_handler)  # like Ctrl-C; Ray would abort
        try:
            # closed at once, so that Ctrl-C stops the actors and not only this loop
            with closing(iter(self._outcomes(jobs))) as rows:
                for row in rows:
                    done += 1
                    self.watcher.running([], done, len(jobs))
                    yield int(row["index"]), row["outcome"]
        except KeyboardInterrupt:
            raise Interrupted(f"stopped with {done} of {len(jobs)} jobs done") from None
        except RayTaskError:
            raise  # a mistake of ours, with its traceback
        except RayError as death:
            raise RunFailed(
                f"workers died {self.cluster.retries + 1} times in one job "
                f"({type(death).__name__}), with {done} of {len(jobs)} done: run the same command "
                "again to continue"
            ) from None
        finally:
            self.watcher.stop()
            on_terminate(previous)

    def _outcomes(self, jobs: Sequence[Job[R]]) -> Generator[dict[str, Any], None, None]:
        """A row for each job, as it ends."""
        _quieten()
        environment = {k: v for k, v in os.environ.items() if k.startswith("TADAM_")}
        rows = ray_data.from_items(
            [{"index": index, "job": job} for index, job in enumerate(jobs)],
            override_num_blocks=len(jobs),
        )
        deaths = {"max_restarts": -1, "max_task_retries": self.cluster.retries}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Ray 2.64 has another way
            ended = rows.map_batches(
                _Worker,
                fn_constructor_args=(self.cluster.cpus, Path.cwd(), environment),
                batch_size=1,
                batch_format="numpy",
                concurrency=(1, self._actors(len(jobs))),
                num_cpus=self.cluster.cpus,
                num_gpus=self.cluster.gpus,
                memory=int(self.cluster.memory * 2**30) or None,
                ray_remote_args_fn=partial(dict, deaths),
            )
        yield from ended.iter_rows()

    def _actors(self, jobs: int) -> int:
        """How many actors have room in the cluster, and work."""
        there = ray.cluster_resources()
        room = [there.get("CPU", 0) // self.cluster.cpus]
        if self.cluster.gpus:
            room.append(there.get("GPU", 0) // self.cluster.gpus)
        return max(1, min(jobs, *map(int, room)))


def _quieten() -> None:
    """Keeps Ray Data's bars and words off the terminal."""
    context = ray_data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)


class _Worker:
    """Runs jobs in an actor, one at a time."""

    def __init__(self, threads: int, folder: Path, environment: dict[str, str]) -> None:
        self._surroundings = (threads, folder, environment)

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        (job,) = batch["job"]
        outcome = np.empty(1, dtype=object)
        outcome[0] = attempt(job, *self._surroundings)
        return {"index": batch["index"], "outcome": outcome}
