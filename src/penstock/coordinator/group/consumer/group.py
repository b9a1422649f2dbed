"""A consumer group as a group that classic members are served by, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordinator.group.base import JoinReply, SyncReply
from penstock.coordinator.group.consumer import classic
from penstock.coordinator.group.consumer.state import ConsumerGroupState
from penstock.coordinator.runtime.result import Result
from penstock.protocol.messages.heartbeat_request import HeartbeatRequest
from penstock.protocol.messages.heartbeat_response import HeartbeatResponse
from penstock.protocol.messages.join_group_request import JoinGroupRequest
from penstock.protocol.messages.leave_group_request import LeaveGroupRequest
from penstock.protocol.messages.leave_group_response import LeaveGroupResponse
from penstock.protocol.messages.sync_group_request import SyncGroupRequest

if TYPE_CHECKING:
    from penstock.coordinator.group.context import Context
    from penstock.coordinator.group.machine import GroupMachine


class ConsumerGroup(ConsumerGroupState):
    """Its state, and what `classic.py` does with it."""

    __slots__ = ()

    def join(
        self, machine: GroupMachine, context: Context, request: JoinGroupRequest, reply: JoinReply, now_ms: int
    ) -> Result[None]:
        return classic.join(machine, self, context, request, reply, now_ms=now_ms)

    def sync(
        self, machine: GroupMachine, context: Context, request: SyncGroupRequest, reply: SyncReply, now_ms: int
    ) -> Result[None]:
        return classic.sync(machine, self, request, reply, now_ms)

    def heartbeat(
        self, machine: GroupMachine, context: Context, request: HeartbeatRequest, now_ms: int
    ) -> Result[HeartbeatResponse]:
        return classic.heartbeat(machine, self, request, now_ms)

    def leave(
        self, machine: GroupMachine, context: Context, request: LeaveGroupRequest, now_ms: int
    ) -> Result[LeaveGroupResponse]:
        return classic.leave(machine, self, request, now_ms)
