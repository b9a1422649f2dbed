"""Kafka's own classes read our batches, whole and broken, and write the same ones."""

from __future__ import annotations

from functools import cache
from random import Random

import pytest
from interop.kafka_peer import run_java_source
from random_batches import RandomBatches

from penstock.errors import CorruptRecordError, InvalidRecordError
from penstock.protocol.message import Message
from penstock.protocol.messages import voters_record
from penstock.protocol.messages.kraft_version_record import KRaftVersionRecord
from penstock.protocol.messages.leader_change_message import LeaderChangeMessage, Voter
from penstock.protocol.messages.snapshot_footer_record import SnapshotFooterRecord
from penstock.protocol.messages.snapshot_header_record import SnapshotHeaderRecord
from penstock.protocol.messages.voters_record import VotersRecord
from penstock.records.batch import TimestampType, check_crc, headers, read_header
from penstock.records.compression import Contexts
from penstock.records.control import ControlType, EndTransactionMarker, control_batch, end_transaction_marker
from penstock.records.reader import Record, bounded, record_bytes, records

pytestmark = pytest.mark.java

READ_AND_WRITE = """
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Scanner;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.common.record.internal.Record;

public class ReadAndWriteBatches {
    static final HexFormat HEX = HexFormat.of();

    static String hex(ByteBuffer buffer) {
        if (buffer == null) return "null";
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return "x" + HEX.formatHex(bytes);
    }

    public static void main(String[] arguments) {
        Scanner lines = new Scanner(System.in);
        StringBuilder out = new StringBuilder();
        while (lines.hasNextLine()) {
            String[] question = lines.nextLine().split(" ");
            MemoryRecords run = MemoryRecords.readableRecords(ByteBuffer.wrap(HEX.parseHex(question[1])));
            try {
                out.append(question[0].equals("read") ? read(run) : write(run.batches().iterator().next()));
            } catch (Throwable error) {
                out.append("refused ").append(error.toString().replace("\\n", " "));
            }
            out.append("\\n");
        }
        System.out.print(out);
    }

    static String read(MemoryRecords run) {
        StringBuilder out = new StringBuilder();
        for (RecordBatch batch : run.batches()) {
            batch.ensureValid();
            for (Record record : batch) {
                out.append(record.offset()).append(' ').append(record.timestamp()).append(' ')
                    .append(hex(record.key())).append(' ').append(hex(record.value()));
                for (Header header : record.headers())
                    out.append(' ').append(hex(StandardCharsets.UTF_8.encode(header.key())))
                        .append('=').append(hex(header.value() == null ? null : ByteBuffer.wrap(header.value())));
                out.append(';');
            }
        }
        return out.toString();
    }

    static String write(RecordBatch batch) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1 << 16), (byte) 2,
            Compression.of(batch.compressionType()).build(), batch.timestampType(), batch.baseOffset(),
            batch.maxTimestamp(), batch.producerId(), batch.producerEpoch(), batch.baseSequence(),
            batch.isTransactional(), batch.partitionLeaderEpoch());
        for (Record record : batch)
            builder.appendWithOffset(
                record.offset(), record.timestamp(), record.key(), record.value(), record.headers());
        return hex(builder.build().buffer());
    }
}
"""

CONTROL = """
import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.record.internal.*;

public class WriteControlBatches {
    static void print(MemoryRecords records) {
        byte[] bytes = new byte[records.buffer().remaining()];
        records.buffer().get(bytes);
        System.out.println(HexFormat.of().formatHex(bytes));
    }

    static ByteBuffer buffer() { return ByteBuffer.allocate(1024); }

    public static void main(String[] arguments) {
        print(MemoryRecords.withEndTransactionMarker(7L, 99L, 3, 4L, (short) 1,
            new EndTransactionMarker(ControlRecordType.COMMIT, 6)));
        List<LeaderChangeMessage.Voter> voters = List.of(new LeaderChangeMessage.Voter().setVoterId(2));
        print(MemoryRecords.withLeaderChangeMessage(7L, 99L, 3, buffer(),
            new LeaderChangeMessage().setLeaderId(2).setVoters(voters).setGrantingVoters(voters)));
        print(MemoryRecords.withSnapshotHeaderRecord(7L, 99L, 3, buffer(),
            new SnapshotHeaderRecord().setLastContainedLogTimestamp(5L)));
        print(MemoryRecords.withSnapshotFooterRecord(7L, 99L, 3, buffer(), new SnapshotFooterRecord()));
        print(MemoryRecords.withKRaftVersionRecord(7L, 99L, 3, buffer(),
            new KRaftVersionRecord().setKRaftVersion((short) 1)));
        print(MemoryRecords.withVotersRecord(7L, 99L, 3, buffer(), new VotersRecord().setVoters(List.of(
            new VotersRecord.Voter().setVoterId(1)
                .setKRaftVersionFeature(new VotersRecord.KRaftVersionFeature().setMaxSupportedVersion((short) 1))))));
    }
}
"""

