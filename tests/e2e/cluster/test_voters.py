"""A dynamic quorum of real nodes grows to three voters, survives the loss of the first, and forgets it (KIP-853)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from support.processes import CLUSTER_ID, TIMEOUT_S, Cluster

from penstock.client.client import Client
from penstock.errors import ErrorCode, PenstockError
from penstock.log.meta_properties import parse_meta_properties
from penstock.protocol.messages.add_raft_voter_request import AddRaftVoterRequest, Listener
from penstock.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from penstock.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest


def directory_id(cluster: Cluster, id_: int) -> UUID:
    path = cluster.path(id_) / "data" / "meta.properties"
    found = parse_meta_properties(path.read_bytes(), str(path)).directory_id
    assert found is not None
    return found


async def quorum(client: Client) -> Any:
    topic = TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])
    answer = await client.send(DescribeQuorumRequest(topics=[topic]))
    return answer.topics[0].partitions[0]


async def until(client: Client, condition: Callable[[Any], bool]) -> Any:
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            try:
                found = await quorum(client)
                if found.error_code == ErrorCode.NONE and condition(found):
                    return found
            except PenstockError:
                pass  # the node that was asked is gone
            await asyncio.sleep(0.05)


@pytest.mark.slow
def test_a_quorum_grows_loses_its_first_voter_and_forgets_it(tmp_path: Path) -> None:
    async def run(cluster: Cluster) -> None:
        async with Client(f"127.0.0.1:{cluster.ports[2]}") as client:
            await until(client, lambda found: len(found.observers) == 2)
            for id_ in (2, 3):
                listener = Listener(name="CONTROLLER", host="127.0.0.1", port=cluster.controller_ports[id_])
                added = AddRaftVoterRequest(
                    cluster_id=CLUSTER_ID,
                    timeout_ms=10_000,
                    voter_id=id_,
                    voter_directory_id=directory_id(cluster, id_),
                    listeners=[listener],
                )
                answer = await client.send(added)
                assert answer.error_code == ErrorCode.NONE, answer.error_message
                await until(client, lambda found, count=id_: len(found.current_voters) == count)  # type: ignore[misc]
            cluster.kill(1)
            await until(client, lambda found: found.leader_id in (2, 3) and found.high_watermark > 0)
            removed = RemoveRaftVoterRequest(
                cluster_id=CLUSTER_ID, voter_id=1, voter_directory_id=directory_id(cluster, 1)
            )
            answer = await client.send(removed)
            assert answer.error_code == ErrorCode.NONE, answer.error_message
            found = await quorum(client)
            assert sorted(each.replica_id for each in found.current_voters) == [2, 3]

    with Cluster(tmp_path, dynamic=True) as cluster:
        asyncio.run(run(cluster))
