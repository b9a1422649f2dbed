"""The pace of the log cleaner's workers: what all of them move in a second, and when a slow disk makes them wait."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from time import monotonic
from typing import Any

import pytest
from support import worker_tasks
from support.worker_tasks import COMMAND, Copy, Sum

from penstock.server import worker_messages
from penstock.server import workers as workers_module
from penstock.server.limits import PACE_LOOK_S, PACE_SLOW_DISK_MAX_S, PACED_BYTES
from penstock.server.pace import Pace
from penstock.server.worker_messages import Done, Failed
from penstock.server.workers import Workers

MB = 1_000_000


class Paced:
    """A pace on a clock that goes on only while somebody waits. `during` is called before each wait."""

    def __init__(self, rate: float) -> None:
        self.now_s = 100.0
        self.rate = rate
        self.slow: set[int] = set()
        self.over = False
        self.during: Callable[[], object] = lambda: None
        self.pace = Pace(lambda: self.rate, self.slow.__contains__, clock_s=lambda: self.now_s)

    def pause(self, for_s: float) -> bool:
        self.during()
        self.now_s += for_s
        return self.over

    def move(self, count: int, directory: int = 0) -> float:
        """For how long it had to wait."""
        began_s = self.now_s
        self.pace.wait(directory, count, self.pause)
        return self.now_s - began_s


def test_what_was_moved_is_paid_for_at_the_rate() -> None:
    paced = Paced(10 * MB)
    assert paced.move(5 * MB) == pytest.approx(0.5, abs=0.01)
    assert paced.move(20 * MB) == pytest.approx(2.0, abs=0.01)
    assert paced.pace.waited_s == pytest.approx(2.5, abs=0.01)


@pytest.mark.parametrize("rate", [float("inf"), float("nan")])
def test_a_rate_that_is_no_number_holds_nobody_up_and_is_forgotten_with_the_next(rate: float) -> None:
    """As Kafka takes such a `log.cleaner.io.max.bytes.per.second`."""
    paced = Paced(rate)
    assert paced.move(5 * MB) == 0
    paced.now_s += 1
    assert paced.move(5 * MB) == 0
    paced.rate = 10 * MB
    paced.now_s += 1
    assert paced.move(5 * MB) > 0.49


def test_all_directories_share_the_rate() -> None:
    paced = Paced(10 * MB)
    waited: list[float] = []

    def another() -> None:
        paced.during = lambda: None
        waited.append(paced.move(10 * MB, directory=1))

    paced.during = another
    assert paced.move(10 * MB) > 0.99
    assert waited == [pytest.approx(2.0, abs=0.01)]


def test_time_in_which_nothing_was_moved_is_not_saved_up() -> None:
    paced = Paced(10 * MB)
    paced.move(MB)
    paced.now_s += 1000
    assert paced.move(10 * MB) == pytest.approx(1.0, abs=0.01)


def test_another_rate_counts_for_those_who_wait() -> None:
    paced = Paced(1.0)

    def faster() -> None:
        paced.rate = 1e9

    paced.during = faster
    assert paced.move(10 * MB) < 2 * PACE_LOOK_S


@pytest.mark.parametrize("rate", [0.0, -1.0])
def test_nobody_goes_on_at_no_rate_until_there_is_one(rate: float) -> None:
    paced = Paced(rate)
    looks: list[int] = []

    def later() -> None:
        looks.append(1)
        paced.rate = rate if len(looks) < 50 else 1e12

    paced.during = later
    assert paced.move(1) == pytest.approx(50 * PACE_LOOK_S)


def test_without_a_rate_nobody_waits() -> None:
    paced = Paced(1.7976931348623157e308)
    paced.move(1)
    paced.now_s += 1
    assert all(paced.move(1 << 40) < 1e-6 for _ in range(10))


def test_a_slow_disk_makes_its_passes_wait_and_no_others() -> None:
    paced = Paced(1e300)
    paced.slow.add(1)
    assert paced.move(MB, directory=0) == pytest.approx(0.0)
    paced.during = paced.slow.clear
    assert paced.move(MB, directory=1) == pytest.approx(PACE_LOOK_S)


def test_a_disk_that_is_always_slow_is_cleaned_too() -> None:
    paced = Paced(1e300)
    paced.slow.add(0)
    assert paced.move(MB) == pytest.approx(PACE_SLOW_DISK_MAX_S)


def test_nobody_waits_once_all_is_over() -> None:
    paced = Paced(1.0)
    paced.over = True
    assert paced.move(MB) == pytest.approx(PACE_LOOK_S)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    classes = dict(worker_messages.CLASSES)
    worker_tasks.register(classes)
    monkeypatch.setattr(worker_messages, "CLASSES", classes)


@pytest.fixture
def made() -> Iterator[list[Workers]]:
    workers: list[Workers] = []
    yield workers
    for each in workers:
        each.close()


class Counted(Pace):
    """A pace that never makes anybody wait, and counts."""

    def __init__(self) -> None:
        super().__init__(lambda: 1e300, lambda index: False)
        self.moved: list[tuple[int, int]] = []
        self.block = False
        self.waits: Callable[[], object] = lambda: None

    def wait(self, directory: int, moved_bytes: int, pause: Any) -> None:
        self.moved.append((directory, moved_bytes))
        self.waits()
        while self.block and not pause(60.0):
            pass


@pytest.mark.usefixtures("known")
def test_a_worker_says_what_it_reads_and_writes(tmp_path: Path, made: list[Workers]) -> None:
    (tmp_path / "from").write_bytes(os.urandom(10 * PACED_BYTES))
    pace = Counted()
    workers = Workers({3: str(tmp_path)}, processes_max=1, command=COMMAND, pace=pace)
    made.append(workers)
    ends: SimpleQueue[Done | Failed] = SimpleQueue()
    workers.submit(3, Copy(path="from", deadline_ms=60_000), ends.put)
    assert ends.get(timeout=60) == Done(Sum(10 * PACED_BYTES))
    assert (tmp_path / "copy").read_bytes() == (tmp_path / "from").read_bytes()
    assert {directory for directory, _ in pace.moved} == {3}
    assert sum(count for _, count in pace.moved) == 20 * PACED_BYTES


@pytest.mark.usefixtures("known")
def test_time_for_which_a_worker_was_made_to_wait_is_not_held_against_it(
    tmp_path: Path, made: list[Workers], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "from").write_bytes(bytes(4 * PACED_BYTES))
    later_s = [0.0]
    monkeypatch.setattr(workers_module, "monotonic", lambda: monotonic() + later_s[0])
    pace = Counted()
    pace.waits = lambda: later_s.append(later_s.pop() + 1000)
    workers = Workers({0: str(tmp_path)}, processes_max=1, command=COMMAND, pace=pace)
    made.append(workers)
    ends: SimpleQueue[Done | Failed] = SimpleQueue()
    workers.submit(0, Copy(path="from", deadline_ms=60_000), ends.put)
    assert ends.get(timeout=60) == Done(Sum(4 * PACED_BYTES))
    assert later_s == [8000.0]


@pytest.mark.usefixtures("known")
def test_a_worker_that_waits_ends_with_its_broker(tmp_path: Path) -> None:
    (tmp_path / "from").write_bytes(bytes(4 * PACED_BYTES))
    pace, arrived = Counted(), threading.Event()
    pace.waits = arrived.set
    pace.block = True
    workers = Workers({0: str(tmp_path)}, processes_max=1, command=COMMAND, pace=pace)
    ends: SimpleQueue[Done | Failed] = SimpleQueue()
    workers.submit(0, Copy(path="from", deadline_ms=60_000), ends.put)
    assert arrived.wait(60)
    workers.close()
    assert sum(pool.processes for pool in workers.pools) == 0
    assert ends.empty()