RUNS = 400
BROKEN_OF_A_RUN = 10


def ask(questions: list[tuple[str, bytes]]) -> list[str]:
    """What Kafka makes of each: its records, or the batch written anew, or why it refuses."""
    lines = "".join(f"{kind} {data.hex()}\n" for kind, data in questions)
    answers = run_java_source(READ_AND_WRITE, stdin=lines).stdout.split("\n")[:-1]
    assert len(answers) == len(questions)
    return answers


def hexadecimal(data: bytes | None) -> str:
    return "null" if data is None else "x" + data.hex()


def line(record: Record) -> str:
    """A record as the Java program prints it."""
    headers_text = "".join(f" {hexadecimal(key.encode())}={hexadecimal(value)}" for key, value in record.headers)
    return f"{record.offset} {record.timestamp_ms} {hexadecimal(record.key)} {hexadecimal(record.value)}{headers_text};"


def our_reading(run: bytes) -> str:
    out = ""
    try:
        for position, header in headers(run):
            check_crc(run, position, header)
            out += "".join(line(record) for record in records(run, header, position, bounded(Contexts())))
    except (CorruptRecordError, InvalidRecordError) as error:
        return f"refused {error}"
    return out


@cache
def runs() -> list[tuple[bytes, list[bytes]]]:
    """Random runs, each with broken versions of it."""
    found = []
    for seed in range(RUNS):
        source = RandomBatches(Random(seed))
        batches = source.run()
        found.append((source.whole(batches), [source.broken(batches) for _ in range(BROKEN_OF_A_RUN)]))
    return found


def test_kafka_reads_what_we_write() -> None:
    answers = ask([("read", whole) for whole, _ in runs()])
    assert answers == [our_reading(whole) for whole, _ in runs()]
    assert not any(answer.startswith("refused") for answer in answers)


def as_produced(run: bytes) -> list[bytes]:
    """Batches of a run that a producer might send: no control, no append time, no gap at the end, no time before 0."""
    found = []
    for position, header in headers(run):
        if not header.is_control and header.timestamp_type is TimestampType.CREATE_TIME:
            rows = list(records(run, header, position))
            if rows[-1].offset == header.last_offset and min(row.timestamp_ms for row in rows) >= 0:
                found.append(run[position : position + header.size_bytes])
    return found


def test_kafka_writes_what_we_write() -> None:
    wholes = [batch for run, _ in runs() for batch in as_produced(run)]
    same = 0
    for ours, answer in zip(wholes, ask([("write", whole) for whole in wholes]), strict=True):
        theirs = bytes.fromhex(answer.removeprefix("x"))
        header, their_header = read_header(ours), read_header(theirs)
        assert their_header == header._replace(size_bytes=their_header.size_bytes, crc=their_header.crc)
        assert bytes(record_bytes(theirs, 0, their_header)) == bytes(record_bytes(ours, 0, header))
        assert header.is_compressed or theirs == ours
        same += theirs == ours
    assert same > len(wholes) // 5


def test_kafka_refuses_the_batches_that_we_refuse() -> None:
    broken = [data for _, variants in runs() for data in variants]
    theirs = ask([("read", data) for data in broken])
    ours = [our_reading(data) for data in broken]
    found = zip(broken, theirs, ours, strict=True)
    differences = [(data.hex(), kafka, own) for data, kafka, own in found if verdict(kafka) != verdict(own)]
    assert differences == []


def verdict(answer: str) -> str:
    return "refused" if answer.startswith("refused") else answer


def test_our_control_batches_are_kafkas() -> None:
    marker = end_transaction_marker(
        EndTransactionMarker(ControlType.COMMIT, 6),
        producer_id=4,
        producer_epoch=1,
        wall_ms=99,
        base_offset=7,
        leader_epoch=3,
    )
    voters = [Voter(voter_id=2)]
    feature = voters_record.KRaftVersionFeature(max_supported_version=1)
    messages: list[Message] = [
        LeaderChangeMessage(leader_id=2, voters=voters, granting_voters=voters),
        SnapshotHeaderRecord(last_contained_log_timestamp=5),
        SnapshotFooterRecord(),
        KRaftVersionRecord(kraft_version=1),
        VotersRecord(voters=[voters_record.Voter(voter_id=1, kraft_version_feature=feature)]),
    ]
    ours = [marker, *(control_batch([each], base_offset=7, leader_epoch=3, wall_ms=99) for each in messages)]
    assert [batch.hex() for batch in ours] == run_java_source(CONTROL).stdout.split()
