"""Fetch (key 1): record batches of partitions, as slices of files; long poll; incremental sessions.

Versions 4-18, flexible from 12. Sessions from v7 (KIP-227, see `fetch_sessions`), leader epochs from v9, rack id from
v11, last fetched epoch from v12 (truncation detection), topic ids instead of names from v13, current leader and node
endpoints of refused partitions from v16.

A request whose partitions have fewer than `min_bytes` waits for more, at most `max_wait_ms`; an error ends the wait
at once. The first batch of the first partition with data is returned whole even if it is larger than every limit.
Consumers read up to the high watermark, or with read_committed to the last stable offset; replicas to the log end.

From v11 consumers may read from followers too, and are told which one is in their rack when replica.selector.class is
the rack-aware one (KIP-392).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from penstock.errors import ErrorCode, RequestError
from penstock.node import limits
from penstock.node.fetch_answers import failed
from penstock.node.fetches import READ_COMMITTED, READ_UNCOMMITTED, SESSIONS_FROM, Fetch
from penstock.node.handlers.fetch_plain import plain_answer
from penstock.node.handlers.fetch_sessions import find_session, update
from penstock.node.request import LATER, Handler, Outcome, Request
from penstock.node.steps import Pace, Stepped
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.fetch_request import FetchRequest
from penstock.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse
from penstock.replication.fetch_session import INVALID_SESSION_ID, Session
from penstock.security.rights import ACT_IN_CLUSTER

if TYPE_CHECKING:
    from penstock.node.broker import Broker


def handle(node: Broker, request: Request[FetchRequest], now_ms: int) -> Outcome | Stepped[Outcome]:
    if request.listener in node.state.settings.controller_listener_names:
        node.quorums.meant_by(request.body).handle(request, now_ms)
        return LATER
    isolation_level = request.body.isolation_level
    if isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        raise RequestError(ErrorCode.INVALID_REQUEST, f"there is no isolation level {isolation_level}")
    answer = plain_answer(node.fetches, request, now_ms)
    if answer is not None:
        return answer
    session = find_session(node, request, now_ms)
    if isinstance(session, ErrorCode):
        return FetchResponse(error_code=session)
    changes = update(node, request, session)
    if next(islice(changes, limits.PARTITIONS_PER_STEP, None), False):
        return begin_in_steps(node, request, session, changes)
    return begin(node, request, session, now_ms)


def begin_in_steps(
    node: Broker, request: Request[FetchRequest], session: Session, changes: Iterator[bool]
) -> Stepped[Outcome]:
    """Updates a session with the rest of a long request, and begins the fetch."""
    pace = Pace()
    for _ in changes:
        if pace.is_over():
            yield None
    begun = begin(node, request, session, node.scheduler.now_ms)
    return (yield from begun) if isinstance(begun, Generator) else begun


def begin(node: Broker, request: Request[FetchRequest], session: Session, now_ms: int) -> Outcome | Stepped[Outcome]:
    """Begins a fetch on a session that has been updated."""
    sessions = node.fetches.sessions
    session.fetched_as(request.body.replica_state.replica_epoch)
    if session.id != INVALID_SESSION_ID and not session.partitions:
        sessions.remove(session.id)
        session.id = INVALID_SESSION_ID
    if session.id != INVALID_SESSION_ID and not sessions.recount(session):
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    fetch = Fetch(node.fetches, request, session)
    if fetch.replica_id >= 0 and not node.dispatcher.turns.tenants.knows_node(request.connection):
        tell_node(node, request)
    request.again = fetch.attempt
    return fetch.attempt(now_ms)


def tell_node(node: Broker, request: Request[FetchRequest]) -> None:
    """A follower fetches: what comes on its connection has the turn of nodes, if it may fetch as one."""
    if node.gate.would_allow(request, ACT_IN_CLUSTER):
        node.dispatcher.turns.tenants.is_node(request.connection)


def refuse(request: Request[FetchRequest], code: ErrorCode, message: str) -> Message:
    """A session-level error from v7; before, an error for every partition of the request."""
    if request.version >= SESSIONS_FROM or request.body is None:
        return FetchResponse(error_code=code)
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic=topic.topic, partitions=[failed(entry.partition, code) for entry in topic.partitions]
            )
            for topic in request.body.topics
        ]
    )


HANDLERS = (Handler(ApiKey.FETCH, handle, refuse),)
