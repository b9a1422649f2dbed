"""One partition's log of Apache Kafka, UnifiedLog, as a program that goes through histories of transactions.

A history is a list of operations; each is answered with what it gave, and what the log says then: its end, the last
stable offset, the producers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from interop.kafka_peer import run_java_source

SOURCE = """
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.nio.file.Files;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.DescribeProducersResponseData;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.common.TransactionVersion;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.FetchDataInfo;
import org.apache.kafka.storage.internals.log.LogAppendInfo;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogStartOffsetIncrementReason;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

public class TransactionPeer {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        ArrayNode answers = JSON.createArrayNode();
        for (JsonNode history : JSON.readTree(System.in)) {
            File parent = Files.createTempDirectory("transactions").toFile();
            answers.add(new TransactionPeer(new File(parent, "t-0"), scheduler).through(history));
        }
        System.out.println(JSON.writeValueAsString(answers));
        System.exit(0);
    }

    final UnifiedLog log;
    final Map<String, VerificationGuard> guards = new HashMap<>();

    TransactionPeer(File directory, KafkaScheduler scheduler) throws Exception {
        log = UnifiedLog.create(directory, new LogConfig(new Properties()), 0, 0, scheduler, new BrokerTopicStats(),
            Time.SYSTEM, 900_000, new ProducerStateManagerConfig(86_400_000, true), 600_000,
            new LogDirFailureChannel(1), true, Optional.of(Uuid.randomUuid()));
    }

    ArrayNode through(JsonNode history) throws Exception {
        ArrayNode answers = JSON.createArrayNode();
        for (JsonNode operation : history) {
            ObjectNode answer = answers.addObject();
            try {
                one(operation, answer);
                answer.put("error", 0);
            } catch (Exception error) {
                answer.put("error", Errors.forException(error).code());
            }
            answer.put("end", log.logEndOffset());
            answer.put("start", log.logStartOffset());
            answer.put("stable", log.lastStableOffset());
            ArrayNode segments = answer.putArray("segments");
            log.logSegments().forEach(each -> segments.add(each.baseOffset()));
            ArrayNode producers = answer.putArray("producers");
            for (DescribeProducersResponseData.ProducerState each : log.activeProducers()) {
                producers.addArray().add(each.producerId()).add(each.producerEpoch()).add(each.lastSequence())
                    .add(each.coordinatorEpoch()).add(each.currentTxnStartOffset());
            }
        }
        return answers;
    }

    void one(JsonNode operation, ObjectNode answer) throws Exception {
        long producerId = operation.path("producer").asLong();
        short epoch = (short) operation.path("epoch").asInt();
        int sequence = operation.path("sequence").asInt();
        String guard = operation.path("guard").asText("");
        switch (operation.get("do").asText()) {
            case "verify" -> {
                VerificationGuard given = log.maybeStartTransactionVerification(
                    producerId, sequence, epoch, operation.get("adds").asBoolean());
                answer.put("guarded", given != VerificationGuard.SENTINEL);
                guards.put(guard, given);
            }
            case "append" -> {
                SimpleRecord[] records = new SimpleRecord[operation.get("count").asInt()];
                for (int index = 0; index < records.length; index++)
                    records[index] = new SimpleRecord(System.currentTimeMillis(), "value".getBytes());
                MemoryRecords batch = producerId < 0 ? MemoryRecords.withRecords(Compression.NONE, records)
                    : operation.get("transactional").asBoolean()
                    ? MemoryRecords.withTransactionalRecords(Compression.NONE, producerId, epoch, sequence, records)
                    : MemoryRecords.withIdempotentRecords(Compression.NONE, producerId, epoch, sequence, records);
                LogAppendInfo info = log.appendAsLeader(batch, 0, AppendOrigin.CLIENT, RequestLocal.noCaching(),
                    guards.getOrDefault(guard, VerificationGuard.SENTINEL), TransactionVersion.TV_UNKNOWN);
                answer.put("offset", info.firstOffset());
            }
            case "marker" -> {
                ControlRecordType type = operation.get("commit").asBoolean()
                    ? ControlRecordType.COMMIT : ControlRecordType.ABORT;
                MemoryRecords batch = MemoryRecords.withEndTransactionMarker(producerId, epoch,
                    new EndTransactionMarker(type, operation.get("coordinator").asInt()));
                LogAppendInfo info = log.appendAsLeader(batch, 0, AppendOrigin.COORDINATOR, RequestLocal.noCaching(),
                    VerificationGuard.SENTINEL, (short) operation.get("version").asInt());
                answer.put("offset", info.firstOffset());
            }
            case "replicated" -> log.updateHighWatermark(operation.get("offset").asLong());
            case "delete" -> log.maybeIncrementLogStartOffset(
                operation.get("offset").asLong(), LogStartOffsetIncrementReason.ClientRecordDeletion);
            case "truncate" -> {
                log.truncateTo(operation.get("offset").asLong());
                guards.clear();
                log.updateHighWatermark(log.highWatermark());
                for (long each = 0; each < 100; each++)
                    log.producerStateManager().clearVerificationStateEntry(each);
            }
            case "roll" -> log.roll();
            case "aborted" -> {
                ArrayNode found = answer.putArray("aborted");
                long from = operation.get("from").asLong();
                FetchDataInfo read = log.read(from, 1 << 20, FetchIsolation.TXN_COMMITTED, true);
                for (FetchResponseData.AbortedTransaction each : read.abortedTransactions.orElseThrow())
                    found.addArray().add(each.producerId()).add(each.firstOffset());
            }
            default -> throw new IllegalArgumentException(operation.toString());
        }
    }
}
"""


def kafkas(histories: Sequence[Sequence[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
    """What Kafka's log answers to each operation of each history."""
    done = run_java_source(SOURCE, stdin=json.dumps(list(histories)), timeout_s=300)
    answers: list[list[dict[str, Any]]] = json.loads(done.stdout)
    return answers
