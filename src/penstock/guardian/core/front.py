"""Where calls are answered: reads by any node, changes by the leader, to which the others hand them on; so they do with
reads of what only the leader sees.

A change that was handed on and got no answer may have been made. The answer says so, and whoever asks again with the
same request id is told what became of it. Nothing is handed on twice: a node that was asked as the leader and does not
lead says so.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from penstock.guardian.core import answering, calls, permitted
from penstock.guardian.core.calls import Call, Known, Reply, refusal
from penstock.guardian.core.limits import GUARDIAN_HANDED_ON_MAX
from penstock.guardian.core.quorum import GuardianQuorum
from penstock.guardian.core.sight import Sight
from penstock.node.outgoing import Outgoing, Peer
from penstock.protocol.message import Message
from penstock.protocol.messages.own.guardian_call_request import GuardianCallRequest
from penstock.protocol.messages.own.guardian_call_response import GuardianCallResponse
from penstock.records.wall import WallTime

CHANNEL = "guardian"
"""Changes have a connection of their own: they must not wait behind a fetch."""
NO_LEADER = "no leader is known: ask again soon"
NOT_KNOWN = "nothing is known yet of what is committed: ask again soon, or another node"
NO_ANSWER = "the leader did not answer: whether the change was made is not known; ask again with the same request id"

Answered = Callable[[GuardianCallResponse, int], None]


class Front:
    """See the module's head. Attributes: `handed_on`, changes that the leader has not answered yet."""

    def __init__(
        self, quorum: GuardianQuorum, outgoing: Outgoing, sight: Sight, wall: WallTime, *, timeout_ms: int
    ) -> None:
        self.handed_on = 0
        self._sight = sight
        self._quorum = quorum
        self._outgoing = outgoing
        self._wall = wall
        self._timeout_ms = timeout_ms

    def take(self, call: Call, answered: Answered, now_ms: int, *, handed_on: bool) -> None:
        """Answers a call, once, now or later. `handed_on`: by a node that takes this one for the leader."""
        quorum, sight, wall_ms = self._quorum, self._sight, self._wall.at(now_ms)
        if not quorum.leads and (call.changes or answering.is_live(call)):
            self._hand_on(call, answered, now_ms, handed_on=handed_on)
        elif not call.changes:
            known = quorum.age_ms(now_ms) is not None
            reply = permitted.read(Known(quorum.state, sight, wall_ms), call) if known else unavailable(NOT_KNOWN)
            self._answer(reply, answered, now_ms)
        else:
            quorum.leader.change(
                call,
                lambda reply, at_ms: self._answer(reply, answered, at_ms),
                sight,
                wall_ms,
                now_ms,
                holds_lease=quorum.may_act(now_ms),
            )

    def _hand_on(self, call: Call, answered: Answered, now_ms: int, *, handed_on: bool) -> None:
        target = self._quorum.leader_target
        if handed_on or target is None:
            self._answer(unavailable(NO_LEADER), answered, now_ms)
            return
        if self.handed_on >= GUARDIAN_HANDED_ON_MAX:
            reply = refusal(calls.TOO_MANY, f"{GUARDIAN_HANDED_ON_MAX} changes wait for the leader")
            self._answer(reply, answered, now_ms)
            return
        self.handed_on += 1
        request = GuardianCallRequest(
            method=call.method,
            path=call.path,
            body=call.body,
            request_id=call.request_id,
            on_behalf_of=call.principal,
            token_id=call.token_id,
        )
        peer = Peer(target.node_id, target.host, target.port, target.listener)
        done = partial(self._came_back, answered)
        self._outgoing.call(peer, request, timeout_ms=self._timeout_ms, done=done, now_ms=now_ms, channel=CHANNEL)

    def _came_back(self, answered: Answered, answer: Message | None, reason: str | None, now_ms: int) -> None:
        self.handed_on -= 1
        if not isinstance(answer, GuardianCallResponse):
            self._answer(unavailable(f"{NO_ANSWER} ({reason})"), answered, now_ms)
        elif answer.error_code:
            why = f"the leader refuses changes of this node: {answer.error_message or answer.error_code}"
            self._answer(unavailable(why), answered, now_ms)
        else:
            answer.throttle_time_ms = 0
            answer.body = bytes(answer.body)
            answered(answer, now_ms)

    def _answer(self, reply: Reply, answered: Answered, now_ms: int) -> None:
        quorum = self._quorum
        age_ms, leader_id = quorum.age_ms(now_ms), quorum.leader_id
        response = GuardianCallResponse(
            status=reply.status,
            body=reply.encoded,
            answered_by=quorum.local.id,
            leader_id=-1 if leader_id is None else leader_id,
            age_ms=-1 if age_ms is None else age_ms,
        )
        answered(response, now_ms)


def unavailable(why: str) -> Reply:
    """The answer to a call that may be answered later, or by another node."""
    return refusal(calls.UNAVAILABLE, why)
