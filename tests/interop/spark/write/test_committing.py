"""The driver's side of the transactional sink, without Spark: it dies at every step and begins again, and readers see
each key once. Against Penstock, and where Java is there against Apache Kafka, with both transaction versions."""

from __future__ import annotations

import asyncio
import pickle
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from interop.kafka_peer import KafkaPeer
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StringType, StructField, StructType

from penstock.client.admin import Change, ConfigOperation, Resource, ResourceType, alter_configs, describe_configs
from penstock.client.client import EARLIEST, LATEST, READ_COMMITTED, Client
from penstock.client.consumer import read_records
from penstock.client.features import UpgradeType, describe_features, update_features
from penstock.client.transactional import TRANSACTION_VERSION, Transactions
from penstock.client.transactions import describe_transaction
from penstock.errors import ConfigError, PenstockError, UnreachableError
from penstock.records.partitioner import partition_for_key
from penstock.spark.limits import SINK_INLINE_BYTES, SINK_INLINE_TOTAL_BYTES
from penstock.spark.write.committing import Committer, Step
from penstock.spark.write.markers import MARKERS, Marker
from penstock.spark.write.options import parse
from penstock.spark.write.rows import SinkError
from penstock.spark.write.sink import (
    BATCH_PROPERTY,
    QUERY_PROPERTY,
    BatchWriter,
    StreamWriter,
    asked,
    stage,
)
from penstock.spark.write.staged_files import StageWriter
from penstock.spark.write.staging import Staged
from penstock.testing.broker import LocalBroker

JAVA = [pytest.mark.java, pytest.mark.slow]
BROKERS = [
    pytest.param(("penstock", 2), id="penstock-v2"),
    pytest.param(("penstock", 1), id="penstock-v1"),
    pytest.param(("kafka", 2), id="kafka-v2", marks=JAVA),
    pytest.param(("kafka", 1), id="kafka-v1", marks=JAVA),
]
PARTITIONS = 3
ROWS = 4000
QUERY = "a-query"
WALL_MS = 1_700_000_000_000
_numbers = count()


class Died(BaseException):
    """The driver's end: nothing is tidied up."""


@pytest.fixture(scope="module", params=BROKERS)
def broker(request: pytest.FixtureRequest) -> Iterator[LocalBroker | KafkaPeer]:
    """A running broker with this transaction.version."""
    name, level = request.param
    with LocalBroker() if name == "penstock" else KafkaPeer() as broker:
        asyncio.run(set_level(broker.bootstrap, level))
        yield broker


async def set_level(bootstrap: str, level: int) -> None:
    async with Client(bootstrap) as client:
        (now,) = [each.level for each in await describe_features(client, [1]) if each.name == TRANSACTION_VERSION]
        if now != level:
            kind = UpgradeType.UPGRADE if now < level else UpgradeType.SAFE_DOWNGRADE
            await update_features(client, {TRANSACTION_VERSION: (level, kind)})


async def configured(bootstrap: str, topic: str, change: Change) -> None:
    async with Client(bootstrap) as client:
        resource = Resource(ResourceType.TOPIC, topic)
        await alter_configs(client, resource, [change])
        while [each.value for each in await describe_configs(client, resource, [change.name])] != [change.value]:
            await asyncio.sleep(0.02)  # a broker hears of it a moment later


