"""A node that is alone, with fifty partitions full of groups, stops or dies and comes back, and knows them all."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from e2e.cluster.group_history import Members
from e2e.cluster.history import Writer, check, create_topic
from support.processes import Cluster

from penstock.client import groups
from penstock.client.client import Client
from penstock.node.coordinator_topic import partition_for

logger = logging.getLogger(__name__)

PARTITIONS = 6
OFFSETS_PARTITIONS = 50
GROUPS = tuple(f"group-{number}" for number in range(400))
"""That have offsets alone."""
AT_ONCE = 16
SETTINGS = {
    "offsets_topic_replication_factor": 1,
    "group_initial_rebalance_delay_ms": 0,
    "group_consumer_min_heartbeat_interval_ms": 300,
    "group_consumer_heartbeat_interval_ms": 500,
}


async def of_each(job: Callable[[str], Awaitable[object]]) -> list[object]:
    """The job's results for every group, some at a time."""
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(group: str) -> object:
        async with limit:
            return await job(group)

    return await asyncio.gather(*map(one, GROUPS))


async def commit(bootstrap: str, life: int) -> None:
    async with Client(bootstrap) as client:
        await of_each(
            lambda group: groups.alter_offsets(
                client, group, {("t", each): 1000 * life + len(group) + each for each in range(PARTITIONS)}
            ),
        )


async def offsets(bootstrap: str) -> list[object]:
    async with Client(bootstrap) as client:
        return await of_each(lambda group: groups.committed(client, group))


async def listed(bootstrap: str) -> set[str]:
    async with Client(bootstrap) as client:
        return {each.group_id for each in await groups.list_groups(client)}


@pytest.mark.slow
@pytest.mark.parametrize("killed", [True, False], ids=["killed", "stopped"])
def test_every_group_is_there_again(tmp_path: Path, *, killed: bool) -> None:
    assert len({partition_for(group, OFFSETS_PARTITIONS) for group in GROUPS}) == OFFSETS_PARTITIONS
    with Cluster(tmp_path, 1, **SETTINGS) as cluster:
        create_topic(cluster.bootstrap, "t", PARTITIONS, 1)
        with ExitStack() as stack:
            writer = stack.enter_context(Writer(cluster.bootstrap, "t"))
            living = [
                stack.enter_context(Members(cluster.bootstrap, "t", each, each, partitions=PARTITIONS))
                for each in ("cooperative", "consumer")
            ]
            for life in range(2):
                asyncio.run(commit(cluster.bootstrap, life))
                before = asyncio.run(offsets(cluster.bootstrap))
                for members in living:
                    members.wait_until_shared()
                    members.wait_for_more()
                owners = [members.history.owners() for members in living]
                if killed:
                    cluster.kill(1)
                else:
                    cluster.stop(1)
                since_s = time.monotonic()
                cluster.start(1)
                cluster.wait_ready(1)
                assert asyncio.run(offsets(cluster.bootstrap)) == before
                served_s = time.monotonic() - since_s
                logger.info("all groups are served %.2f s after the start", served_s)
                assert asyncio.run(listed(cluster.bootstrap)) == {*GROUPS, "cooperative", "consumer"}
                for members in living:
                    members.wait_for_more()
                assert [members.history.owners() for members in living] == owners, "and nobody has rebalanced"
        for members in living:
            members.check()
        assert not writer.failed
        check(writer, cluster.bootstrap, PARTITIONS)
