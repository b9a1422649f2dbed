"""The voters and the kraft.version according to the log: the newest record counts, committed or not (KIP-853).

With kraft.version 0 there are no such records, and the voters are those of `controller.quorum.voters`. A truncation
takes back what the removed records said.
"""

from __future__ import annotations

from bisect import bisect_left

from penstock.protocol.message import Message
from penstock.protocol.messages.kraft_version_record import KRaftVersionRecord
from penstock.protocol.messages.voters_record import VotersRecord
from penstock.raft.voters import VoterSet

NO_VOTERS = VoterSet(())
BOOTSTRAP_OFFSET = -1
"""Stands for the checkpoint that formatting wrote: its voters are not in the log yet."""


class QuorumHistory:
    """Voters and kraft.version by the offsets of their records.

    Attributes:
        static_voters: those of the settings, which count while no record names any.
    """

    def __init__(self, static_voters: VoterSet = NO_VOTERS) -> None:
        self.static_voters = static_voters
        self._voters: list[tuple[int, VoterSet]] = []
        self._versions: list[tuple[int, int]] = []

    @property
    def voters(self) -> VoterSet:
        return self._voters[-1][1] if self._voters else self.static_voters

    @property
    def voters_offset(self) -> int | None:
        """The offset of the record that named them, BOOTSTRAP_OFFSET if formatting did, None if the settings did."""
        return self._voters[-1][0] if self._voters else None

    @property
    def kraft_version(self) -> int:
        return self._versions[-1][1] if self._versions else 0

    def voters_at(self, offset: int) -> VoterSet:
        """The voters according to the records before an offset, for a checkpoint with that end."""
        found = bisect_left([each for each, _ in self._voters], offset)
        return self._voters[found - 1][1] if found else self.static_voters

    def kraft_version_at(self, offset: int) -> int:
        found = bisect_left([each for each, _ in self._versions], offset)
        return self._versions[found - 1][1] if found else 0

    def note(self, offset: int, message: Message) -> None:
        """Handles a control record of the log; other kinds of records say nothing about the quorum."""
        if isinstance(message, VotersRecord):
            self.note_voters(offset, VoterSet.from_record(message))
        elif isinstance(message, KRaftVersionRecord):
            self.note_kraft_version(offset, message.kraft_version)

    def note_voters(self, offset: int, voters: VoterSet) -> None:
        assert not self._voters or offset > self._voters[-1][0], "records come in the order of their offsets"
        self._voters.append((offset, voters))

    def note_kraft_version(self, offset: int, version: int) -> None:
        assert not self._versions or offset > self._versions[-1][0], "records come in the order of their offsets"
        self._versions.append((offset, version))

    def start_at(self, end_offset: int, voters: VoterSet | None, kraft_version: int) -> None:
        """A checkpoint replaces everything before its end; end offset 0 is the one of formatting."""
        self._voters = [] if voters is None else [(end_offset - 1, voters)]
        self._versions = [(end_offset - 1, kraft_version)] if kraft_version else []

    def truncate(self, end_offset: int) -> None:
        """Removes the records from this offset on."""
        while self._voters and self._voters[-1][0] >= end_offset:
            self._voters.pop()
        while self._versions and self._versions[-1][0] >= end_offset:
            self._versions.pop()

    def forget_before(self, offset: int) -> None:
        """Forgets what was before this offset, which no truncation or checkpoint will need."""
        while len(self._voters) > 1 and self._voters[1][0] < offset:
            del self._voters[0]
        while len(self._versions) > 1 and self._versions[1][0] < offset:
            del self._versions[0]
