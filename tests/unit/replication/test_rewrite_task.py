"""Validation of a batch by a worker comes to the same as in the lane."""

from __future__ import annotations

import pytest

from penstock.errors import ErrorCode, PenstockError, RequestError
from penstock.records.batch import read_header
from penstock.records.builder import BatchBuilder
from penstock.records.compression import Codec
from penstock.records.validation import BatchRejectedError, Rules
from penstock.replication import rewrite as rewrite_module
from penstock.replication.limits import DEEP_VALIDATION_WORKER_MIN_RECORDS
from penstock.replication.rewrite import Rewrite, RewriteOperation, Rewritten
from penstock.server.worker_messages import LENGTH, Done, Order, decode, encode
from simulator.world.disk import SimulatedDisk

NOW_MS = 1_700_000_000_000
DISK = SimulatedDisk()


@pytest.fixture(autouse=True)
def few_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewrite_module, "DEEP_VALIDATION_WORKER_MIN_RECORDS", 3)


def batch(*, codec: Codec = Codec.NONE, keys: bool = True, count: int = 3) -> bytearray:
    """Records, one of them without a key if `keys` is not set."""
    builder = BatchBuilder(codec=codec)
    for number in range(count):
        builder.append(NOW_MS + number, b"key" if keys or number != 1 else None, b"value" * 10)
    return builder.build()


def operation(
    records: bytearray, *, codec: Codec = Codec.NONE, deep: bool = True, rules: Rules | None = None
) -> RewriteOperation:
    view = memoryview(bytearray(records))
    rewrite = Rewrite(view, read_header(view), rules or Rules(compacted=True), codec=codec, level=None, deep=deep)
    return RewriteOperation(rewrite, 0, "order", None, NOW_MS)  # type: ignore[arg-type]


def by_a_worker(operation: RewriteOperation) -> object:
    """As the lane and a worker do it, with what they say to each other."""
    task = operation.task(DISK)
    assert task is not None
    order = decode(encode(Order("logs", task))[LENGTH.size :])
    assert isinstance(order, Order)
    done = decode(encode(Done(order.task.run(DISK)))[LENGTH.size :])
    assert isinstance(done, Done)
    assert isinstance(done.report, Rewritten)
    return operation.finish(DISK, done.report)


@pytest.mark.parametrize("produced", list(Codec))
@pytest.mark.parametrize("kept", [Codec.NONE, Codec.GZIP, Codec.ZSTD])
def test_a_good_batch_is_the_same(produced: Codec, kept: Codec) -> None:
    records = batch(codec=produced)
    expected = operation(records, codec=kept).run(DISK)
    found = by_a_worker(operation(records, codec=kept))
    assert not isinstance(expected, PenstockError)
    assert isinstance(found, (bytearray, memoryview))
    assert bytes(found) == bytes(expected)
    assert read_header(found).compression is kept


def test_a_header_that_is_put_right_is_put_right_in_the_batch_that_was_received() -> None:
    records = BatchBuilder()
    for timestamp_ms in (NOW_MS, NOW_MS + 5, NOW_MS + 3):
        records.append(timestamp_ms, b"key", b"value")
    wrong = memoryview(records.build())
    rewrite_module.set_max_timestamp(wrong, 0, read_header(wrong).timestamp_type, NOW_MS + 7)
    received = operation(bytearray(wrong))
    found = by_a_worker(received)
    assert found is received.rewrite.records
    assert read_header(received.rewrite.records).max_timestamp_ms == NOW_MS + 5


@pytest.mark.parametrize("fault", ["a key is missing", "cut within", "too large when recompressed"])
def test_a_batch_that_is_refused_is_refused_with_the_same_words(fault: str) -> None:
    rules = Rules(compacted=True)
    records = batch(keys=fault != "a key is missing", codec=Codec.GZIP)
    if fault == "cut within":
        records[-5:] = bytes(5)
    if fault == "too large when recompressed":
        rules = Rules(max_message_bytes=len(records))
    expected = operation(records, rules=rules).run(DISK)
    found = by_a_worker(operation(records, rules=rules))
    assert isinstance(expected, PenstockError)
    assert isinstance(found, BatchRejectedError)
    assert (found.code, str(found)) == (expected.code, str(expected))
    assert found.record_errors == (expected.record_errors if isinstance(expected, BatchRejectedError) else ())
    assert bool(found.record_errors) == (fault == "a key is missing")


def test_few_records_and_recompression_alone_are_not_for_a_worker() -> None:
    assert operation(batch(count=2)).task(DISK) is None
    assert operation(batch(), codec=Codec.ZSTD, deep=False).task(DISK) is None
    assert operation(batch()).task(DISK) is not None
    assert DEEP_VALIDATION_WORKER_MIN_RECORDS > 3


def test_a_batch_that_workers_fail_on_is_refused_so_that_it_may_be_sent_again() -> None:
    found = operation(batch()).without_report(DISK, "killed")
    assert isinstance(found, RequestError)
    assert found.code is ErrorCode.REQUEST_TIMED_OUT
    assert str(found) == "killed"
