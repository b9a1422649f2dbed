"""Old message formats: Kafka's own classes, which still know them, read what we read, and we read what they write."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Consumer, TopicPartition
from interop.kafka_peer import KafkaPeer, run_java_source
from support.legacy import GZIP, LZ4, NONE, SNAPPY, Kept, message_set, write_log
from support.processes import PENSTOCK, TIMEOUT_S, wait_until

from penstock.log.legacy import LegacyRecords, find_logs
from penstock.server.disk import BlockingDisk

pytestmark = pytest.mark.java

READ_AND_WRITE = """
import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.Scanner;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.common.record.internal.Record;

public class ReadAndWriteOldMessages {
    static final HexFormat HEX = HexFormat.of();

    static String hex(ByteBuffer buffer) {
        if (buffer == null) return "null";
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return "x" + HEX.formatHex(bytes);
    }

    static byte[] bytes(String text) { return text.equals("null") ? null : HEX.parseHex(text.substring(1)); }

    public static void main(String[] arguments) {
        Scanner lines = new Scanner(System.in);
        StringBuilder out = new StringBuilder();
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split(" ");
            if (words[0].equals("read"))
                out.append(read(MemoryRecords.readableRecords(ByteBuffer.wrap(HEX.parseHex(words[1])))));
            else
                out.append(write(words));
            out.append("\\n");
        }
        System.out.print(out);
    }

    static String read(MemoryRecords run) {
        StringBuilder out = new StringBuilder();
        for (RecordBatch batch : run.batches()) {
            batch.ensureValid();
            for (Record record : batch)
                out.append(record.offset()).append(' ').append(record.timestamp()).append(' ')
                    .append(hex(record.key())).append(' ').append(hex(record.value())).append(';');
        }
        return out.toString();
    }

    static String write(String[] words) {
        byte magic = Byte.parseByte(words[1]);
        TimestampType type = magic == 0 ? TimestampType.NO_TIMESTAMP_TYPE : TimestampType.forName(words[3]);
        long offset = Long.parseLong(words[4]);
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1 << 16), magic,
            Compression.of(words[2]).build(), type, offset, 1234567890123L);
        for (int at = 5; at < words.length; at += 3)
            builder.appendWithOffset(
                offset++, Long.parseLong(words[at]), bytes(words[at + 1]), bytes(words[at + 2]));
        return hex(builder.build().buffer());
    }
}
"""
NAMES = {NONE: "none", GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4"}
SETS = 150
T = 1_400_000_000_000


def hexadecimal(data: bytes | None) -> str:
    return "null" if data is None else "x" + data.hex()


def some(random: Random, first: int, magic: int) -> list[Kept]:
    def data(bytes_max: int) -> bytes | None:
        return None if random.random() < 0.2 else random.randbytes(random.randrange(bytes_max)) * random.choice([1, 50])

    return [
        Kept(first + n, random.randrange(2**41) if magic else -1, data(10), data(40))
        for n in range(random.randrange(1, 12))
    ]


@cache
def cases() -> list[tuple[int, int, str, list[Kept]]]:
    """Magic, codec, timestamp type and records."""
    random = Random(15)
    found = []
    for _ in range(SETS):
        magic, codec = random.randrange(2), random.choice(list(NAMES))
        kind = random.choice(["CreateTime", "LogAppendTime"])
        found.append((magic, codec, kind, some(random, random.randrange(10**9), magic)))
    return found


def ours(directory: Path, base: int, data: bytes) -> list[Kept]:
    """What we read from a file."""
    log = write_log(directory, [(base, data)])
    disk = BlockingDisk(0, str(log), writable=False)
    try:
        source = LegacyRecords(disk, find_logs(disk, log.name)[0])
        found = [Kept(*record[:4]) for record in source]
        assert source.report.is_clean
        return found
    finally:
        disk.close()


def ask(lines: list[str]) -> list[str]:
    answers = run_java_source(READ_AND_WRITE, stdin="".join(f"{line}\n" for line in lines)).stdout.split("\n")[:-1]
    assert len(answers) == len(lines)
    return answers


def test_what_kafka_writes_in_the_old_formats_is_read(tmp_path: Path) -> None:
    lines = []
    for magic, codec, kind, records in cases():
        words = [str(magic), NAMES[codec], kind, str(records[0].offset)]
        words += [f"{each.timestamp_ms} {hexadecimal(each.key)} {hexadecimal(each.value)}" for each in records]
        lines.append(" ".join(["write", *words]))
    append_time = 1234567890123
    for number, ((magic, _, kind, records), answer) in enumerate(zip(cases(), ask(lines), strict=True)):
        stamped = magic == 1 and kind == "LogAppendTime"
        expected = [each._replace(timestamp_ms=append_time) for each in records] if stamped else records
        assert ours(tmp_path / f"clicks-{number}", records[0].offset, bytes.fromhex(answer[1:])) == expected


def test_what_clients_wrote_kafka_reads_as_we_do(tmp_path: Path) -> None:
    sets = [
        message_set("kafka-python", magic, codec, records, absolute=magic == 0) for magic, codec, _, records in cases()
    ]
    for number, (data, answer) in enumerate(zip(sets, ask([f"read {data.hex()}" for data in sets]), strict=True)):
        base = cases()[number][3][0].offset
        found = "".join(
            f"{each.offset} {each.timestamp_ms} {hexadecimal(each.key)} {hexadecimal(each.value)};"
            for each in ours(tmp_path / f"clicks-{number}", base, data)
        )
        assert found == answer


def test_an_import_into_apache_kafka_that_is_killed_goes_on_there_too(tmp_path: Path) -> None:
    records = [Kept(n, T + n, b"user-%d" % (n % 100), b"value %d" % n) for n in range(20_000)]
    data = b"".join(message_set("aiokafka", 1, GZIP, records[n : n + 100]) for n in range(0, len(records), 100))
    write_log(tmp_path / "old" / "clicks-0", [(0, data)])
    with KafkaPeer() as kafka:
        command = [*PENSTOCK, "import", str(tmp_path / "old"), "clicks", "--bootstrap", kafka.bootstrap]
        consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "none", "enable.auto.commit": False})

        def end() -> int:
            known = "clicks" in consumer.list_topics(timeout=10).topics
            return consumer.get_watermark_offsets(TopicPartition("clicks", 0), timeout=10)[1] if known else 0

        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: end() > 0, "it appends")
        finally:
            process.kill()
            process.wait()
        done = subprocess.run(
            [*command, "--verify", "--json"], check=True, capture_output=True, text=True, timeout=TIMEOUT_S
        )
        (report,) = json.loads(done.stdout)
        assert report["verified"]
        assert report["records"] == end() == len(records)
        assert report["there_before"] > 0
        consumer.close()
