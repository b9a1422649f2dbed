"""Copy the logs of Kafka 0.7 to 0.10 into a topic, each record exactly once.

DIR is a log directory of the old broker, or the directory of one partition in it; no broker may be writing there. The
format is recognised. Records keep their order, keys and times, and their partition. TOPIC must be empty, or have what
an earlier run of the same import appended; it is created if it does not exist, with retention switched off. An import
that was interrupted, even by kill -9, goes on where it ended when it is run again. Nobody else may write to the topic
until it has ended.

What is damaged is passed over and named, and the exit code is 1.

examples:
  penstock import /var/kafka-0.8-logs clicks --dry-run         what is there, and what of it is damaged
  penstock import /var/kafka-0.8-logs clicks
  penstock import /var/kafka-0.7-logs/clicks-3 clicks          one partition, to partition 3
  penstock import /var/kafka-0.8-logs clicks --offset-map clicks-offsets.csv --verify
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from penstock.cli.common import (
    add_bootstrap,
    add_flag,
    add_json,
    add_option,
    add_pairs,
    with_client,
)
from penstock.cli.output import printable
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.log.legacy import LegacyLog

SUMMARY = "copy the logs of Kafka 0.7 to 0.10 into a topic"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def register(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DIR", help="log directory of the old broker, or one partition's in it")
    parser.add_argument("topic", metavar="TOPIC", help="topic to import into")
    add_option(parser, "--from-topic", "NAME", "the old topic, if DIR has several and none is named TOPIC")
    add_option(parser, "--partition", "N", "where one partition goes (default: to that of the same number)", type=int)
    parser.add_argument(
        "--compression", choices=CODECS, help="compression of the new batches (default: that of the old messages)"
    )
    add_option(parser, "--offset-map", "FILE", "write old and new offsets to FILE, as CSV, for consumers that go on")
    add_flag(parser, "--dry-run", "only read DIR and report; asks no broker")
    add_flag(parser, "--verify", "read the topic afterwards and compare its checksum")
    add_flag(parser, "--allow-retention", "import although the topic's retention may delete records")
    add_option(
        parser, "--replication-factor", "N", "of a topic that is created (default: the broker's)", type=int, default=-1
    )
    add_pairs(parser, "--config", "config of a topic that is created")
    add_json(parser)
    add_bootstrap(parser)


def run(arguments: argparse.Namespace) -> int:
    """Imports; returns the exit code: 1 if something in DIR is damaged."""
    from penstock.cli.import_job import Job, MapFile
    from penstock.cli.import_report import print_report
    from penstock.log.legacy import find_logs
    from penstock.server.disk import BlockingDisk

    if arguments.dry_run and arguments.verify:
        raise UsageError("--dry-run and --verify exclude each other: a dry run asks no broker")
    directory = os.path.realpath(arguments.directory)
    if not os.path.isdir(directory):
        raise UsageError(f"{arguments.directory}: there is no such directory")
    disk = BlockingDisk(0, directory, descriptors_max=OPEN_FILES_MAX, writable=False)
    try:
        try:
            logs = find_logs(disk, own_name(arguments.directory))
        except UsageError as error:
            raise UsageError(f"{arguments.directory}: {error}") from None
        chosen = choose(logs, arguments)
        with MapFile(arguments.offset_map) as offsets:
            job = Job(arguments, disk, chosen, offsets)
            if arguments.dry_run:
                job.read_only()
            else:
                with_client(arguments, job.run)
            offsets.finish([partition for partition, _ in chosen])
        return print_report(arguments, job)
    finally:
        disk.close()


def own_name(directory: str) -> str:
    """The last part of a directory's path: as it is given, since a link may lead to any name, if that is a log's."""
    from penstock.log.names import parse_name

    given = os.path.basename(os.path.abspath(directory))
    return given if parse_name(given) else os.path.basename(os.path.realpath(directory))


Chosen = list[tuple[int, "LegacyLog"]]
"""The logs to import, each with the partition that it goes to."""


def choose(logs: Sequence[LegacyLog], arguments: argparse.Namespace) -> Chosen:
    """Raises UsageError when it is not clear what is meant."""
    topics = sorted({log.topic or "" for log in logs})
    wanted = arguments.from_topic or (arguments.topic if arguments.topic in topics else topics[0])
    if wanted not in topics:
        raise UsageError(f"--from-topic {wanted}: {arguments.directory} has {named(topics)}")
    if len(topics) > 1 and arguments.from_topic is None and arguments.topic not in topics:
        raise UsageError(f"{arguments.directory} has {named(topics)}: which one? --from-topic NAME")
    chosen = [log for log in logs if (log.topic or "") == wanted]
    if faults := [log.fault for log in chosen if log.fault]:
        raise UsageError(f"{arguments.directory}: {faults[0]}")
    last = max(log.partition for log in chosen) if arguments.partition is None else arguments.partition
    if last >= PARTITIONS_MAX:
        raise UsageError(f"{arguments.topic}-{last}: no topic has so many partitions; --partition N says where to")
    if arguments.partition is None:
        if twice := [one for one, other in pairwise(sorted(log.partition for log in chosen)) if one == other]:
            raise UsageError(f"{arguments.directory} has two directories of partition {twice[0]} of {wanted}")
        return [(log.partition, log) for log in chosen]
    if len(chosen) > 1:
        raise UsageError(f"--partition {arguments.partition} is for one partition, and {wanted} has {len(chosen)}")
    if arguments.partition < 0:
        raise UsageError(f"--partition {arguments.partition}: partitions count from 0")
    return [(arguments.partition, chosen[0])]


TOPICS_NAMED_MAX = 10
OPEN_FILES_MAX = 64
"""Of DIR at a time. A log directory may have more files than a process may open, and brokers need connections."""
PARTITIONS_MAX = 2**31 - 1
"""Of a topic: the protocol has 32 bits for their number."""


def named(topics: Sequence[str]) -> str:
    """Topics, the first of many."""
    more = f" and {len(topics) - TOPICS_NAMED_MAX} more" if len(topics) > TOPICS_NAMED_MAX else ""
    return ("topics " if len(topics) > 1 else "topic ") + ", ".join(map(printable, topics[:TOPICS_NAMED_MAX])) + more
