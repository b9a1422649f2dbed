"""The requests and responses of the quorum: how they are made, and how they are read.

All of them are about one partition, 0 of the metadata topic. What a response says about the leader is `News`, whichever
API it comes from. Fields that an older version lacks are left out by the version that the peer used.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from uuid import UUID

from penstock.errors import ErrorCode
from penstock.protocol.message import ZERO_UUID, Message
from penstock.protocol.messages import (
    add_raft_voter_request,
    begin_quorum_epoch_request,
    begin_quorum_epoch_response,
    end_quorum_epoch_request,
    end_quorum_epoch_response,
    fetch_request,
    fetch_response,
    fetch_snapshot_request,
    fetch_snapshot_response,
    update_raft_voter_request,
    vote_request,
    vote_response,
)
from penstock.protocol.messages.add_raft_voter_request import AddRaftVoterRequest
from penstock.protocol.messages.begin_quorum_epoch_request import BeginQuorumEpochRequest
from penstock.protocol.messages.begin_quorum_epoch_response import BeginQuorumEpochResponse
from penstock.protocol.messages.end_quorum_epoch_request import EndQuorumEpochRequest
from penstock.protocol.messages.end_quorum_epoch_response import EndQuorumEpochResponse
from penstock.protocol.messages.fetch_request import FetchRequest
from penstock.protocol.messages.fetch_response import FetchResponse
from penstock.protocol.messages.fetch_snapshot_request import FetchSnapshotRequest
from penstock.protocol.messages.fetch_snapshot_response import FetchSnapshotResponse
from penstock.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from penstock.protocol.messages.update_raft_voter_request import UpdateRaftVoterRequest
from penstock.protocol.messages.update_raft_voter_response import UpdateRaftVoterResponse
from penstock.protocol.messages.vote_request import VoteRequest
from penstock.protocol.messages.vote_response import VoteResponse
from penstock.raft.checkpoint import CheckpointId
from penstock.raft.effects import Target
from penstock.raft.topic import METADATA, QuorumTopic
from penstock.raft.voters import ReplicaKey, Voter, VoterEndpoint

PARTITION = 0
UNKNOWN = -1

FETCHES_FROM = 12
"""The first version of Fetch that has room for what a replica of the quorum asks and is answered (KIP-595)."""
ENDPOINTS_FROM: dict[type[Message], int] = {
    VoteRequest: 1,
    BeginQuorumEpochRequest: 1,
    EndQuorumEpochRequest: 1,
    FetchRequest: 16,
    FetchSnapshotRequest: 1,
}
"""The version from which a response says where the leader is."""


class News(NamedTuple):
    """The leader that a response reports, -1 for none. `target` is the leader's address."""

    error: int
    leader_id: int
    epoch: int
    target: Target | None


class LeaderView(NamedTuple):
    """The leader as a response reports it."""

    leader_id: int
    epoch: int
    target: Target | None
    topic: QuorumTopic = METADATA


# Requests


def vote(
    cluster_id: str | None,
    local: ReplicaKey,
    voter: ReplicaKey,
    epoch: int,
    *,
    last_epoch: int,
    end_offset: int,
    pre_vote: bool,
    topic: QuorumTopic = METADATA,
) -> VoteRequest:
    partition = vote_request.PartitionData(
        partition_index=PARTITION,
        replica_epoch=epoch,
        replica_id=local.id,
        replica_directory_id=local.directory_id,
        voter_directory_id=voter.directory_id,
        last_offset_epoch=last_epoch,
        last_offset=end_offset,
        pre_vote=pre_vote,
    )
    topics = [vote_request.TopicData(topic_name=topic.name, partitions=[partition])]
    return VoteRequest(cluster_id=cluster_id, voter_id=voter.id, topics=topics)


def begin_quorum_epoch(
    cluster_id: str | None,
    leader_id: int,
    epoch: int,
    voter: ReplicaKey,
    endpoints: tuple[VoterEndpoint, ...],
    *,
    topic: QuorumTopic = METADATA,
) -> BeginQuorumEpochRequest:
    partition = begin_quorum_epoch_request.PartitionData(
        partition_index=PARTITION, voter_directory_id=voter.directory_id, leader_id=leader_id, leader_epoch=epoch
    )
    return BeginQuorumEpochRequest(
        cluster_id=cluster_id,
        voter_id=voter.id,
        topics=[begin_quorum_epoch_request.TopicData(topic_name=topic.name, partitions=[partition])],
        leader_endpoints=[
            begin_quorum_epoch_request.LeaderEndpoint(name=each.name, host=each.host, port=each.port)
            for each in endpoints
        ],
    )


