"""The `quorum-state` file: epoch, leader and vote of this replica, one line of JSON beside the metadata log, as in
Kafka.

Version 0 is for kraft.version 0; version 1, for kraft.version 1, adds the directory id of the candidate. The file is
durable before a vote is answered: `raft/core.py` holds back every request and answer until it is written. The rules for
voting are in `raft/elections.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from penstock.errors import StorageError
from penstock.log.meta_properties import parse_uuid, uuid_text
from penstock.protocol.message import ZERO_UUID
from penstock.raft.voters import ReplicaKey

FILE = "quorum-state"
NOBODY = -1


@dataclass(frozen=True, slots=True)
class ElectionState:
    """The state of elections as this voter knows it. `leader_id` and `voted` are None when there is none."""

    epoch: int = 0
    leader_id: int | None = None
    voted: ReplicaKey | None = None

    def __post_init__(self) -> None:
        assert self.epoch >= 0, "epochs begin at 0"
        assert self.leader_id is None or self.voted is None, "who knows the leader has no use for a vote"


def format_election(state: ElectionState, kraft_version: int, voter_ids: Iterable[int]) -> bytes:
    """The content of the file for this kraft.version; version 0 lists the voters as well."""
    leader_id = NOBODY if state.leader_id is None else state.leader_id
    voted_id = NOBODY if state.voted is None else state.voted.id
    fields: dict[str, Any] = {"leaderId": leader_id, "leaderEpoch": state.epoch, "votedId": voted_id}
    if kraft_version == 0:
        voters = [{"voterId": voter_id} for voter_id in voter_ids]
        fields = {"clusterId": "", **fields, "appliedOffset": 0, "currentVoters": voters}
    else:
        fields["votedDirectoryId"] = uuid_text(ZERO_UUID if state.voted is None else state.voted.directory_id)
    fields["data_version"] = min(kraft_version, 1)
    return json.dumps(fields, separators=(",", ":")).encode()


def parse_election(content: bytes, path: str) -> ElectionState:
    """Parses the `quorum-state` file. Raises StorageError, which names the path, if it is malformed."""
    try:
        fields = json.loads(content)
        version = fields["data_version"]
        if version not in (0, 1):
            raise StorageError(f"{path} has version {version}, this is for versions 0 and 1")
        epoch, leader_id, voted_id = (int(fields[name]) for name in ("leaderEpoch", "leaderId", "votedId"))
        directory_id = parse_uuid(fields["votedDirectoryId"]) if version == 1 else ZERO_UUID
        return ElectionState(
            epoch=epoch,
            leader_id=None if leader_id == NOBODY else leader_id,
            voted=None if voted_id == NOBODY or leader_id != NOBODY else ReplicaKey(voted_id, directory_id),
        )
    except (ValueError, KeyError, TypeError, AssertionError) as error:
        raise StorageError(f"{path} is damaged: {error!r}") from None
