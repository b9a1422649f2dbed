"""A JoinGroup request on its way: its origin, and the receiver of its answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.coordinator.group.base import JoinReply
from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.classic.member import ClassicMember, join_error, protocols_of, rebalance_timeout_ms
from penstock.coordinator.group.classic.rebalance import NOTHING
from penstock.coordinator.group.context import Context
from penstock.coordinator.runtime.result import Result
from penstock.errors import ErrorCode
from penstock.protocol.messages.join_group_request import JoinGroupRequest
from penstock.protocol.messages.join_group_response import JoinGroupResponse

NULLABLE_PROTOCOL_FROM = 7
REASON_MAX_CHARACTERS = 255
"""Kafka's clients send no more."""


@dataclass(frozen=True, slots=True)
class Join:
    """See the module's head."""

    context: Context
    request: JoinGroupRequest
    reply: JoinReply

    @staticmethod
    def of(context: Context, request: JoinGroupRequest, reply: JoinReply) -> Join:
        """With a reply that suits the request's version: before version 7 the protocol's name cannot be null."""
        if context.api_version >= NULLABLE_PROTOCOL_FROM:
            return Join(context, request, reply)

        def named(response: JoinGroupResponse, now_ms: int) -> None:
            response.protocol_name = response.protocol_name or ""
            reply(response, now_ms)

        return Join(context, request, named)

    def refuse(self, code: ErrorCode, member_id: str, now_ms: int) -> Result[Any]:
        """Answers with an error."""
        self.reply(join_error(code, member_id), now_ms)
        return NOTHING

    def update(self, group: ClassicGroup, member: ClassicMember, now_ms: int) -> None:
        """The member is as the request says now. An earlier join of its that still waits need not wait any longer."""
        group.answer_join(member, join_error(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id), now_ms)
        request = self.request
        group.update(
            member,
            protocols_of(request.protocols),
            rebalance_timeout_ms(request),
            request.session_timeout_ms,
            self.reply,
        )

    @property
    def reason(self) -> str:
        """The client's reason, for the log."""
        return reason_of(self.request.reason)


def reason_of(said: str | None) -> str:
    """A client's reason (KIP-800), for the log."""
    return f"the client says {said[:REASON_MAX_CHARACTERS]!r}" if said else "the client gives no reason"