def end_quorum_epoch(
    cluster_id: str | None,
    leader_id: int,
    epoch: int,
    successors: tuple[ReplicaKey, ...],
    endpoints: tuple[VoterEndpoint, ...],
    *,
    topic: QuorumTopic = METADATA,
) -> EndQuorumEpochRequest:
    partition = end_quorum_epoch_request.PartitionData(
        partition_index=PARTITION,
        leader_id=leader_id,
        leader_epoch=epoch,
        preferred_successors=[each.id for each in successors],
        preferred_candidates=[
            end_quorum_epoch_request.ReplicaInfo(candidate_id=each.id, candidate_directory_id=each.directory_id)
            for each in successors
        ],
    )
    return EndQuorumEpochRequest(
        cluster_id=cluster_id,
        topics=[end_quorum_epoch_request.TopicData(topic_name=topic.name, partitions=[partition])],
        leader_endpoints=[
            end_quorum_epoch_request.LeaderEndpoint(name=each.name, host=each.host, port=each.port)
            for each in endpoints
        ],
    )


def fetch(
    cluster_id: str | None,
    local: ReplicaKey,
    epoch: int,
    *,
    offset: int,
    last_epoch: int,
    high_watermark: int | None,
    max_wait_ms: int,
    max_bytes: int,
    topic: QuorumTopic = METADATA,
) -> FetchRequest:
    partition = fetch_request.FetchPartition(
        partition=PARTITION,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        partition_max_bytes=max_bytes,
        replica_directory_id=local.directory_id,
        high_watermark=UNKNOWN if high_watermark is None else high_watermark,
    )
    return FetchRequest(
        cluster_id=cluster_id,
        replica_state=fetch_request.ReplicaState(replica_id=local.id),
        max_wait_ms=max_wait_ms,
        max_bytes=max_bytes,
        topics=[fetch_request.FetchTopic(topic=topic.name, topic_id=topic.topic_id, partitions=[partition])],
    )


def fetch_snapshot(
    cluster_id: str | None,
    local: ReplicaKey,
    epoch: int,
    snapshot: CheckpointId,
    *,
    position: int,
    max_bytes: int,
    topic: QuorumTopic = METADATA,
) -> FetchSnapshotRequest:
    partition = fetch_snapshot_request.PartitionSnapshot(
        partition=PARTITION,
        current_leader_epoch=epoch,
        snapshot_id=fetch_snapshot_request.SnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch),
        position=position,
        replica_directory_id=local.directory_id,
    )
    return FetchSnapshotRequest(
        cluster_id=cluster_id,
        replica_id=local.id,
        max_bytes=max_bytes,
        topics=[fetch_snapshot_request.TopicSnapshot(name=topic.name, partitions=[partition])],
    )


def update_voter(cluster_id: str | None, epoch: int, voter: Voter) -> UpdateRaftVoterRequest:
    lowest, highest = voter.kraft_versions
    return UpdateRaftVoterRequest(
        cluster_id=cluster_id,
        current_leader_epoch=epoch,
        voter_id=voter.key.id,
        voter_directory_id=voter.key.directory_id,
        listeners=[
            update_raft_voter_request.Listener(name=each.name, host=each.host, port=each.port)
            for each in voter.endpoints
        ],
        kraft_version_feature=update_raft_voter_request.KRaftVersionFeature(
            min_supported_version=lowest, max_supported_version=highest
        ),
    )


def add_voter(cluster_id: str | None, voter: Voter, *, timeout_ms: int) -> AddRaftVoterRequest:
    """Asks to become a voter. The answer comes before the commit, which may need this node."""
    return AddRaftVoterRequest(
        cluster_id=cluster_id,
        timeout_ms=timeout_ms,
        voter_id=voter.key.id,
        voter_directory_id=voter.key.directory_id,
        listeners=[
            add_raft_voter_request.Listener(name=each.name, host=each.host, port=each.port) for each in voter.endpoints
        ],
        ack_when_committed=False,
    )


def remove_voter(cluster_id: str | None, voter: ReplicaKey) -> RemoveRaftVoterRequest:
    return RemoveRaftVoterRequest(cluster_id=cluster_id, voter_id=voter.id, voter_directory_id=voter.directory_id)


# Responses


def refusal(request: Message, error: ErrorCode) -> Message:
    """The response with an error for the whole request."""
    kinds: dict[type[Message], type[Any]] = {
        VoteRequest: VoteResponse,
        BeginQuorumEpochRequest: BeginQuorumEpochResponse,
        EndQuorumEpochRequest: EndQuorumEpochResponse,
        FetchRequest: FetchResponse,
        FetchSnapshotRequest: FetchSnapshotResponse,
    }
    response: Message = kinds[type(request)](error_code=error)
    return response


def unsupported(request: Message) -> Message | None:
    """A substitute for the answer of a node that supports no version of the API that can express the request."""
    kinds: dict[type[Message], type[Any]] = {VoteRequest: VoteResponse, UpdateRaftVoterRequest: UpdateRaftVoterResponse}
    kind = kinds.get(type(request))
    return None if kind is None else kind(error_code=ErrorCode.UNSUPPORTED_VERSION)


