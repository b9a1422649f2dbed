"""Client processes of the simulator that are written as one course of steps."""

from __future__ import annotations

from simulator.cluster.load import Load
from simulator.transactions.process import Process, Steps
from simulator.world.driver import Simulation
from simulator.world.network import Network


class Counter(Process):
    """Counts, ten times a second."""

    counted = 0

    def run(self) -> Steps[None]:
        while self.counted < 10:
            yield self.sleep(100)
            self.counted += 1


class Pair(Process):
    """Waits for two things at once."""

    found: object = None

    def run(self) -> Steps[None]:
        late = self.after(50, lambda resume: resume("late"))
        self.found = yield self.together([late, lambda resume: resume("soon"), self.sleep(20)])


def load() -> Load:
    simulation = Simulation(1)
    return Load(simulation, Network(simulation), [("node-1", 9092)], [], think_ms=1)


def run_for(load: Load, duration_ms: int) -> None:
    load.simulation.run(load.simulation.now_ms + duration_ms)


def test_a_process_goes_from_step_to_step_and_ends() -> None:
    counter = Counter(load(), "host", "counter")
    counter.start()
    counter.simulation.run()
    assert counter.counted == 10
    assert not counter.alive


def test_a_process_that_has_died_does_nothing_more() -> None:
    clients = load()
    counter = Counter(clients, "host", "counter")
    counter.start()
    run_for(clients, 250)
    counter.die()
    run_for(clients, 2_000)
    assert counter.counted == 2


def test_a_process_that_stood_still_goes_on_where_it_was() -> None:
    clients = load()
    counter = Counter(clients, "host", "counter")
    counter.start()
    run_for(clients, 250)
    counter.pause(500)
    counter.pause(100)
    run_for(clients, 450)
    assert counter.counted == 2
    run_for(clients, 60)
    assert counter.counted == 3
    run_for(clients, 2_000)
    assert not counter.alive


def test_several_operations_at_once_are_waited_for() -> None:
    pair = Pair(load(), "host", "pair")
    pair.start()
    pair.simulation.run()
    assert pair.found == ["late", "soon", None]
