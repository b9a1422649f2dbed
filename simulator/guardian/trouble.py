"""Trouble for the nodes of Guardian: the usual kinds, which come by chance, and two that aim at one moment each.

The two are about the lease. In both one node hears nothing of the leader and wants to lead, and the leader has a
majority by the last node alone; whom that one helps is a matter of milliseconds. Nothing is changed meanwhile, so that
both have all there is.

- *Late pre-votes*: the leader stands still until the last node has given it up, too, and would have the other one lead.
  But what it says is late: it arrives when the last node has heard of its old leader again.
- *A lost answer*: leader and last node are slow to reach each other. Their connection breaks while an answer is on its
  way, and the last node has asked anew before the other one wants to know whether it still has a leader.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from simulator.guardian.machine import GuardianMachine
from simulator.world.driver import Simulation
from simulator.world.network import Network, Quality

TROUBLE_MS = (300, 2_500)
AIMED_MS = (2_800, 3_600)
SETTLED_MS = 400
"""After so long without changes all nodes have them."""
HARDLY_SLOW, SLOW = Quality((15_000, 20_000)), Quality((60_000, 60_000))
SLOWER, SLOWEST = Quality((200_000, 200_000)), Quality((400_000, 400_000))

Act = Callable[[GuardianMachine, Sequence[GuardianMachine]], object]


class World(Protocol):
    """What trouble comes to."""

    simulation: Simulation
    network: Network
    machines: list[GuardianMachine]
    troubled: bool
    quiet: bool
    """Nobody begins a change."""


class Trouble:
    """See the module's head. `aimed`: above all, the two kinds come that aim at the lease."""

    def __init__(self, world: World, *, aimed: bool) -> None:
        self._world = world
        self._random = world.simulation.random
        self._network = world.network
        self._aimed = aimed
        self._kinds: dict[str, Act] = {
            "kill": lambda victim, others: victim.kill(),
            "power": lambda victim, others: victim.kill(power_failed=True),
            "pause": lambda victim, others: victim.pause(self._random.randrange(200, 5_000)),
            "cut off": partial(self._cut_off, both_ways=True),
            "one way": partial(self._cut_off, both_ways=False),
            "usurped": self._usurp,
            "break": lambda victim, others: self._network.break_connections(victim.host),
            "silence": lambda victim, others: self._network.silence_connections(victim.host),
            "clock": lambda victim, others: victim.step_clock(self._random.choice((-3_600_000, 3_600_000, -700, 700))),
        }
        self._aimed_kinds: dict[str, Act] = {
            "late pre-votes": self._pre_votes_are_late,
            "a lost answer": self._an_answer_is_lost,
        }

    def go_on(self) -> None:
        """The next trouble, and those after it, until the world is left alone."""
        if not self._world.troubled:
            return
        machines = self._world.machines
        leaders = [each for each in machines if each.running and each.node.quorum.leads]
        victim = self._random.choice(leaders if leaders and self._random.random() < 0.7 else machines)
        kinds = self._kinds
        if self._aimed and leaders and self._random.random() < 0.9:
            victim, kinds = leaders[-1], self._aimed_kinds
        others = [each for each in machines if each is not victim]
        self._random.shuffle(others)
        what = self._random.choice(list(kinds))
        self._world.simulation.trace(f"trouble for {victim.host}: {what}")

        def befall() -> None:
            kinds[what](victim, others)

        if kinds is self._aimed_kinds:
            self._world.quiet = True
            self._after(SETTLED_MS, befall)
        elif victim.running:
            befall()
        self._after(self._random.randrange(*AIMED_MS if self._aimed else TROUBLE_MS), self.go_on)

    def _after(self, delay_ms: int, act: Callable[[], None]) -> None:
        self._world.simulation.after_ms(delay_ms, act)

    def heal(self) -> None:
        """Ends what is wrong with the network, and the quiet."""
        self._world.quiet = False
        self._network.heal()
        for one in self._world.machines:
            for other in self._world.machines:
                self._network.set_quality(one.host, other.host, None)

    def _cut_off(self, victim: GuardianMachine, others: Sequence[GuardianMachine], *, both_ways: bool) -> None:
        for each in others:
            pair = (victim.host, each.host) if self._random.random() < 0.5 else (each.host, victim.host)
            self._network.partition(*pair, both_ways=both_ways)
        self._after(self._random.randrange(200, 5_000), self.heal)

    def _usurp(self, victim: GuardianMachine, others: Sequence[GuardianMachine]) -> None:
        """One node hears nothing of the victim for so long that it stands; then the connection of the other breaks."""
        if len(others) < 2:
            return
        away, last = others
        self._network.partition(victim.host, away.host)

        def end_the_last() -> None:
            self._network.break_connections(victim.host, last.host)
            self._network.partition(victim.host, last.host)

        broken_ms = self._random.randrange(1_000, 3_000)
        self._after(broken_ms, end_the_last)
        self._after(broken_ms + 1_000, self.heal)

    def _pre_votes_are_late(self, leader: GuardianMachine, others: Sequence[GuardianMachine]) -> None:
        """See the module's head. The other node stands after a fetch timeout, 1.2 s, connects to the last one, and has
        an answer that was given before the leader went on, and arrives after that.
        """
        away, last = others
        self._network.partition(leader.host, away.host)
        self._network.set_quality(last.host, away.host, SLOW)
        self._after(380, lambda: leader.pause(self._random.randrange(960, 1_100)))
        self._after(
            self._random.randrange(1_190, 1_310), lambda: self._network.set_quality(last.host, away.host, SLOWEST)
        )
        self._after(1_330, lambda: self._network.set_quality(last.host, away.host, None))
        self._after(2_300, self.heal)

    def _an_answer_is_lost(self, leader: GuardianMachine, others: Sequence[GuardianMachine]) -> None:
        """See the module's head. The other node stands after a fetch timeout, 1.2 s."""
        away, last = others
        self._network.partition(leader.host, away.host)
        self._network.set_quality(last.host, leader.host, SLOWER)
        self._network.set_quality(leader.host, last.host, SLOWER)

        def lose() -> None:
            self._network.set_quality(last.host, leader.host, None)
            self._network.set_quality(leader.host, last.host, HARDLY_SLOW)
            self._network.break_connections(leader.host, last.host)

        broken_ms = self._random.randrange(900, 1_080)
        self._after(broken_ms, lose)
        passes_ms = self._random.randrange(40, 110)
        self._after(broken_ms + passes_ms, lambda: self._network.partition(leader.host, last.host, both_ways=False))
        self._after(2_300, self.heal)
