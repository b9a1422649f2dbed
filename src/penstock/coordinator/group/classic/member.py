"""A member of a classic group: what it sent when it joined, its assignment, and its requests waiting for an answer."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field

from penstock.coordinator.group.base import JoinReply, SyncReply
from penstock.coordinator.group.context import Context
from penstock.errors import ErrorCode
from penstock.protocol.messages.describe_groups_response import DescribedGroupMember
from penstock.protocol.messages.group.group_metadata_value import MemberMetadata
from penstock.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.messages.join_group_response import JoinGroupResponse
from penstock.protocol.messages.sync_group_response import SyncGroupResponse

EMPTY_ASSIGNMENT = b""

Protocols = Mapping[str, bytes]
"""The protocols (assignment strategies) that a member supports: name -> its metadata, the one it likes best first."""


def protocols_of(offered: Iterable[JoinGroupRequestProtocol]) -> dict[str, bytes]:
    """The protocols of a request. Of several with one name the first counts."""
    protocols: dict[str, bytes] = {}
    for protocol in offered:
        protocols.setdefault(protocol.name, protocol.metadata)
    return protocols


@dataclass(slots=True, eq=False, repr=False)
class ClassicMember:
    """See the module's head.

    Attributes:
        instance_id: of a static member (KIP-345), else None.
        is_new: it has not been in a complete generation yet; it is dropped when its join waits for too long.
        join_reply, sync_reply: who waits for an answer.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    _: KW_ONLY
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = EMPTY_ASSIGNMENT
    is_new: bool = field(default=False, init=False)
    join_reply: JoinReply | None = field(default=None, init=False)
    sync_reply: SyncReply | None = field(default=None, init=False)

    def __repr__(self) -> str:
        return f"ClassicMember({self.member_id!r}, instance {self.instance_id!r})"

    @staticmethod
    def of(member_id: str, context: Context, request: JoinGroupRequest) -> ClassicMember:
        """The member that a request describes."""
        return ClassicMember(
            member_id,
            request.group_instance_id,
            context.client_id,
            context.client_host,
            rebalance_timeout_ms=rebalance_timeout_ms(request),
            session_timeout_ms=request.session_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=protocols_of(request.protocols),
        )

    @staticmethod
    def from_record(record: MemberMetadata, protocol_type: str, protocol_name: str | None) -> ClassicMember:
        """The member as the log has it: with the group's protocol only."""
        return ClassicMember(
            record.member_id,
            record.group_instance_id,
            record.client_id,
            record.client_host,
            rebalance_timeout_ms=record.session_timeout if record.rebalance_timeout == -1 else record.rebalance_timeout,
            session_timeout_ms=record.session_timeout,
            protocol_type=protocol_type,
            protocols={protocol_name or "": record.subscription},
            assignment=record.assignment,
        )

    def record(self, protocol_name: str, assignment: bytes) -> MemberMetadata:
        """The member's entry in the group's record."""
        return MemberMetadata(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.protocols[protocol_name],
            assignment=assignment,
        )

    def described(self, protocol_name: str | None) -> DescribedGroupMember:
        """The member's entry in DescribeGroups; it has metadata only once the protocol is agreed."""
        return DescribedGroupMember(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            member_metadata=b"" if protocol_name is None else self.protocols[protocol_name],
            member_assignment=self.assignment,
        )

    # Protocols

    def vote(self, candidates: Container[str]) -> str:
        """The candidate that it prefers."""
        for name in self.protocols:
            if name in candidates:
                return name
        raise AssertionError(f"{self!r} supports none of {candidates}")

    def offers(self, protocols: Protocols) -> bool:
        """Whether these are its protocols, in the same order and with the same metadata."""
        return list(self.protocols.items()) == list(protocols.items())

    # Who waits

    @property
    def awaits_join(self) -> bool:
        return self.join_reply is not None

    @property
    def awaits_sync(self) -> bool:
        return self.sync_reply is not None

    @property
    def is_heard_of(self) -> bool:
        """Whether the member waits for our answer, so that it cannot send heartbeats; new members join again anyway."""
        return not self.is_new and (self.awaits_join or self.awaits_sync)

    def answer_sync(self, response: SyncGroupResponse, now_ms: int) -> bool:
        """Answers a waiting sync. Returns whether there was one."""
        reply, self.sync_reply = self.sync_reply, None
        if reply is None:
            return False
        reply(response, now_ms)
        return True


def rebalance_timeout_ms(request: JoinGroupRequest) -> int:
    """How long a rebalance may wait for the member. Version 0 knows only the session timeout."""
    return request.session_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms


def join_error(code: ErrorCode, member_id: str) -> JoinGroupResponse:
    """A refusal of a JoinGroup."""
    return JoinGroupResponse(error_code=code, member_id=member_id)