class Sink:
    """A query with a sink, as its driver and its tasks use it."""

    def __init__(self, broker: LocalBroker | KafkaPeer, directory: Path, query: str = QUERY, **more: str) -> None:
        number = next(_numbers)
        self.topic, self.query = more.pop("topic", f"out-{number}"), query
        given = {
            "kafka.bootstrap.servers": broker.bootstrap,
            "topic": self.topic,
            "penstock.exactly.once": "true",
            "penstock.sink.id": more.pop("sink_id", f"sink-{number}"),
            "penstock.staging": str(directory),
            "kafka.batch.size": "2000",
            **more,
        }
        self.options = parse(given)
        assert self.options.exactly_once is not None
        self.sink = self.options.exactly_once
        self.partitions = PARTITIONS

    def stage(self, batch: int, tasks: int = 2, rows: int = ROWS) -> list[Staged]:
        """The rows of a microbatch; each has a key of its own."""
        stages = []
        for task in range(tasks):
            keys = [f"{batch}/{task}/{row}" for row in range(rows // tasks)]
            columns = pa.record_batch({"value": pa.array(keys), "key": pa.array(keys)})
            marker = Marker(self.query, batch)
            stages.append(stage(iter([columns]), self.options, ("value", "key"), self.partitions, marker).staged)
        return stages

    def commit(self, batch: int, stages: list[Staged], reached: Callable[[Step], None] = lambda step: None) -> bool:
        """What Spark has the driver do."""
        committer = Committer(self.options.bootstrap, self.topic, self.sink, wall_ms=lambda: WALL_MS, reached=reached)
        return asyncio.run(committer.commit(Marker(self.query, batch), stages))

    def written(self) -> Counter[bytes]:
        """The keys that read_committed sees, and how often."""
        return Counter(asyncio.run(keys_of(self.options.bootstrap, self.topic)))


async def keys_of(bootstrap: str, topic: str) -> list[bytes]:
    async with Client(bootstrap) as client:
        partitions = [(topic, index) for index in range(PARTITIONS)]
        starts = await client.offsets(partitions, EARLIEST)
        while (ends := await client.offsets(partitions, LATEST)) != await client.offsets(
            partitions, LATEST, isolation=READ_COMMITTED
        ):
            await asyncio.sleep(0.02)  # an end that was decided is written to the partitions a moment later
        found: list[bytes] = []
        seen: dict[int, int] = {}
        reading = read_records(
            client,
            topic,
            {place[1]: at.offset for place, at in starts.items()},
            ends={place[1]: at.offset for place, at in ends.items()},
            isolation=READ_COMMITTED,
        )
        async for partition, record in reading:
            assert record.key is not None
            assert partition == partition_for_key(record.key, PARTITIONS)
            assert record.offset > seen.get(partition, -1)
            seen[partition] = record.offset
            found.append(record.key)
        return found


def staged_files(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


def expected(*batches: int, tasks: int = 2, rows: int = ROWS) -> Counter[bytes]:
    return Counter(
        f"{batch}/{task}/{row}".encode() for batch in batches for task in range(tasks) for row in range(rows // tasks)
    )


@pytest.fixture
def sink(broker: LocalBroker | KafkaPeer, tmp_path: Path) -> Sink:
    """A sink with an empty topic."""
    made = Sink(broker, tmp_path)
    broker.create_topic(made.topic, PARTITIONS)
    return made


def dies_at(step: Step, after: int = 0) -> Callable[[Step], None]:
    """A driver that dies when it reaches a step for the time after so many."""
    left = [after]

    def reached(found: Step) -> None:
        if found is step:
            if not left[0]:
                raise Died
            left[0] -= 1

    return reached


DEATHS = [
    pytest.param(Step.FENCED, 0, id="after fencing"),
    pytest.param(Step.MARKER_READ, 0, id="after reading the marker"),
    pytest.param(Step.BATCH_SENT, 0, id="after the first batch"),
    pytest.param(Step.BATCH_SENT, 9, id="amid the batches"),
    pytest.param(Step.ALL_SENT, 0, id="before the end"),
    pytest.param(Step.ENDED, 0, id="before Spark's own commit"),
]


def test_wherever_the_driver_dies_each_key_is_there_once(sink: Sink) -> None:
    assert sink.commit(0, sink.stage(0))
    for number, (step, after) in enumerate((each.values for each in DEATHS), start=1):
        with pytest.raises(Died):
            sink.commit(number, sink.stage(number), dies_at(step, after))  # type: ignore[arg-type]
        assert sink.commit(number, sink.stage(number)) == (step is not Step.ENDED), step
        assert sink.written() == expected(*range(number + 1)), step
    assert not sink.commit(number, sink.stage(number))
    assert sink.written() == expected(*range(len(DEATHS) + 1))
    assert list(Path(sink.sink.staging).iterdir()) == [], "what is committed is deleted"


def test_a_lost_answer_of_the_end_is_made_good_by_the_marker(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    end = Transactions.end

    async def lost(self: Transactions, *, committed: bool) -> None:
        await end(self, committed=committed)
        raise UnreachableError("the connection was closed")

    stages = sink.stage(0)
    with monkeypatch.context() as patched:
        patched.setattr(Transactions, "end", lost)
        with pytest.raises(UnreachableError):
            sink.commit(0, stages)
    assert not sink.commit(0, sink.stage(0))
    assert sink.written() == expected(0)


def meanwhile(step: Step, what: Callable[[], object]) -> tuple[Callable[[Step], None], list[object]]:
    """Has something else happen when a commit reaches a step; its results."""
    results: list[object] = []

    def reached(found: Step) -> None:
        if found is step and not results:
            with ThreadPoolExecutor(1) as pool:
                results.append(pool.submit(what).result())

    return reached, results


def test_a_driver_that_was_replaced_commits_nothing(sink: Sink) -> None:
    for batch, step in enumerate((Step.FENCED, Step.MARKER_READ, Step.BATCH_SENT, Step.ALL_SENT)):
        stages, others = sink.stage(batch), sink.stage(batch)
        reached, results = meanwhile(step, lambda batch=batch, others=others: sink.commit(batch, others))  # type: ignore[misc]
        if step is Step.FENCED:
            assert not sink.commit(batch, stages, reached), "it sees what the other has written"
        else:
            with pytest.raises(SinkError, match=r"another producer has taken it over|missing"):
                sink.commit(batch, stages, reached)
        assert results == [True], step
        assert sink.written() == expected(*range(batch + 1)), step
        assert not sink.commit(batch, sink.stage(batch)), step


def test_a_driver_that_wakes_up_late_writes_nothing_again(sink: Sink) -> None:
    """It fences the one that replaced it, and learns from the marker that its batch is there."""
    late = sink.stage(0, rows=10)
    assert sink.commit(0, sink.stage(0, rows=10))
    assert not sink.commit(0, late)
    assert sink.commit(1, sink.stage(1, rows=10))
    with pytest.raises(SinkError, match="it is an older copy"):
        sink.commit(0, sink.stage(0, rows=10))
    assert sink.written() == expected(0, 1, rows=10)


def test_other_queries_need_another_name(broker: LocalBroker | KafkaPeer, sink: Sink, tmp_path: Path) -> None:
    """So does the same query after its checkpoint was deleted: it begins again as another one."""
    assert sink.commit(4, sink.stage(4, rows=10))
    names = {"topic": sink.topic, "sink_id": sink.sink.sink_id}
    other = Sink(broker, tmp_path, "another-query", **names)
    with pytest.raises(SinkError, match=r"belongs to another query: batch 4 of query a-query .*replaces = a-query"):
        other.commit(0, other.stage(0, rows=10))
    assert sink.written() == expected(4, rows=10)
    successor = Sink(broker, tmp_path, "another-query", **names, **{"penstock.sink.replaces": "a-query"})
    assert successor.commit(0, successor.stage(0, rows=10))
    assert successor.commit(1, successor.stage(1, rows=10))
    with pytest.raises(SinkError, match="belongs to another query: batch 1 of query another-query"):
        sink.commit(5, sink.stage(5, rows=10))
    assert sink.written() == expected(4, 0, 1, rows=10)


def test_the_open_transaction_of_another_sink_hides_no_marker(
    broker: LocalBroker | KafkaPeer, sink: Sink, tmp_path: Path
) -> None:
    other = Sink(broker, tmp_path)
    broker.create_topic(other.topic, PARTITIONS)
    with pytest.raises(Died):
        other.commit(0, other.stage(0, rows=10), dies_at(Step.ALL_SENT))
    assert sink.commit(0, sink.stage(0, rows=10)), "beyond the last stable offset"
    assert not sink.commit(0, sink.stage(0, rows=10))
    assert sink.written() == expected(0, rows=10)
    assert other.commit(0, other.stage(0, rows=10))
    assert other.written() == expected(0, rows=10)


def test_a_stage_that_is_gone_or_damaged_is_named_and_nothing_is_committed(sink: Sink) -> None:
    stages = sink.stage(0, rows=40_000)
    path = Path(stages[1].path or "")
    content = path.read_bytes()
    middle = stages[1].batches[len(stages[1].batches) // 2]
    broken = bytearray(content)
    broken[middle.position + 70] ^= 1
    damages = {
        "is missing: the directory of penstock.staging": None,
        f"is damaged at byte {middle.position}": bytes(broken),
        f"is damaged at byte {stages[1].batches[-1].position}": content[:-1],
    }
    for message, damaged in damages.items():
        path.unlink() if damaged is None else path.write_bytes(damaged)
        with pytest.raises(SinkError, match=message) as raised:
            sink.commit(0, stages)
        assert str(path) in str(raised.value)
        assert sink.written() == Counter()
    path.write_bytes(content)
    assert sink.commit(0, stages)
    assert sink.written() == expected(0, rows=40_000)


def test_a_batch_that_the_topic_does_not_take_is_refused_with_what_to_do(
    broker: LocalBroker | KafkaPeer, tmp_path: Path
) -> None:
    sink = Sink(broker, tmp_path)
    broker.create_topic(sink.topic, PARTITIONS)
    change = Change("max.message.bytes", ConfigOperation.SET, "500")
    asyncio.run(configured(broker.bootstrap, sink.topic, change))
    with pytest.raises(SinkError, match=r"larger than the topic's max\.message\.bytes .* lower kafka\.batch\.size"):
        sink.commit(0, sink.stage(0))
    assert sink.written() == Counter()


def test_what_has_no_rows_asks_no_broker(tmp_path: Path) -> None:
    class Nowhere:
        bootstrap = "127.0.0.1:1"

    sink = Sink(Nowhere(), tmp_path)  # type: ignore[arg-type]
    assert not sink.commit(0, sink.stage(0, rows=0))


def test_the_markers_must_be_kept(broker: LocalBroker | KafkaPeer, sink: Sink) -> None:
    def policy(value: str) -> None:
        asyncio.run(configured(broker.bootstrap, MARKERS, Change("cleanup.policy", ConfigOperation.SET, value)))

    assert sink.commit(0, sink.stage(0, rows=10))
    policy("delete")
    other = Sink(broker, Path(sink.sink.staging), topic=sink.topic)
    with pytest.raises(SinkError, match=r"must have cleanup\.policy=compact, it has delete"):
        other.commit(1, other.stage(1, rows=10))
    policy("compact")
    assert other.commit(1, other.stage(1, rows=10))
    assert sink.written() == expected(0, 1, rows=10)


def test_a_topic_is_asked_how_many_partitions_it_has(sink: Sink, broker: LocalBroker | KafkaPeer) -> None:
    assert asked(sink.options).partitions == PARTITIONS
    missing = Sink(broker, Path(sink.sink.staging), topic="nowhere").options
    with pytest.raises(SinkError, match=r"there is no topic nowhere at .*`penstock topics create`"):
        asked(missing)


def test_a_microbatch_longer_than_the_timeout_is_not_committed(tmp_path: Path) -> None:
    quick = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "20"}
    with LocalBroker(quick) as broker:
        sink = Sink(broker, tmp_path, **{"kafka.transaction.timeout.ms": "300"})
        broker.create_topic(sink.topic, PARTITIONS)

        async def until_aborted() -> None:
            async with Client(broker.bootstrap) as client:
                while (await describe_transaction(client, sink.sink.transactional_id)).state == "Ongoing":
                    await asyncio.sleep(0.01)

        reached, _ = meanwhile(Step.ALL_SENT, lambda: asyncio.run(until_aborted()))
        with pytest.raises(SinkError, match=r"longer than kafka\.transaction\.timeout\.ms = 300, raise it"):
            sink.commit(0, sink.stage(0), reached)
        assert sink.written() == Counter()
        patient = Sink(broker, tmp_path, topic=sink.topic, sink_id=sink.sink.sink_id)
        assert patient.commit(0, patient.stage(0))
        assert sink.written() == expected(0)
        hasty = Sink(broker, tmp_path, topic=sink.topic, **{"kafka.transaction.timeout.ms": str(2**31 - 1)})
        with pytest.raises(PenstockError, match=r"not above the brokers' transaction\.max\.timeout\.ms"):
            hasty.commit(0, hasty.stage(0))


def test_what_spark_calls_stages_in_tasks_and_commits_in_the_driver(
    broker: LocalBroker | KafkaPeer, sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writers as Spark uses them: pickled to the tasks, made anew for the commit; microbatches and writes."""
    given = {
        "kafka.bootstrap.servers": broker.bootstrap,
        "topic": sink.topic,
        "penstock.exactly.once": "true",
        "penstock.staging": sink.sink.staging,
        "penstock.sink.id": sink.sink.sink_id,
        "kafka.compression.type": "none",
    }
    schema = StructType([StructField("key", StringType()), StructField("value", StringType())])
    rows = pa.record_batch({"key": pa.array(["0/0/0", "0/0/1"]), "value": pa.array(["a", "b" * 100_000])})
    stream = StreamWriter(schema, given)
    monkeypatch.setattr(TaskContext, "_taskContext", None)  # a new one takes this place by itself
    with pytest.raises(SinkError, match="Spark does not say which microbatch"):
        stream.write(iter([rows]))
    context = TaskContext()
    context._localProperties = {QUERY_PROPERTY: QUERY, BATCH_PROPERTY: "7"}
    context._partitionId = 1
    monkeypatch.setattr(TaskContext, "_taskContext", context)
    task = pickle.loads(pickle.dumps(stream))
    lost, message = (pickle.loads(pickle.dumps(task.write(iter([rows])))) for _ in range(2))
    assert not sink.written(), "no task writes to a broker"
    with pytest.raises(SinkError, match="have staged batch 7 of query a-query, and batch 8 is to be committed"):
        StreamWriter(schema, given).commit([message], 8)
    for _ in range(2):
        StreamWriter(schema, given).commit([message, None], 7)
    assert sink.written() == expected(0, tasks=1, rows=2)
    assert not Path(lost.staged.path).exists(), "a repeated task's file goes with the batch"
    stream.abort([lost], 8)

    write = BatchWriter(schema, {**given, "penstock.sink.id": "a-write", "penstock.write.id": "monday"}, False)
    for _ in range(2):
        written = pickle.loads(pickle.dumps(write))
        written.commit([written.write(iter([rows]))])
    assert sink.written() == expected(0, tasks=1, rows=2) + expected(0, tasks=1, rows=2)
    assert staged_files(Path(sink.sink.staging)) == []
    with pytest.raises(ConfigError, match="a stream has its query's id"):
        StreamWriter(schema, {**given, "penstock.write.id": "monday"})


ROWS_SCHEMA = StructType([StructField("key", StringType()), StructField("value", StringType())])


class Writes:
    """Writes to one sink, as Spark's driver makes them."""

    def __init__(self, broker: LocalBroker | KafkaPeer, sink: Sink) -> None:
        self._given = {
            "kafka.bootstrap.servers": broker.bootstrap,
            "topic": sink.topic,
            "penstock.exactly.once": "true",
            "penstock.staging": sink.sink.staging,
            "kafka.compression.type": "none",
            "penstock.sink.id": sink.sink.sink_id,
        }

    def begin(self, **more: str) -> BatchWriter:
        return BatchWriter(ROWS_SCHEMA, {**self._given, **more}, False)

    @staticmethod
    def stage(write: BatchWriter, key: str) -> list[WriterCommitMessage | None]:
        """The messages of its only task, whose rows are in a file."""
        rows = pa.record_batch({"key": pa.array([key]), "value": pa.array(["b" * 100_000])})
        return [write.write(iter([rows]))]


def test_what_a_killed_write_has_staged_goes_with_the_next_commit_and_what_runs_stays(
    broker: LocalBroker | KafkaPeer, sink: Sink
) -> None:
    directory = Path(sink.sink.staging)
    writes, elsewhere = Writes(broker, sink), Writes(broker, Sink(broker, directory, topic=sink.topic))
    killed = writes.begin()
    lost = writes.stage(killed, "killed")
    running = elsewhere.begin()
    others = elsewhere.stage(running, "of another sink")
    second = writes.begin()
    seconds = writes.stage(second, "second")
    assert len(staged_files(directory)) == 3

    third = writes.begin()
    second.commit(seconds)
    assert sink.written() == Counter([b"second"])
    assert len(staged_files(directory)) == 1, "what the killed write had staged is gone; the other sink's is not"
    with pytest.raises(SinkError, match=r"has been committed to sink .* while this one ran"):
        killed.commit(lost)
    thirds = writes.stage(third, "third")
    with pytest.raises(SinkError, match="while this one ran"):
        third.commit(thirds)
    third.abort(thirds)
    running.commit(others)
    fourth = writes.begin()
    fourth.commit(writes.stage(fourth, "fourth"))
    assert sink.written() == Counter([b"second", b"of another sink", b"fourth"])
    assert staged_files(directory) == []


def test_what_is_staged_after_a_commit_has_begun_to_end_stays(
    broker: LocalBroker | KafkaPeer, sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that begins the moment the one before is committed, before that one deletes anything."""
    writes, begun, end = Writes(broker, sink), [], Transactions.end

    async def and_the_next_begins(self: Transactions, *, committed: bool) -> None:
        await end(self, committed=committed)
        with ThreadPoolExecutor(1) as pool:
            successor = pool.submit(writes.begin).result()
        begun.append((successor, writes.stage(successor, "next")))

    first = writes.begin()
    messages = writes.stage(first, "first")
    with monkeypatch.context() as patched:
        patched.setattr(Transactions, "end", and_the_next_begins)
        first.commit(messages)
    ((successor, staged),) = begun
    successor.commit(staged)
    assert sink.written() == Counter([b"first", b"next"])


def test_a_stream_clears_what_other_queries_of_its_sink_have_left(broker: LocalBroker | KafkaPeer, sink: Sink) -> None:
    directory = Path(sink.sink.staging)
    names = {"topic": sink.topic, "sink_id": sink.sink.sink_id}
    deleted = Sink(broker, directory, "a-query-whose-checkpoint-was-deleted", **names)
    deleted.stage(0, rows=40_000)
    ahead = sink.stage(2, rows=40_000)
    assert sink.commit(1, sink.stage(1, rows=10))
    assert sorted(map(str, staged_files(directory))) == sorted(each.path for each in ahead if each.path)
    assert sink.commit(2, ahead)
    assert staged_files(directory) == []


def test_a_commit_waits_for_brokers_as_long_as_max_block_ms_says(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:

        class Silent:
            bootstrap = f"127.0.0.1:{silent.getsockname()[1]}"

        sink = Sink(Silent(), tmp_path, **{"kafka.max.block.ms": "300"})  # type: ignore[arg-type]

        async def commit() -> None:
            committer = Committer(Silent.bootstrap, sink.topic, sink.sink, wall_ms=lambda: WALL_MS)
            async with asyncio.timeout(10):
                await committer.commit(Marker(QUERY, 0), sink.stage(0, rows=10))

        with pytest.raises(UnreachableError, match="accepts connections and did not answer"):
            asyncio.run(commit())


def test_what_tasks_stage_has_limits(
    broker: LocalBroker | KafkaPeer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = StageWriter(str(tmp_path), QUERY, 0, SINK_INLINE_TOTAL_BYTES // SINK_INLINE_BYTES - 1)
    writer.write(b"x" * SINK_INLINE_BYTES)
    assert len(writer.finish(()).content) == SINK_INLINE_BYTES
    beyond = StageWriter(str(tmp_path), QUERY, 0, SINK_INLINE_TOTAL_BYTES // SINK_INLINE_BYTES)
    assert beyond.finish(()).path is None, "no rows, no file"
    beyond.write(b"x")
    assert beyond.finish(()).path is not None
    monkeypatch.setattr("penstock.spark.write.staged_files.SINK_STAGED_BYTES", 1 << 20)
    sink = Sink(broker, tmp_path / "full", **{"kafka.compression.type": "none"})
    with pytest.raises(SinkError, match=r"more than 1 MiB to stage: .*repartition.*maxBytesPerTrigger"):
        sink.stage(0, rows=100_000)
    assert staged_files(tmp_path / "full") == []
