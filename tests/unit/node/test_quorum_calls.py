"""What becomes of the quorum's calls to other nodes, at the node."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

import pytest
from support.wire import OTHER, PEER, SERVED, VOTE, Wire
from unit.node.controller_harness import START_MS, Harness, formatted_disk

from penstock.config.server import Settings
from penstock.errors import ErrorCode
from penstock.node.effects import REFUSED
from penstock.node.outgoing import RECONNECT_BACKOFF_MAX_MS, Peer
from penstock.node.quorum import Quorum
from penstock.node.quorum_calls import QuorumCalls
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.fetch_request import FetchRequest
from penstock.protocol.messages.fetch_response import FetchResponse
from penstock.protocol.messages.vote_request import VoteRequest
from penstock.raft.effects import Target


class Asking:
    """A broker's side of a quorum; its calls are answered by the test."""

    def __init__(self) -> None:
        self.now_ms = START_MS
        self.calls: list[tuple[Target, Any]] = []
        harness = Harness(formatted_disk(standalone=False))
        settings = Settings.for_node(
            7,
            process_roles="broker",
            listeners="PLAINTEXT://127.0.0.1:0",
            log_dirs=("/data",),
            controller_quorum_bootstrap_servers="one:9093,two:9093",
        )
        self.quorum = Quorum(
            settings,
            harness.disk,
            self,
            call=self.call,
            cluster_id="ours",
            directory_id=UUID(int=7),
            random=harness.random,
        )
        self.quorum.start(self.now_ms, harness.node)

    def call(self, target: Target, request: Any, timeout_ms: int, done: Any, now_ms: int) -> None:
        self.calls.append((target, done))

    def image_published(self, *arguments: object) -> None:
        raise AssertionError("nothing is known")

    def leader_changed(self, leader: Target | None, now_ms: int) -> None:
        assert leader is None

    def bug(self, place: str, what: str, error: Exception) -> None:
        raise error

    def quorum_stirred(self) -> None: ...

    def metadata_log_has_no_room(self, error: OSError, now_ms: int) -> None: ...

    def metadata_log_has_room(self, now_ms: int) -> None: ...

    def metadata_log_failed(self, error: Exception, now_ms: int) -> None:
        raise error

    def answer(self, request: Any, message: Any, now_ms: int) -> None:
        raise AssertionError("nobody asks")

    def pass_ms(self, milliseconds: int) -> None:
        end_ms = self.now_ms + milliseconds
        while (deadline_ms := self.quorum.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self.quorum.tick(self.now_ms)
        self.now_ms = end_ms


def test_nodes_of_another_cluster_are_named_once_and_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    node = Asking()
    asked = []
    for _ in range(10):
        while node.calls:
            target, done = node.calls.pop(0)
            asked.append(target.host)
            done(FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID), node.now_ms)
        node.pass_ms(200)
    assert asked.count("one") >= 5
    assert asked.count("two") >= 5
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    assert lines[0].startswith("one:9093 belongs to another cluster than this node, whose cluster.id is ours")


def test_a_node_that_is_found_later_to_be_ours_is_followed() -> None:
    node = Asking()
    _, done = node.calls.pop(0)
    done(FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID), node.now_ms)
    node.pass_ms(500)
    assert node.calls


class Follower:
    """Calls of a quorum that PEER leads, over connections that the test makes and breaks."""

    leader_id = PEER.node_id

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.answers: list[Message | None] = []
        self.wire = Wire()
        self._calls = QuorumCalls(self.wire.outgoing, lambda: cast(Quorum, self))

    def ask(self, peer: Peer, request: Message) -> None:
        target = Target(peer.node_id, peer.host, peer.port, peer.listener)
        self._calls.call(target, request, 10_000, lambda answer, _: self.answers.append(answer), self.wire.now_ms)

    def leader_link_lost(self, now_ms: int) -> None:
        self.heard.append("link lost")

    def leader_gone(self, now_ms: int) -> None:
        self.heard.append("gone")


@pytest.mark.parametrize(
    ("peer", "question", "heard"),
    [
        (PEER, FetchRequest(), ["link lost", "gone"]),
        (PEER, VoteRequest(), []),
        (OTHER, FetchRequest(), []),
    ],
    ids=["the leader", "another channel", "another voter"],
)
def test_the_quorum_hears_of_the_leader_whose_connection_breaks_and_who_then_refuses_one(
    peer: Peer, question: Message, heard: list[str]
) -> None:
    follower = Follower()
    wire = follower.wire
    follower.ask(peer, question)
    wire.outgoing.link_lost(wire.up({**SERVED, ApiKey.FETCH: (0, 18)}), "connection reset by peer", wire.now_ms)
    assert follower.heard == heard[:1]
    follower.ask(peer, question)
    wire.advance(2 * RECONNECT_BACKOFF_MAX_MS)
    wire.outgoing.link_lost(wire.dialled().link, REFUSED, wire.now_ms)
    assert follower.heard == heard
    assert follower.answers == [None, None]


def test_a_voter_that_does_not_serve_a_call_has_answered_it() -> None:
    follower = Follower()
    follower.ask(PEER, VoteRequest())
    follower.wire.up({key: versions for key, versions in SERVED.items() if key != VOTE})
    follower.wire.outgoing.proceed(follower.wire.now_ms)
    [answer] = follower.answers
    assert answer is not None
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
