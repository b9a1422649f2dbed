"""How brokers of registered clusters are reached: which one is asked, under which listener."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from penstock.config.guardian_credentials import Credentials
from penstock.guardian.core.reach import ANY, CONTROLLER, LISTENER, SILENT_MS, Ended, Reach
from penstock.guardian.core.sight import ClusterSight, SeenBroker, Sight
from penstock.guardian.core.state import Cluster
from penstock.node.timers import TimerWheel
from penstock.protocol.message import Message
from penstock.protocol.messages.metadata_request import MetadataRequest
from penstock.protocol.messages.metadata_response import MetadataResponse

WEB = Credentials("CLUSTER-WEB", "SASL_SSL", None, {})


class Asked:
    """Stands in for outgoing connections: whom a call would go to. Hosts of `dead` do not answer, others do."""

    def __init__(self) -> None:
        self.peers: list[Any] = []
        self.dead: set[str] = set()

    def call(self, peer: Any, message: Any, *, done: Ended, now_ms: int, **_: Any) -> None:
        self.peers.append(peer)
        if peer.host in self.dead:
            done(None, "connection refused", now_ms)
        else:
            done(MetadataResponse(), None, now_ms)


def cluster(number: int, **more: Any) -> Cluster:
    return Cluster(UUID(int=number), f"c{number}", "kafka", (f"a{number}:9092", f"b{number}:9092"), **more)


class Reached:
    """A `Reach`, and what comes of its calls."""

    def __init__(self) -> None:
        self.asked = Asked()
        self.timers = TimerWheel()
        self.sight = Sight()
        self.reach = Reach(self.asked, self.timers, self.sight, {"web": WEB})  # type: ignore[arg-type]
        self.reasons: list[str | None] = []

    def ask(self, to: Cluster, broker: int, now_ms: int = 0) -> None:
        def ended(answer: Message | None, reason: str | None, at_ms: int) -> None:
            if reason is not None:
                self.reasons.append(reason)

        self.reach.ask(to, broker, MetadataRequest(topics=None), ended, now_ms)

    def hosts(self) -> list[str]:
        """Who was asked since this was looked at last."""
        found = [peer.host for peer in self.asked.peers]
        self.asked.peers.clear()
        return found


def test_any_is_another_one_each_time_whoever_else_is_asked_meanwhile() -> None:
    """With one turn for all, two clusters of two brokers that are asked in turn would have met one broker each."""
    reached = Reached()
    both = cluster(1), cluster(2)
    for each in both:
        reached.sight.clusters[each.id] = ClusterSight()
    for _ in range(4):
        for each in both:
            reached.ask(each, ANY)
    assert sorted(reached.hosts()) == ["a1", "a1", "a2", "a2", "b1", "b1", "b2", "b2"]


def test_one_that_is_dead_is_not_met_again_and_again_by_who_asks_in_step_with_others() -> None:
    """A new leader of Guardian has never seen broker c alive, so nothing but its silence tells that it is gone. Five
    addresses, and four calls of others between two of one's own: without a memory, all of those went to c.
    """
    reached = Reached()
    one = Cluster(UUID(int=1), "c1", "kafka", ("a:9092", "b:9092", "c:9092"))
    brokers = {number: SeenBroker(number, host, 9092) for number, host in enumerate("ab")}
    reached.sight.clusters[one.id] = ClusterSight(brokers=brokers, turn=1)
    reached.asked.dead = {"c"}
    met = []
    for second in range(20):
        reached.ask(one, ANY, second * 1_000)
        met.append(reached.hosts()[-1])
        for _ in range(4):
            reached.ask(one, ANY, second * 1_000)
    assert met.count("c") <= 1


def test_one_that_was_silent_is_asked_again_after_a_while_and_before_that_if_all_were() -> None:
    reached, one = Reached(), cluster(1)
    reached.sight.clusters[one.id] = ClusterSight()
    reached.asked.dead = {"a1"}
    for _ in range(6):
        reached.ask(one, ANY, 0)
    assert reached.hosts().count("a1") == 1
    reached.asked.dead = {"a1", "b1"}
    for _ in range(6):
        reached.ask(one, ANY, SILENT_MS - 1)
    assert set(reached.hosts()[1:]) == {"a1", "b1"}, "nobody is passed over when none is left"
    reached.asked.dead = set()
    for _ in range(6):
        reached.ask(one, ANY, 2 * SILENT_MS)
    assert set(reached.hosts()) == {"a1", "b1"}


def test_a_broker_is_where_the_metadata_says_and_the_controller_any_until_it_is_known() -> None:
    reached, one = Reached(), cluster(1)
    seen = reached.sight.clusters[one.id] = ClusterSight(brokers={7: SeenBroker(7, "h7", 1234)})
    reached.ask(one, 7)
    reached.ask(one, CONTROLLER)
    seen.controller = 7
    reached.ask(one, CONTROLLER)
    assert reached.hosts()[::2] == ["h7", "h7"]
    reached.ask(one, 8)
    assert reached.reasons == [], "never before it returns"
    reached.timers.advance(10)
    assert reached.reasons == ["broker 8 of c1 is not known"]


@pytest.mark.parametrize(("name", "listener"), [(None, LISTENER), ("web", "CLUSTER-WEB")])
def test_credentials_say_under_which_listener(name: str | None, listener: str) -> None:
    reached = Reached()
    reached.ask(cluster(1, credentials=name), ANY)
    assert [peer.listener for peer in reached.asked.peers] == [listener]


def test_credentials_that_this_node_lacks_are_named() -> None:
    reached = Reached()
    reached.ask(cluster(1, credentials="other"), ANY)
    reached.timers.advance(10)
    assert reached.asked.peers == []
    assert "no credentials other: its file needs penstock.guardian.credentials.other." in str(reached.reasons[0])
