"""The voters: the replicas of the metadata quorum that vote, and what a majority of them is.

A voter is identified by its id and, with kraft.version 1, by the id of the directory of its log, so that a controller
which lost its disk is not taken for the one that voted (KIP-853). With kraft.version 0 the voters are those of
`controller.quorum.voters` and directory ids are unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from penstock.log.meta_properties import uuid_text
from penstock.protocol.message import ZERO_UUID
from penstock.protocol.messages import voters_record
from penstock.protocol.messages.voters_record import VotersRecord

SUPPORTED_KRAFT_VERSIONS = (0, 1)


@dataclass(frozen=True, slots=True, order=True)
class ReplicaKey:
    """A replica: node id, and directory id where it is known (else the zero id)."""

    id: int
    directory_id: UUID = ZERO_UUID

    def __str__(self) -> str:
        """The name used in Kafka's answers."""
        directory = "<undefined>" if self.directory_id == ZERO_UUID else uuid_text(self.directory_id)
        return f"ReplicaKey(id={self.id}, directoryId={directory})"


@dataclass(frozen=True, slots=True)
class VoterEndpoint:
    """A listener by which a voter is reached."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Voter:
    """One voter, where it is reached, and the first and last kraft.version that it supports."""

    key: ReplicaKey
    endpoints: tuple[VoterEndpoint, ...] = ()
    kraft_versions: tuple[int, int] = SUPPORTED_KRAFT_VERSIONS

    def endpoint(self, listener: str) -> VoterEndpoint | None:
        """Where its listener of this name is."""
        return next((each for each in self.endpoints if each.name == listener), None)


class VoterSet:
    """The voters by id. Empty only while an observer has not learned of any; then nothing is a majority."""

    __slots__ = ("voters",)

    def __init__(self, voters: Iterable[Voter]) -> None:
        self.voters: Mapping[int, Voter] = {voter.key.id: voter for voter in sorted(voters, key=lambda each: each.key)}

    def __contains__(self, replica: ReplicaKey) -> bool:
        """Whether this replica votes; a voter whose directory id is unknown matches any directory of its node."""
        voter = self.voters.get(replica.id)
        return voter is not None and voter.key.directory_id in (ZERO_UUID, replica.directory_id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and self.voters == other.voters

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"VoterSet({', '.join(str(voter.key.id) for voter in self.voters.values())})"

    def __str__(self) -> str:
        """The list used in Kafka's answers."""
        return f"[{', '.join(str(voter.key) for voter in self.voters.values())}]"

    def with_voter(self, voter: Voter) -> VoterSet:
        """This set with one voter added, or replaced if one has its id."""
        return VoterSet([*(each for each in self.voters.values() if each.key.id != voter.key.id), voter])

    def without(self, voter_id: int) -> VoterSet:
        """This set without one voter."""
        return VoterSet(each for each in self.voters.values() if each.key.id != voter_id)

    @property
    def majority(self) -> int:
        """How many voters are a majority."""
        return len(self.voters) // 2 + 1

    def is_majority(self, ids: Collection[int]) -> bool:
        """Whether these voters are enough to elect a leader."""
        return sum(voter_id in ids for voter_id in self.voters) >= self.majority

    def committed(self, end_offsets: Mapping[int, int]) -> int | None:
        """The offset that a majority has on disk; `end_offsets` of voters, None if too few have told theirs."""
        known = sorted((end_offsets[voter_id] for voter_id in self.voters if voter_id in end_offsets), reverse=True)
        return known[self.majority - 1] if len(known) >= self.majority else None

    def to_record(self) -> VotersRecord:
        """The set as the KRaftVoters control record holds it."""
        return VotersRecord(
            voters=[
                voters_record.Voter(
                    voter_id=voter.key.id,
                    voter_directory_id=voter.key.directory_id,
                    endpoints=[
                        voters_record.Endpoint(name=each.name, host=each.host, port=each.port)
                        for each in voter.endpoints
                    ],
                    kraft_version_feature=voters_record.KRaftVersionFeature(
                        min_supported_version=voter.kraft_versions[0], max_supported_version=voter.kraft_versions[1]
                    ),
                )
                for voter in self.voters.values()
            ]
        )

    @staticmethod
    def from_record(record: VotersRecord) -> VoterSet:
        """The set that a KRaftVoters control record holds."""
        return VoterSet(
            Voter(
                ReplicaKey(each.voter_id, each.voter_directory_id),
                tuple(VoterEndpoint(endpoint.name, endpoint.host, endpoint.port) for endpoint in each.endpoints),
                (each.kraft_version_feature.min_supported_version, each.kraft_version_feature.max_supported_version),
            )
            for each in record.voters
        )
