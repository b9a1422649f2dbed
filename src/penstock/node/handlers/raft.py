"""The APIs between members of a quorum, on controller listeners: Vote (key 52), BeginQuorumEpoch (53), EndQuorumEpoch
(54), FetchSnapshot (59).

Vote 0-2 (pre-vote from 2, KIP-996), BeginQuorumEpoch and EndQuorumEpoch 0-1, FetchSnapshot 0-1, all but the first
version with directory ids (KIP-853). The replica of the quorum whose topic is named answers, perhaps only after a write
to its disk or an answer of another node. It also answers a Fetch of its log (`fetch`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.node.request import LATER, Handler, Outcome, Request
from penstock.protocol.api import ApiKey

if TYPE_CHECKING:
    from penstock.node.broker import Broker


def handle(node: Broker, request: Request[Any], now_ms: int) -> Outcome:
    node.quorums.meant_by(request.body).handle(request, now_ms)
    return LATER


HANDLERS = tuple(
    Handler(key, handle)
    for key in (ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH, ApiKey.FETCH_SNAPSHOT)
)
