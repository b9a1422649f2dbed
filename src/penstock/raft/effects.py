"""The effects that the events of `raft.replica` return, in order, for the node to carry out.

Whatever must be durable before the next step is an effect of its own; an event reports that it is done:

| effect | answered by the event | |---|---| | `PersistElection` | `election_persisted(state, now_ms)` | |
`AppendControl` | `appended(log_end_offset, now_ms)` at once, `written` and `flushed` later | | `AppendFetched` |
`written` and `flushed` later | | `Truncate` | `truncated(log_end_offset, now_ms)` | | `WriteSnapshot` |
`snapshot_written(snapshot, size_bytes, now_ms)` | | `InstallSnapshot` | `snapshot_installed(snapshot, voters,
kraft_version, now_ms)` or `snapshot_refused` | | `Call` | `answered(call, response or None, now_ms)`, exactly once |

A `Call` or `Answer` about an election is returned only when the state that it tells is on disk: the replica holds it
back.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.protocol.message import Buffer, Message
from penstock.raft.checkpoint import CheckpointId
from penstock.raft.election import ElectionState


@dataclass(frozen=True, slots=True, order=True)
class Target:
    """Where a request goes. `node_id` is below 0 for a bootstrap server, whose id is not known."""

    node_id: int
    host: str
    port: int
    listener: str


@dataclass(frozen=True, slots=True)
class PersistElection:
    """Write `quorum-state` and make it durable, then report `election_persisted`."""

    state: ElectionState


@dataclass(frozen=True, slots=True)
class AppendControl:
    """As the leader, append one control batch with these records at the log's end, and have it flushed.

    `appended` with the new log end is called before anything else is.
    """

    epoch: int
    records: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class AppendFetched:
    """As a follower, append batches with the offsets and epochs that they carry, and have them flushed.

    Their checksums and order have been checked. The log ends at `log_end_offset` with them.
    """

    records: Buffer
    log_end_offset: int


@dataclass(frozen=True, slots=True)
class Truncate:
    """Drop everything from `offset` on; the log may end earlier where a batch straddles the offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class WriteSnapshot:
    """Write a piece of a snapshot that is being fetched, at `position` in its partial file; 0 starts the file again."""

    snapshot: CheckpointId
    position: int
    data: Buffer


@dataclass(frozen=True, slots=True)
class InstallSnapshot:
    """A snapshot has been fetched whole: check every batch of it, make it durable under its name, and have the log
    begin anew, empty, at its end."""

    snapshot: CheckpointId


@dataclass(frozen=True, slots=True)
class LoadSnapshot:
    """An installed snapshot takes the place of everything before its end, all of which is committed."""

    snapshot: CheckpointId


@dataclass(frozen=True, slots=True)
class Call:
    """Send a request; `answered(call, ...)` with the response, or None when there is none after `timeout_ms`.

    Requests to one target are sent in order. The end of a call is reported even if the replica has forgotten it.
    """

    call: int
    target: Target
    request: Message
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer the request that `handle` was given with this token."""

    token: object
    response: Message


@dataclass(frozen=True, slots=True)
class Committed:
    """Everything below `high_watermark` is committed. On a follower it is on its disk as well, and can be read.

    `first` when this leader has just committed the first record of its epoch: it is active from now on.
    """

    high_watermark: int
    first: bool


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """The leader of `epoch` as this replica knows it now; None if it knows of none.

    A leader hears of itself when it begins to lead, before its LeaderChange is committed. If it was the leader and no
    longer is, what it appended and did not commit may be lost.
    """

    leader_id: int | None
    epoch: int


Effect = (
    PersistElection
    | AppendControl
    | AppendFetched
    | Truncate
    | WriteSnapshot
    | InstallSnapshot
    | LoadSnapshot
    | Call
    | Answer
    | Committed
    | LeaderChanged
)
