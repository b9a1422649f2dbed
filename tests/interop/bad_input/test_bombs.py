"""Small batches that unpack into much: the broker keeps its memory, answers, and serves others all along."""

from __future__ import annotations

import os

import pytest
from interop.clients.drivers import Confluent, Row
from interop.clients.valid_requests import batch, produce_to
from interop.clients.wire import Wire

from penstock.errors import ErrorCode
from penstock.protocol.message import ZERO_UUID
from penstock.protocol.messages.produce_request import PartitionProduceData
from penstock.records.compression import Codec
from penstock.testing.broker import LocalBroker

UNPACKED_BYTES = 300_000_000
"""Zeros in one record: some hundred thousand bytes as gzip or lz4, some ten thousand as zstd."""
GROWTH_MAX_BYTES = 400_000_000
"""What the peak of this process may grow by while the broker, which lives in it, refuses several bombs."""
CODECS = [Codec.GZIP, Codec.LZ4, Codec.ZSTD]


def peak_bytes() -> int:
    """The largest resident size of this process so far since the last reset."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


def reset_peak() -> None:
    with open("/proc/self/clear_refs", "w") as control:
        control.write("5")


@pytest.fixture(scope="module")
def bombs() -> dict[Codec, bytes]:
    zeros = bytes(UNPACKED_BYTES)
    return {codec: batch(zeros, codec=codec) for codec in CODECS}


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="the peak of memory is read from /proc")
@pytest.mark.parametrize("config", [{"compression.type": "snappy"}, {"cleanup.policy": "compact"}], ids=str)
def test_a_bomb_that_the_broker_must_unpack_is_refused(
    penstock_session: LocalBroker, bombs: dict[Codec, bytes], config: dict[str, str]
) -> None:
    name = f"bombs-{next(iter(config)).partition('.')[0]}"
    penstock_session.create_topic(name, configs={**config, "max.message.bytes": "2000000"})
    reset_peak()
    before = peak_bytes()
    rows = [Row(1 + number, b"k", b"v", []) for number in range(10)]
    penstock_session.create_topic(f"{name}-others", configs={"retention.ms": "-1"})
    with Wire(penstock_session.bootstrap) as wire:
        for bomb in bombs.values():
            assert len(bomb) < 2_000_000
            request = produce_to(name, ZERO_UUID, 9, PartitionProduceData(index=0, records=bomb))
            code = wire.ask(request, 9).responses[0].partition_responses[0].error_code
            assert code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)
            Confluent().produce(penstock_session.bootstrap, f"{name}-others", "none", rows)
    assert peak_bytes() - before < GROWTH_MAX_BYTES
    assert Confluent().read(penstock_session.bootstrap, f"{name}-others", 30) == rows * 3
