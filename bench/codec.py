"""What encoding and decoding cost, beside kio in the same run.

    python bench/codec.py [--rounds N]

Prints microseconds a message (best of N rounds), the ratio ours / kio, and the ratio of the reference prototype. Ratios
more than 1.5 times the reference are named at the end; the exit status says whether there are any.
"""

from __future__ import annotations

import argparse
import io
import sys
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

import codec_peers

from penstock.protocol import codec, schema
from penstock.protocol.api import APIS
from penstock.protocol.message import Message
from penstock.protocol.messages import (
    api_versions_response,
    fetch_request,
    fetch_response,
    metadata_response,
    offset_commit_request,
    produce_request,
    produce_response,
)

ALLOWED = 1.5
KIB = 1024


def api_versions() -> Message:
    keys = [
        api_versions_response.ApiVersion(api_key=api.key, min_version=api.min_version, max_version=api.max_version)
        for api in APIS.values()
    ]
    return api_versions_response.ApiVersionsResponse(api_keys=keys)


def metadata() -> Message:
    brokers = [
        metadata_response.MetadataResponseBroker(node_id=node, host=f"broker-{node}.example.org", port=9092, rack="a")
        for node in range(3)
    ]
    topics = [
        metadata_response.MetadataResponseTopic(
            name=f"topic-{topic}",
            topic_id=UUID(int=topic + 1),
            partitions=[
                metadata_response.MetadataResponsePartition(
                    partition_index=index,
                    leader_id=index % 3,
                    leader_epoch=5,
                    replica_nodes=[0, 1, 2],
                    isr_nodes=[0, 1, 2],
                )
                for index in range(10)
            ],
        )
        for topic in range(10)
    ]
    return metadata_response.MetadataResponse(brokers=brokers, cluster_id="c" * 22, controller_id=1, topics=topics)


def produce() -> Message:
    data = memoryview(bytes(16 * KIB))
    partitions = [produce_request.PartitionProduceData(index=index, records=data) for index in range(10)]
    topics = [produce_request.TopicProduceData(name="clicks", partition_data=partitions)]
    return produce_request.ProduceRequest(acks=1, timeout_ms=30_000, topic_data=topics)


def produced() -> Message:
    partitions = [
        produce_response.PartitionProduceResponse(index=index, base_offset=12345, log_start_offset=0)
        for index in range(10)
    ]
    return produce_response.ProduceResponse(
        responses=[produce_response.TopicProduceResponse(name="clicks", partition_responses=partitions)]
    )


def fetch() -> Message:
    partitions = [
        fetch_request.FetchPartition(partition=index, fetch_offset=12345, partition_max_bytes=KIB * KIB)
        for index in range(10)
    ]
    return fetch_request.FetchRequest(
        max_wait_ms=500, min_bytes=1, topics=[fetch_request.FetchTopic(topic="clicks", partitions=partitions)]
    )


def fetched() -> Message:
    data = memoryview(bytes(KIB * KIB))
    partitions = [
        fetch_response.PartitionData(
            partition_index=index, high_watermark=12345, last_stable_offset=12345, log_start_offset=0, records=data
        )
        for index in range(10)
    ]
    return fetch_response.FetchResponse(
        responses=[fetch_response.FetchableTopicResponse(topic="clicks", partitions=partitions)]
    )


def offset_commit() -> Message:
    partitions = [
        offset_commit_request.OffsetCommitRequestPartition(
            partition_index=index, committed_offset=12345, committed_metadata=""
        )
        for index in range(10)
    ]
    return offset_commit_request.OffsetCommitRequest(
        group_id="feeds",
        generation_id_or_member_epoch=3,
        member_id="member-1",
        topics=[offset_commit_request.OffsetCommitRequestTopic(name="clicks", partitions=partitions)],
    )


CASES: list[tuple[str, Callable[[], Message], int, float, float]] = [
    ("ApiVersions response", api_versions, 3, 8.0 / 135, 16 / 6.4),
    ("Metadata response, 10 x 10", metadata, 12, 98 / 682, 129 / 40),
    ("Produce request, 10 x 16 KiB", produce, 9, 7.6 / 43, 7.4 / 5.4),
    ("Produce response", produced, 9, 3.0 / 54, 6.2 / 2.4),
    ("Fetch request", fetch, 12, 2.4 / 40, 4.6 / 2.4),
    ("Fetch response, 10 x 1 MiB", fetched, 12, 26 / 534, 13 / 398),
    ("OffsetCommit request", offset_commit, 8, 2.7 / 44, 5.4 / 1.8),
]
"""Name, message, version, and the reference's ratios of encoding and decoding."""


def best_us(function: Callable[[], Any], rounds: int) -> float:
    """Microseconds of one call, the best of several rounds."""
    timer = timeit.Timer(function)
    number, _ = timer.autorange()
    number = max(1, number // 10)
    return min(timer.repeat(rounds, number)) / number * 1e6


def measure(message: Message, version: int, rounds: int) -> tuple[float, float, float, float]:
    """Microseconds: kio encodes, kio decodes, we encode, we decode."""
    kio_class = codec_peers.kio_class(message.NAME, version)
    theirs = codec_peers.to_kio(message, schema.message(message.NAME).root, kio_class, version)
    write, read = codec_peers.kio_writer(kio_class), codec_peers.kio_reader(kio_class)
    data = codec.encode_bytes(message, version)
    assert data == codec_peers.kio_bytes(message, version), f"{message.NAME} differs from kio"
    view = memoryview(data)
    return (
        best_us(lambda: write(io.BytesIO(), theirs), rounds),
        best_us(lambda: read(data, 0), rounds),
        best_us(lambda: codec.encode(message, version), rounds),
        best_us(lambda: codec.decode(type(message), version, view), rounds),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Cost of encoding and decoding, beside kio.")
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    columns = f"{'ours':>8} {'ratio':>7} {'ref':>6}"
    print(f"{'microseconds':32} {'kio enc':>8} {columns}   {'kio dec':>8} {columns}")
    slow = []
    for name, make, version, reference_encode, reference_decode in CASES:
        kio_encode, kio_decode, encode, decode = measure(make(), version, rounds)
        ratios = (encode / kio_encode, decode / kio_decode)
        print(
            f"{name + f' v{version}':32} {kio_encode:8.1f} {encode:8.2f} {ratios[0]:7.3f} {reference_encode:6.3f}   "
            f"{kio_decode:8.1f} {decode:8.2f} {ratios[1]:7.3f} {reference_decode:6.3f}"
        )
        for direction, ratio, reference in zip(
            ("encode", "decode"), ratios, (reference_encode, reference_decode), strict=True
        ):
            if ratio > ALLOWED * reference:
                slow.append(f"{name} {direction}: {ratio / reference:.2f} times the reference")
    print("\n".join(slow) or f"all within {ALLOWED} times the reference")
    sys.exit(bool(slow))


if __name__ == "__main__":
    main()
