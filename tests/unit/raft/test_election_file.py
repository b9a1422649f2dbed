"""`quorum-state`: the bytes that Kafka writes, and what is made of bytes that are damaged."""

from __future__ import annotations

from uuid import UUID

import pytest

from penstock.errors import StorageError
from penstock.raft.election import ElectionState, format_election, parse_election
from penstock.raft.voters import ReplicaKey

WITH_KRAFT_VERSION_1 = (
    b'{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
)
WITH_KRAFT_VERSION_0 = (
    b'{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,"currentVoters":[{"voterId":1}],'
    b'"data_version":0}'
)


def test_the_file_is_what_kafka_writes() -> None:
    state = ElectionState(1, leader_id=1)
    assert format_election(state, 1, [1]) == WITH_KRAFT_VERSION_1
    assert format_election(state, 0, [1]) == WITH_KRAFT_VERSION_0
    assert parse_election(WITH_KRAFT_VERSION_1, "quorum-state") == state
    assert parse_election(WITH_KRAFT_VERSION_0, "quorum-state") == state


@pytest.mark.parametrize("kraft_version", [0, 1])
@pytest.mark.parametrize("state", [ElectionState(), ElectionState(9), ElectionState(3, voted=ReplicaKey(1))])
def test_what_is_written_is_read_again(state: ElectionState, kraft_version: int) -> None:
    assert parse_election(format_election(state, kraft_version, [1]), "quorum-state") == state


def test_the_directory_of_the_vote_is_kept() -> None:
    state = ElectionState(3, voted=ReplicaKey(1, UUID(int=99)))
    assert parse_election(format_election(state, 1, [1]), "quorum-state") == state


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"data_version":1}', WITH_KRAFT_VERSION_1.replace(b'"leaderEpoch":1', b'"leaderEpoch":-5')],
)
def test_a_damaged_file_is_an_error_that_names_it(content: bytes) -> None:
    with pytest.raises(StorageError, match="quorum-state is damaged"):
        parse_election(content, "quorum-state")


def test_a_later_version_is_refused() -> None:
    with pytest.raises(StorageError, match="has version 2"):
        parse_election(WITH_KRAFT_VERSION_1.replace(b'"data_version":1', b'"data_version":2'), "quorum-state")
