"""Runs many seeds, on several processes, some of them twice.

    for outcome in run_all(tasks, processes=2, twice=tasks[:10]): ...

Each worker (`python -m simulator.jobs`) reads `SCENARIO SEED` from its input, a line each, and
answers with a line of JSON. Every worker has a PYTHONHASHSEED of its own; what is to be run twice is run by two of
them, and has to give the same trace: so nothing in the code depends on the order of a set.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

from simulator.world.checks import Violation
from simulator.worlds import WORLDS, quiet_nodes

Task = tuple[str, int]

ROOT = Path(__file__).resolve().parents[1]
"""Where Python finds this package: it is not installed."""

HASH_SEEDS = (0, 4711, 99, 31337)
WORKER = ("-m", "simulator.jobs")
"""What Python is to run in a worker's process."""
SAME_TRACE = "a seed gives the same trace under every PYTHONHASHSEED"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one seed: the hash of its trace, or the rule that was broken (with how to see it again), never both."""

    scenario: str
    seed: int
    trace: str | None
    broken: str | None
    cpu_s: float


def run_one(scenario: str, seed: int) -> Outcome:
    """Runs one seed here, and collects its garbage afterwards: a collector that comes by again and again costs more."""
    before_s = time.process_time()
    broken, trace = None, None
    gc.disable()
    try:
        with quiet_nodes():
            trace = WORLDS[scenario](seed).trace_hash
    except Violation as violation:
        broken = str(violation) or "a rule without a name"
    finally:
        gc.enable()
        gc.collect()
    return Outcome(scenario, seed, trace, broken, round(time.process_time() - before_s, 3))


def run_all(tasks: Sequence[Task], *, processes: int = 1, twice: Sequence[Task] = ()) -> Iterator[Outcome]:
    """Runs seeds; gives the outcomes as they come.

    Args:
        processes: how many do it; with 1 (and nothing to be run twice) it is this one.
        twice: run by two processes each. An outcome that differs is given as one more, which breaks a rule.
    """
    if processes == 1 and not twice:
        yield from (run_one(*task) for task in tasks)
        return
    assert 1 <= processes <= len(HASH_SEEDS), "a hash seed of its own for each process"
    rest: SimpleQueue[Task] = SimpleQueue()
    for task in tasks:
        rest.put(task)
    outcomes: SimpleQueue[Outcome | Exception] = SimpleQueue()
    workers = [
        Worker(number, twice if number < 2 else (), rest if number < processes else SimpleQueue(), outcomes)
        for number in range(max(processes, 2 if twice else 1))
    ]
    first: dict[Task, Outcome] = {}
    try:
        for _ in range(len(tasks) + 2 * len(twice)):
            outcome = outcomes.get()
            if isinstance(outcome, Exception):
                raise outcome
            task = (outcome.scenario, outcome.seed)
            before = first.setdefault(task, outcome)
            if before is outcome:
                yield outcome
            elif before.trace != outcome.trace and before.broken is None:
                replay = f"replay with: python -m simulator --scenario {task[0]} --seeds {task[1]} --jobs 2 --twice 1"
                yield Outcome(*task, None, f"{SAME_TRACE}: {before.trace}, {outcome.trace}\n\n{replay}", outcome.cpu_s)
    finally:
        for worker in workers:
            worker.stop()


class Worker:
    """One process, and the thread that gives it its work: first its `own` tasks, then what is left of the `rest`."""

    def __init__(
        self,
        number: int,
        own: Sequence[Task],
        rest: SimpleQueue[Task],
        outcomes: SimpleQueue[Outcome | Exception],
    ) -> None:
        self._own = own
        self._rest = rest
        self._outcomes = outcomes
        self._process = subprocess.Popen(
            [sys.executable, *WORKER],
            env={**os.environ, "PYTHONHASHSEED": str(HASH_SEEDS[number])},
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self._thread = Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            for task in self._own:
                self._outcomes.put(self._ask(task))
            while True:
                self._outcomes.put(self._ask(self._rest.get_nowait()))
        except Empty:
            pass
        except Exception as error:
            self._outcomes.put(error)

    def _ask(self, task: Task) -> Outcome:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{task[0]} {task[1]}\n")
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the process that ran seed {task[1]} of {task[0]} is gone: {self._process.wait()}")
        return Outcome(**json.loads(answer))

    def stop(self) -> None:
        """Ends the process, in the middle of a seed if need be."""
        self._process.kill()
        self._process.wait()
        self._thread.join()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()


def main() -> None:
    """A worker's process."""
    for line in sys.stdin:
        scenario, _, seed = line.partition(" ")
        sys.stdout.write(json.dumps(asdict(run_one(scenario, int(seed)))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
