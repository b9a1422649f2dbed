"""How brokers of registered clusters are reached: which one is asked, under which listener."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from penstock.config.guardian_credentials import Credentials
from penstock.guardian.core.reach import ANY, CONTROLLER, LISTENER, Reach
from penstock.guardian.core.sight import ClusterSight, SeenBroker, Sight
from penstock.guardian.core.state import Cluster
from penstock.node.timers import TimerWheel
from penstock.protocol.messages.metadata_request import MetadataRequest

WEB = Credentials("CLUSTER-WEB", "SASL_SSL", None, {})


class Asked:
    """Stands in for outgoing connections: whom a call would go to."""

    def __init__(self) -> None:
        self.peers: list[Any] = []

    def call(self, peer: Any, message: Any, **_: Any) -> None:
        self.peers.append(peer)


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

    def ask(self, to: Cluster, broker: int) -> None:
        self.reach.ask(to, broker, MetadataRequest(topics=None), lambda _, why, __: self.reasons.append(why), 0)


def test_any_is_another_one_each_time_whoever_else_is_asked_meanwhile() -> None:
    """With one turn for all, two clusters of two brokers that are asked in turn would have met one broker each."""
    reached = Reached()
    both = cluster(1), cluster(2)
    for each in both:
        reached.sight.clusters[each.id] = ClusterSight()
    for _ in range(4):
        for each in both:
            reached.ask(each, ANY)
    hosts = [peer.host for peer in reached.asked.peers]
    assert sorted(hosts) == ["a1", "a1", "a2", "a2", "b1", "b1", "b2", "b2"]


def test_a_broker_is_where_the_metadata_says_and_the_controller_any_until_it_is_known() -> None:
    reached, one = Reached(), cluster(1)
    seen = reached.sight.clusters[one.id] = ClusterSight(brokers={7: SeenBroker(7, "h7", 1234)})
    reached.ask(one, 7)
    reached.ask(one, CONTROLLER)
    seen.controller = 7
    reached.ask(one, CONTROLLER)
    assert [peer.host for peer in reached.asked.peers][::2] == ["h7", "h7"]
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
