"""A small coordinator for tests of the runtime: it keeps one number for each name."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, ClassVar

from unit.coordinator.fake_log import FakeLog

from penstock.coordinator.runtime.result import CoordinatorRecord, Result
from penstock.coordinator.runtime.runtime import Runtime
from penstock.coordinator.runtime.shard import Shard, Stored
from penstock.coordinator.runtime.timers import ShardTimers
from penstock.coordinator.runtime.transactions import Transaction, TransactionEnd
from penstock.errors import ErrorCode
from penstock.metadata.timeline import Timeline, TimelineMap
from penstock.protocol.messages.group.offset_commit_key import OffsetCommitKey
from penstock.protocol.messages.group.offset_commit_value import OffsetCommitValue

P = 7
"""The partition."""


class Counters:
    """The machine. A name `broken` makes its replay fail, as a bug would; so does a marker of producer `broken_id`.
    `replayed`: all that was, in order. `ended`: producers whose transaction has ended, and whether it has committed.
    """

    broken_id = 13

    last_wins: ClassVar[frozenset[int]] = frozenset({OffsetCommitKey.KEY})

    def __init__(self, timers: ShardTimers) -> None:
        self.timers = timers
        self.timeline = Timeline()
        self.numbers: TimelineMap[str, int] = TimelineMap(self.timeline)
        self.producers: list[tuple[int, int]] = []
        self.markers: list[tuple[tuple[int, int], bool]] = []
        self.ended: TimelineMap[int, bool] = TimelineMap(self.timeline)
        self.told: list[str] = []
        self.replayed: list[tuple[str, int | None]] = []
        self.expires: Callable[[Hashable], Result[Any]] = lambda key: Result()

    def replay(self, record: CoordinatorRecord, offset: int, producer: tuple[int, int]) -> None:
        assert isinstance(record.key, OffsetCommitKey)
        if record.key.group == "broken":
            raise ZeroDivisionError
        self.producers.append(producer)
        self.replayed.append((record.key.group, record.value and record.value.offset))  # type: ignore[attr-defined]
        if record.value is None:
            self.numbers.pop(record.key.group)
        else:
            assert isinstance(record.value, OffsetCommitValue)
            self.numbers[record.key.group] = record.value.offset

    def replay_stored(self, records: Sequence[Stored]) -> int:
        return 0

    def replay_end_marker(self, producer: tuple[int, int], committed: bool, offset: int) -> None:
        if producer[0] == self.broken_id:
            raise ZeroDivisionError
        self.markers.append((producer, committed))
        self.ended[producer[0]] = committed

    def loaded(self, now_ms: int) -> None:
        self.told.append("loaded")

    def unloaded(self, now_ms: int) -> None:
        self.told.append("unloaded")
        self.timers.set("set when unloaded", now_ms)

    def expired(self, key: Hashable, now_ms: int) -> Result[Any]:
        self.told.append(f"expired {key}")
        return self.expires(key)


def number(name: str, value: int | None) -> CoordinatorRecord:
    """The record that gives a name a number."""
    key = OffsetCommitKey(group=name)
    return CoordinatorRecord(key) if value is None else CoordinatorRecord(key, OffsetCommitValue(offset=value), 3)


class Desk:
    """A runtime over one log, whose turns end when the test says so."""

    def __init__(self, *, linger_ms: int = 0, load: bool = True, log: FakeLog | None = None) -> None:
        self.now_ms = 1_000
        self.log = log or FakeLog()
        self.work: list[Iterator[None]] = []
        self.bugs: list[Exception] = []
        self.answers: list[Any] = []
        self.runtime: Runtime[Counters] = Runtime(
            "__counters",
            "group",
            lambda index, timers: Counters(timers),
            do=self.work.append,
            now=lambda: self.now_ms,
            write_timeout_ms=500,
            linger_ms=linger_ms,
            bug=lambda what, error: self.bugs.append(error),
        )
        if load:
            self.elect()

    @property
    def shard(self) -> Shard[Counters]:
        return self.runtime.shards[P]

    @property
    def machine(self) -> Counters:
        return self.shard.machine

    def elect(self) -> None:
        self.runtime.elected(P, self.log, self.now_ms)
        self.load()

    def load(self) -> None:
        """Steps through all loading."""
        while self.work or self.log.give_reads(self.now_ms):
            while self.work:
                for _ in self.work.pop(0):
                    pass

    def put(self, name: str, value: int, **result: Any) -> None:
        """Writes a number; the answer is its name."""
        self.write(Result(name, [number(name, value)], **result))

    def write(self, result: Result[Any]) -> None:
        """Writes a result; what it is answered goes to `answers`: the response, or the code."""
        self.runtime.write(P, lambda machine: result, self.done, self.now_ms)

    def put_in_transaction(self, name: str, value: int, *, producer_id: int = 5, epoch: int = 0) -> None:
        """Writes a number as part of a producer's transaction, which has been verified."""
        transaction = Transaction(producer_id, epoch, self.runtime.guard(P, producer_id, epoch, self.now_ms))
        result = Result(name, [number(name, value)])
        self.runtime.write(P, lambda machine: result, self.done, self.now_ms, transaction=transaction)

    def end(self, *, commit: bool = True, producer_id: int = 5, epoch: int = 0, version: int = 0) -> None:
        """Ends a producer's transaction; the answer is what ended it."""
        end = TransactionEnd(producer_id, epoch, commit, 0, version)
        self.runtime.end_transaction(P, end, self.done, self.now_ms)

    def done(self, response: Any, code: ErrorCode, message: str, now_ms: int) -> None:
        self.answers.append(code or response)

    def flush(self) -> None:
        self.runtime.flush(self.now_ms)

    def commit(self, offset: int | None = None) -> None:
        self.log.commit(self.now_ms, offset)

    def numbers(self) -> dict[str, int]:
        """The state, all that is replayed."""
        return dict(self.machine.numbers.items())

    def committed(self) -> dict[str, int]:
        """The state as readers see it."""
        return self.runtime.read(P, lambda machine, at: dict(machine.numbers.items(at=at)))
