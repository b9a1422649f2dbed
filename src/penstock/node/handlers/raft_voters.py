"""Changes of the voters of a dynamic quorum (KIP-853): AddRaftVoter (key 80), RemoveRaftVoter (81), on controller
listeners and forwarded by brokers, and UpdateRaftVoter (82), by which a voter reports its new addresses, on controller
listeners only.

AddRaftVoter 0-1 (answered before the commit on request, from 1), the others 0. The leader's replica decides, and
answers when the change is committed. With kraft.version 0 the voters are in the settings: UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.node.handlers.bounds import check_few
from penstock.node.request import FORWARD, LATER, Handler, Outcome, Request
from penstock.protocol.api import ApiKey

if TYPE_CHECKING:
    from penstock.node.broker import Broker


def handle(node: Broker, request: Request[Any], now_ms: int) -> Outcome:
    if request.listener not in node.state.settings.controller_listener_names and not node.controller.active:
        return FORWARD
    check_few(getattr(request.body, "listeners", ()))
    node.quorums.meant_by(request.body).handle(request, now_ms)
    return LATER


HANDLERS = (
    Handler(ApiKey.ADD_RAFT_VOTER, handle),
    Handler(ApiKey.REMOVE_RAFT_VOTER, handle),
    Handler(ApiKey.UPDATE_RAFT_VOTER, handle),
)
