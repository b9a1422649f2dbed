"""What a pass did, or would do: plain data, which a worker sends back and the command line prints."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.log.compaction.passes import Rest


@dataclass(slots=True)
class Counted:
    """Bytes, batches and records, before or after."""

    bytes: int = 0
    batches: int = 0
    records: int = 0


@dataclass(slots=True)
class GroupReport:
    """The segments that become one.

    Attributes:
        base_offsets: of the segments; the new one has the first.
        superseded, removed_tombstones, without_key, aborted, markers: records that go, by reason: a later one has the
            key; a delete marker whose horizon has passed; no key; data of an aborted transaction; a transaction's
            marker of which no data is left.
        kept_tombstones: delete markers that stay for now.
        emptied_batches: batches that stay without records, for their producer or because they are the last.
        rewritten_batches: batches that stay with other bytes than before.
    """

    base_offsets: list[int]
    before: Counted = field(default_factory=Counted)
    after: Counted = field(default_factory=Counted)
    superseded: int = 0
    removed_tombstones: int = 0
    without_key: int = 0
    aborted: int = 0
    markers: int = 0
    kept_tombstones: int = 0
    emptied_batches: int = 0
    rewritten_batches: int = 0

    @property
    def removed(self) -> int:
        return self.before.records - self.after.records


@dataclass(slots=True)
class PassReport:
    """One pass over one log, or a part of it.

    Attributes:
        end_offset: the next pass looks for keys from here on; the map was `map_is_full` if that is not the end of what
            could be cleaned.
        keys: distinct ones that were found between `first_dirty_offset` and `end_offset`.
        groups: of the segments that were cleaned.
        rest: what is left of the pass for its next part; None if this was the last one, or all of it.
        left_alone: base offsets of segments that stay as they are, because their batches cannot be told apart.
        problems: what is damaged, and was kept; the first ones, `problem_count` of them in all.
    """

    name: str
    first_dirty_offset: int
    end_offset: int
    first_uncleanable_offset: int
    keys: int = 0
    map_is_full: bool = False
    groups: list[GroupReport] = field(default_factory=list)
    rest: Rest | None = None
    left_alone: list[int] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    problem_count: int = 0
