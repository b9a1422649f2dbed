"""A lane that gives tasks to workers, as a test drives it."""

from __future__ import annotations

from queue import SimpleQueue
from typing import Any

from penstock.log.tasks import Task
from penstock.server.disk import BlockingDisk
from penstock.server.lane import Completions, Lane, Outcome
from penstock.server.workers import Ended


class HeldWorkers:
    """Keeps tasks until the test ends them."""

    def __init__(self) -> None:
        self.given: SimpleQueue[tuple[Task, Ended]] = SimpleQueue()

    def submit(self, directory: int, task: Task, ended: Ended) -> None:
        self.given.put((task, ended))


class Running:
    """A lane, and the outcomes of its operations as the loop hears of them."""

    def __init__(self, disk: BlockingDisk, workers: Any) -> None:
        self.heard: SimpleQueue[None] = SimpleQueue()
        self.completions = Completions(lambda: self.heard.put(None))
        self.lane = Lane(0, disk, self.completions, threads=2, workers=workers)
        self.ended: list[Outcome] = []

    def wait(self, count: int) -> list[Outcome]:
        while len(self.ended) < count:
            self.heard.get(timeout=60)
            for outcome in self.completions.take():
                self.lane.heard(outcome)
                self.ended.append(outcome)
        return self.ended