def endpoints_of(module: Any, leader: LeaderView) -> list[Any]:
    """The addresses that a response names: the leader's, where the request's version has room for them."""
    if leader.target is None or leader.leader_id < 0:
        return []
    return [module.NodeEndpoint(node_id=leader.leader_id, host=leader.target.host, port=leader.target.port)]


def vote_answer(error: ErrorCode, leader: LeaderView, *, granted: bool) -> VoteResponse:
    partition = vote_response.PartitionData(
        partition_index=PARTITION,
        error_code=error,
        leader_id=leader.leader_id,
        leader_epoch=leader.epoch,
        vote_granted=granted,
    )
    topics = [vote_response.TopicData(topic_name=leader.topic.name, partitions=[partition])]
    return VoteResponse(topics=topics, node_endpoints=endpoints_of(vote_response, leader))


def begin_answer(error: ErrorCode, leader: LeaderView) -> BeginQuorumEpochResponse:
    module = begin_quorum_epoch_response
    partition = module.PartitionData(
        partition_index=PARTITION, error_code=error, leader_id=leader.leader_id, leader_epoch=leader.epoch
    )
    topics = [module.TopicData(topic_name=leader.topic.name, partitions=[partition])]
    return BeginQuorumEpochResponse(topics=topics, node_endpoints=endpoints_of(module, leader))


def end_answer(error: ErrorCode, leader: LeaderView) -> EndQuorumEpochResponse:
    module = end_quorum_epoch_response
    partition = module.PartitionData(
        partition_index=PARTITION, error_code=error, leader_id=leader.leader_id, leader_epoch=leader.epoch
    )
    topics = [module.TopicData(topic_name=leader.topic.name, partitions=[partition])]
    return EndQuorumEpochResponse(topics=topics, node_endpoints=endpoints_of(module, leader))


def fetch_answer(leader: LeaderView, partition: fetch_response.PartitionData) -> FetchResponse:
    partition.current_leader = fetch_response.LeaderIdAndEpoch(leader_id=leader.leader_id, leader_epoch=leader.epoch)
    topic = fetch_response.FetchableTopicResponse(
        topic=leader.topic.name, topic_id=leader.topic.topic_id, partitions=[partition]
    )
    return FetchResponse(responses=[topic], node_endpoints=endpoints_of(fetch_response, leader))


def fetch_snapshot_answer(
    leader: LeaderView, partition: fetch_snapshot_response.PartitionSnapshot
) -> FetchSnapshotResponse:
    module = fetch_snapshot_response
    partition.current_leader = module.LeaderIdAndEpoch(leader_id=leader.leader_id, leader_epoch=leader.epoch)
    topics = [module.TopicSnapshot(name=leader.topic.name, partitions=[partition])]
    return FetchSnapshotResponse(topics=topics, node_endpoints=endpoints_of(module, leader))


# Reading


def topics_of(message: Any) -> Any:
    """The topics that a request or response is about; changes of voters name none."""
    return message.responses if isinstance(message, FetchResponse) else getattr(message, "topics", ())


def topic_of(message: Any) -> tuple[str, UUID]:
    """Name and id of the first topic, only one of them set, by the version; neither if there is no topic."""
    topic = next(iter(topics_of(message)), None)
    name = next((getattr(topic, field) for field in ("topic_name", "name", "topic") if hasattr(topic, field)), "")
    return name, getattr(topic, "topic_id", ZERO_UUID)


def partition_of(message: Any, wanted: QuorumTopic = METADATA) -> Any | None:
    """The one partition of a request or response; None if it is about anything else."""
    topics = topics_of(message)
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        return None
    (name, topic_id), partition = topic_of(message), topics[0].partitions[0]
    index = next(
        getattr(partition, each) for each in ("partition_index", "partition", "index") if hasattr(partition, each)
    )
    named = name == wanted.name or (not name and topic_id == wanted.topic_id)
    return partition if named and index == PARTITION else None


def news_of_update(response: UpdateRaftVoterResponse, listener: str) -> News:
    """The leader that an UpdateRaftVoter response reports, which has a form of its own."""
    leader = response.current_leader
    known = leader.leader_id >= 0 and leader.host
    target = Target(leader.leader_id, leader.host, leader.port, listener) if known else None
    return News(response.error_code, leader.leader_id, leader.leader_epoch, target)


def news_of(response: Any, partition: Any, listener: str) -> News:
    """The leader that a response reports."""
    holder = getattr(partition, "current_leader", partition)
    leader_id = holder.leader_id
    found = next((each for each in response.node_endpoints if each.node_id == leader_id), None)
    target = None if found is None or leader_id < 0 else Target(leader_id, found.host, found.port, listener)
    return News(partition.error_code, leader_id, holder.leader_epoch, target)
