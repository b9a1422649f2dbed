"""Kafka's transaction coordinator: its TransactionCoordinator, TransactionMetadata and TransactionLog, over a log, a
clock and markers that we move.

A scenario is a list of operations on transactional ids: a request, time to pass, a hold on commits or an end of it, an
append that is refused, markers that are written, a fail-over. Each is answered with the records that it wrote, and with
the answers that left: to which operation, and an error with a producer id and epoch.
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
import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import kafka.coordinator.transaction.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.AddPartitionsToTxnResponseData.AddPartitionsToTxnResult;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.TransactionResult;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.ProducerIdAndEpoch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.transaction.*;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.common.TransactionVersion;
import scala.Function0;
import scala.Function1;
import scala.Function3;
import scala.Option;
import scala.runtime.BoxedUnit;
import scala.util.Either;
import scala.util.Right;

public class TransactionPeer {
    static final ObjectMapper JSON = new ObjectMapper();
    static final HexFormat HEX = HexFormat.of();

    public static void main(String[] arguments) throws Exception {
        ArrayNode answers = JSON.createArrayNode();
        for (JsonNode scenario : JSON.readTree(System.in)) {
            ArrayNode each = answers.addArray();
            World world = new World(scenario.get("now").asLong(), scenario.get("version").asInt());
            int number = 0;
            for (JsonNode operation : scenario.get("operations")) each.add(world.answer(operation, number++));
        }
        System.out.println(JSON.writeValueAsString(answers));
    }

    static <T> T without(Class<T> type) throws Exception {
        Field field = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        return type.cast(((sun.misc.Unsafe) field.get(null)).allocateInstance(type));
    }

    static class Marking {
        TransactionMetadata metadata;
        TxnTransitMetadata after;
    }

    public static class States extends TransactionStateManager {
        World world;

        public States() { super(0, null, null, null, null, null, null); }

        @Override public TransactionVersion transactionVersionLevel() { return world.version; }
        @Override public boolean isTransaction2pcEnabled() { return false; }
        @Override public boolean validateTransactionTimeoutMs(boolean twoPhase, int timeout) {
            return timeout <= 900_000 && timeout > 0;
        }
        @Override public int partitionFor(String id) { return 0; }
        @Override public Either<Errors, Option<CoordinatorEpochAndTxnMetadata>> getTransactionState(String id) {
            TransactionMetadata found = world.ids.get(id);
            return new Right<>(found == null ? Option.empty()
                : Option.apply(new CoordinatorEpochAndTxnMetadata(world.epoch, found)));
        }
        @Override public Either<Errors, CoordinatorEpochAndTxnMetadata> putTransactionStateIfNotExists(
                TransactionMetadata metadata) {
            world.ids.putIfAbsent(metadata.transactionalId(), metadata);
            return new Right<>(new CoordinatorEpochAndTxnMetadata(
                world.epoch, world.ids.get(metadata.transactionalId())));
        }
        @Override public scala.collection.Iterable<TransactionalIdAndProducerIdEpoch> timedOutTransactions() {
            List<TransactionalIdAndProducerIdEpoch> found = new ArrayList<>();
            for (TransactionMetadata each : world.ids.values())
                if (!each.pendingTransitionInProgress() && each.state() == TransactionState.ONGOING
                        && !each.isDistributedTwoPhaseCommitTxn()
                        && each.txnStartTimestamp() + each.txnTimeoutMs() < world.now)
                    found.add(new TransactionalIdAndProducerIdEpoch(
                        each.transactionalId(), each.producerId(), each.producerEpoch()));
            return scala.jdk.javaapi.CollectionConverters.asScala(found);
        }
        @Override public void appendTransactionToLog(String id, int epoch, TxnTransitMetadata after,
                Function1<Errors, BoxedUnit> callback, Function1<Errors, Object> retry, RequestLocal local) {
            byte[] key = TransactionLog.keyToBytes(id);
            byte[] value = TransactionLog.valueToBytes(after, world.version);
            TransactionMetadata metadata = world.ids.get(id);
            if (world.refuses) {
                metadata.pendingState(Optional.empty());
                callback.apply(Errors.COORDINATOR_NOT_AVAILABLE);
                return;
            }
            world.written.addArray().add(HEX.formatHex(key)).add(HEX.formatHex(value));
            int term = world.epoch;
            Runnable commit = () -> {
                if (world.epoch != term) return;
                world.log.add(new byte[][] {key, value});
                metadata.completeTransitionTo(after);
                callback.apply(Errors.NONE);
            };
            if (world.holds) world.held.add(commit); else commit.run();
        }
    }

    public static class Markers extends TransactionMarkerChannelManager {
        World world;

        public Markers() { super(null, null, null, null, null); }

        @Override public void addTxnMarkersToSend(int epoch, TransactionResult result, TransactionMetadata metadata,
                TxnTransitMetadata after) {
            world.mark(metadata, after, result);
        }
    }

    static class World {
        final Map<String, TransactionMetadata> ids = new LinkedHashMap<>();
        final Map<String, Marking> markings = new LinkedHashMap<>();
        final List<byte[][]> log = new ArrayList<>();
        final ArrayDeque<Runnable> held = new ArrayDeque<>();
        final TransactionVersion version;
        final States states;
        final TransactionCoordinator coordinator;
        long now;
        long nextProducerId = 1000;
        int epoch;
        boolean holds;
        boolean refuses;
        ArrayNode written;
        ArrayNode left;
        ArrayNode marked;

        World(long now, int version) throws Exception {
            this.now = now;
            this.version = TransactionVersion.fromFeatureLevel((short) version);
            states = without(States.class);
            states.world = this;
            Markers markers = without(Markers.class);
            markers.world = this;
            Time time = proxy(Time.class, (self, method, values) -> switch (method.getName()) {
                case "milliseconds" -> this.now;
                default -> InvocationHandler.invokeDefault(self, method, values);
            });
            ProducerIdManager producerIds =
                proxy(ProducerIdManager.class, (self, method, values) -> nextProducerId++);
            Function0<ProducerIdManager> newProducerIds = new scala.runtime.AbstractFunction0<>() {
                public ProducerIdManager apply() { return producerIds; }
            };
            coordinator =
                new TransactionCoordinator(null, null, newProducerIds, states, markers, time, new LogContext());
        }

        static <T> T proxy(Class<T> type, InvocationHandler handler) {
            return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, handler));
        }

        void mark(TransactionMetadata metadata, TxnTransitMetadata after, TransactionResult result) {
            Marking marking = new Marking();
            marking.metadata = metadata;
            marking.after = after;
            markings.put(metadata.transactionalId(), marking);
            marked.addObject().put("id", metadata.transactionalId()).put("producer", metadata.producerId())
                .put("epoch", metadata.producerEpoch()).put("commit", result == TransactionResult.COMMIT)
                .put("version", metadata.clientTransactionVersion().featureLevel());
        }

        void tell(int number, Errors error, long producer, short epoch) {
            left.addObject().put("to", number).put("code", error.code()).put("producer", producer).put("epoch", epoch);
        }

        ObjectNode answer(JsonNode operation, int number) throws Exception {
            ObjectNode answer = JSON.createObjectNode();
            written = answer.putArray("records");
            left = answer.putArray("answers");
            marked = answer.putArray("markers");
            String id = operation.path("id").asText();
            long producer = operation.path("producer").asLong();
            short epoch = (short) operation.path("epoch").asInt();
            TransactionVersion version =
                TransactionVersion.fromFeatureLevel((short) operation.path("version").asInt());
            Set<TopicPartition> partitions = new HashSet<>();
            for (JsonNode each : operation.path("partitions")) partitions.add(new TopicPartition("t", each.asInt()));
            refuses = operation.path("refused").asBoolean();
            switch (operation.get("kind").asText()) {
                case "init" -> {
                    Option<ProducerIdAndEpoch> expected = operation.has("producer")
                        ? Option.apply(new ProducerIdAndEpoch(producer, epoch)) : Option.empty();
                    coordinator.handleInitProducerId(id, operation.get("timeout").asInt(), false, false, expected,
                        new scala.runtime.AbstractFunction1<InitProducerIdResult, BoxedUnit>() {
                            public BoxedUnit apply(InitProducerIdResult result) {
                                tell(number, result.error(), result.producerId(), result.producerEpoch());
                                return BoxedUnit.UNIT;
                            }
                        }, RequestLocal.noCaching());
                }
                case "add" -> coordinator.handleAddPartitionsToTransaction(id, producer, epoch, partitions,
                    new scala.runtime.AbstractFunction1<Errors, BoxedUnit>() {
                        public BoxedUnit apply(Errors error) {
                            tell(number, error, -1, (short) -1);
                            return BoxedUnit.UNIT;
                        }
                    }, version, RequestLocal.noCaching());
                case "verify" -> coordinator.handleVerifyPartitionsInTransaction(id, producer, epoch, partitions,
                    new scala.runtime.AbstractFunction1<AddPartitionsToTxnResult, BoxedUnit>() {
                        public BoxedUnit apply(AddPartitionsToTxnResult result) {
                            ObjectNode codes = left.addObject().put("to", number).putObject("codes");
                            result.topicResults().forEach(topic -> topic.resultsByPartition().forEach(each ->
                                codes.put(String.valueOf(each.partitionIndex()), each.partitionErrorCode())));
                            return BoxedUnit.UNIT;
                        }
                    });
                case "end" -> coordinator.handleEndTransaction(id, producer, epoch,
                    operation.get("commit").asBoolean() ? TransactionResult.COMMIT : TransactionResult.ABORT, version,
                    new scala.runtime.AbstractFunction3<Errors, Object, Object, BoxedUnit>() {
                        public BoxedUnit apply(Errors error, Object producer, Object epoch) {
                            tell(number, error, (Long) producer, (Short) epoch);
                            return BoxedUnit.UNIT;
                        }
                    }, RequestLocal.noCaching());
                case "advance" -> {
                    for (int each = 0; each < operation.get("intervals").asInt(); each++) {
                        now += 10_000;
                        coordinator.abortTimedOutTransactions(
                            new scala.runtime.AbstractFunction1<TransactionalIdAndProducerIdEpoch,
                                    Function3<Errors, Object, Object, BoxedUnit>>() {
                                public Function3<Errors, Object, Object, BoxedUnit> apply(
                                        TransactionalIdAndProducerIdEpoch who) {
                                    return new scala.runtime.AbstractFunction3<Errors, Object, Object, BoxedUnit>() {
                                        public BoxedUnit apply(Errors error, Object producer, Object epoch) {
                                            return BoxedUnit.UNIT;
                                        }
                                    };
                                }
                            });
                    }
                }
                case "hold" -> holds = true;
                case "commit" -> {
                    holds = false;
                    while (!held.isEmpty()) held.poll().run();
                }
                case "mark" -> {
                    Marking marking = markings.remove(id);
                    if (marking != null) {
                        for (TopicPartition each : new HashSet<>(marking.metadata.topicPartitions()))
                            marking.metadata.removePartition(each);
                        states.appendTransactionToLog(id, this.epoch, marking.after,
                            new scala.runtime.AbstractFunction1<Errors, BoxedUnit>() {
                                public BoxedUnit apply(Errors error) { return BoxedUnit.UNIT; }
                            }, null, RequestLocal.noCaching());
                    }
                }
                case "exhaust" -> {
                    TransactionMetadata metadata = ids.get(id);
                    if (metadata != null && !metadata.pendingTransitionInProgress())
                        metadata.setProducerEpoch(epoch);
                }
                case "fail over" -> load();
                default -> throw new IllegalArgumentException(operation.toString());
            }
            return answer;
        }

        void load() {
            epoch++;
            held.clear();
            holds = false;
            markings.clear();
            ids.clear();
            for (byte[][] record : log) {
                TransactionLog.ReadResult read =
                    TransactionLog.read(ByteBuffer.wrap(record[0]), ByteBuffer.wrap(record[1]));
                TransactionLog.TxnRecord found = (TransactionLog.TxnRecord) read;
                ids.put(found.transactionId(), found.metadata());
            }
            for (TransactionMetadata each : ids.values())
                if (each.state() == TransactionState.PREPARE_COMMIT)
                    mark(each, each.prepareComplete(now), TransactionResult.COMMIT);
                else if (each.state() == TransactionState.PREPARE_ABORT)
                    mark(each, each.prepareComplete(now), TransactionResult.ABORT);
        }
    }
}
"""


def answers_of_kafka(scenarios: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """What Kafka does at each operation of each scenario."""
    done = run_java_source(SOURCE, stdin=json.dumps(list(scenarios)), timeout_s=300)
    answers: list[list[dict[str, Any]]] = json.loads(done.stdout)
    return answers
