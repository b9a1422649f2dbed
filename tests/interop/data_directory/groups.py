"""Groups on a data directory that changes hands: what a turn checks, and what it adds.

Members of both protocols live through the turns, a static one and dynamic ones: whoever serves next knows them, so they
go on with what they have and nobody rebalances. Between turns nothing of a group may change but who coordinates it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from interop.data_directory.turns import TIMEOUT_S, DataDirectory

from penstock.client import groups
from penstock.client.admin import create_topic, wait_for_topic
from penstock.client.client import Client
from penstock.client.groups import Committed, GroupState
from penstock.errors import ErrorCode, RequestError

TOPIC = "read"
PARTITIONS = 4
LIVING = {"classic": "old", "consumer": "new"}
"""Groups with members, by their protocol."""
EMPTY = tuple(f"empty-{number}" for number in range(20))
"""Groups with offsets alone."""
POLL_S = 0.05


class Living:
    """Members of one group, one of them static, and how often they were given or gave up something.

    A member is told of a rebalance also when it gets nothing by it, and it may hear of it with any later poll: that is
    no change.
    """

    def __init__(self, bootstrap: str, group: str, protocol: str) -> None:
        self.changes = 0
        self.owned: set[int] = set()
        kind: dict[str, Any] = {"group.protocol": protocol}
        if protocol == "classic":
            kind |= {
                "partition.assignment.strategy": "cooperative-sticky",
                "session.timeout.ms": 60_000,
                "heartbeat.interval.ms": 500,
            }
        self.members = [
            Consumer(
                {
                    "bootstrap.servers": bootstrap,
                    "group.id": group,
                    "client.id": f"{group}-{number}",
                    "enable.auto.commit": False,
                    "auto.offset.reset": "earliest",
                    "reconnect.backoff.max.ms": 200,
                    "log_level": 0,
                    **kind,
                    **({"group.instance.id": "static"} if number == 0 else {}),
                }
            )
            for number in range(2)
        ]
        for member in self.members:
            member.subscribe([TOPIC], on_assign=self._assigned, on_revoke=self._revoked)

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.changes += bool(partitions)
        self.owned |= {each.partition for each in partitions}
        consumer.incremental_assign(partitions)

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.changes += bool(partitions)
        self.owned -= {each.partition for each in partitions}
        consumer.incremental_unassign(partitions)

    def poll(self) -> None:
        for member in self.members:
            member.poll(POLL_S)

    def settle(self) -> None:
        """Polls until every partition has its owner, and every member one."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while len(self.owned) < PARTITIONS or not all(each.assignment() for each in self.members):
            assert time.monotonic() < deadline_s, f"only {self.owned} is assigned"
            self.poll()

    def commit(self, offset: int) -> None:
        """Every member commits this offset for what it has, as a member of the group that it is."""
        for member in self.members:
            offsets = [TopicPartition(TOPIC, each.partition, offset) for each in member.assignment()]
            deadline_s = time.monotonic() + TIMEOUT_S
            while True:
                try:
                    answers = member.commit(offsets=offsets, asynchronous=False)
                except Exception:
                    assert time.monotonic() < deadline_s
                    self.poll()
                    continue
                assert answers is not None
                assert all(each.error is None for each in answers), answers
                break

    def close(self) -> None:
        for member in self.members:
            member.close()


class GroupHistory:
    """What the turns left."""

    def __init__(self, shared: DataDirectory) -> None:
        self.shared = shared
        self.turns = 0
        self.living: dict[str, Living] = {}
        self.states: dict[str, GroupState] = {}
        self.offsets: dict[str, dict[tuple[str, int], Committed]] = {}
        self.changes: dict[str, int] = {}

    def turn(self) -> None:
        """Checks what earlier turns left, and adds to it."""
        if not self.turns:
            self._begin()
        self._check()
        self.turns += 1
        for living in self.living.values():
            living.commit(self.turns)
        self._run(self._change)
        self.states, self.offsets = self._run(self._see)
        self.changes = {group: living.changes for group, living in self.living.items()}

    def close(self) -> None:
        for living in self.living.values():
            living.close()

    def _begin(self) -> None:
        async def create(client: Client) -> None:
            await create_topic(client, TOPIC, partitions=PARTITIONS, replication_factor=1)
            await wait_for_topic(client, TOPIC, expected=PARTITIONS)

        self._run(create)
        for protocol, group in LIVING.items():
            living = self.living[group] = Living(self.shared.bootstrap, group, protocol)
            living.settle()

    def _check(self) -> None:
        if not self.turns:
            return
        for living in self.living.values():
            for _ in range(20):  # some heartbeats
                living.poll()
        states, offsets = self._run(self._see)
        assert offsets == self.offsets
        assert states == self.states
        changes = {group: living.changes for group, living in self.living.items()}
        assert changes == self.changes, "a member was told to change what it has"

    async def _change(self, client: Client) -> None:
        """New offsets of every group without members; one group and one offset are deleted."""
        for number, group in enumerate(EMPTY):
            await groups.alter_offsets(client, group, {(TOPIC, each): 10 * self.turns + number for each in range(3)})
        gone = EMPTY[self.turns % len(EMPTY)]
        codes = await groups.delete_groups(client, [gone])
        assert set(codes.values()) == {ErrorCode.NONE}
        await groups.delete_offsets(client, EMPTY[-1], [(TOPIC, self.turns % 3)])

    async def _see(self, client: Client) -> tuple[dict[str, GroupState], dict[str, dict[tuple[str, int], Committed]]]:
        """All groups with their members, and all offsets."""
        for group in EMPTY:  # its coordinator has loaded it; until then it is not listed
            await groups.committed(client, group)
        states, offsets = {}, {}
        for listed in await groups.list_groups(client):
            state = await groups.describe_group(client, listed.group_id)
            members = tuple(sorted(state.members, key=lambda member: member.member_id))
            states[listed.group_id] = replace(state, members=members)
            offsets[listed.group_id] = await groups.committed(client, listed.group_id)
        gone = [group for group in EMPTY if group not in states]
        for group in gone:
            assert await groups.committed(client, group) == {}
        return states, offsets

    def _run(self, job: Callable[[Client], Awaitable[Any]]) -> Any:
        async def work() -> Any:
            async with Client(self.shared.bootstrap, timeout_ms=int(TIMEOUT_S * 1000)) as client:
                return await job(client)

        deadline_s = time.monotonic() + TIMEOUT_S
        while True:
            try:
                return asyncio.run(work())
            except RequestError as error:
                if error.code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS or time.monotonic() > deadline_s:
                    raise
