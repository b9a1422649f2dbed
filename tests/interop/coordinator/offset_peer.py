"""Kafka's OffsetMetadataManager as a program: offsets of groups without members, plain and in transactions.

A history is a list of operations, each at a time: a commit, of a producer or of none; a marker; a deletion of an offset
or of a group; an expiry. One that is `refused` is undone, as after a failed append. Each is answered with its code, how
many records it wrote, and all offsets that there are then: those that count, and those that a stable fetch is told.
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
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.message.OffsetCommitRequestData;
import org.apache.kafka.common.message.OffsetDeleteRequestData;
import org.apache.kafka.common.message.OffsetFetchRequestData;
import org.apache.kafka.common.message.OffsetFetchResponseData;
import org.apache.kafka.common.message.TxnOffsetCommitRequestData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.TransactionResult;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorExecutor;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorTimer;
import org.apache.kafka.coordinator.group.GroupConfigManager;
import org.apache.kafka.coordinator.group.GroupCoordinatorConfig;
import org.apache.kafka.coordinator.group.GroupMetadataManager;
import org.apache.kafka.coordinator.group.OffsetMetadataManager;
import org.apache.kafka.coordinator.group.generated.OffsetCommitKey;
import org.apache.kafka.coordinator.group.generated.OffsetCommitValue;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetricsShard;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfig;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.timeline.SnapshotRegistry;

public class OffsetPeer {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        ArrayNode answers = JSON.createArrayNode();
        for (JsonNode history : JSON.readTree(System.in)) {
            ArrayNode each = answers.addArray();
            OffsetPeer peer = new OffsetPeer();
            for (JsonNode operation : history) each.add(peer.answer(operation));
        }
        System.out.println(JSON.writeValueAsString(answers));
    }

    final SnapshotRegistry registry = new SnapshotRegistry(new LogContext());
    final GroupMetadataManager groups;
    final OffsetMetadataManager offsets;
    long now, end;

    OffsetPeer() throws Exception {
        GroupCoordinatorConfig config = GroupCoordinatorConfig.fromProps(Map.of());
        Time time = proxy(Time.class, (self, method, values) -> switch (method.getName()) {
            case "milliseconds" -> this.now;
            case "nanoseconds" -> this.now * 1_000_000;
            default -> InvocationHandler.invokeDefault(self, method, values);
        });
        Object metrics =
            new GroupCoordinatorMetricsShard(registry, Map.of(), new TopicPartition("__consumer_offsets", 0));
        groups = (GroupMetadataManager) built(new GroupMetadataManager.Builder(), Map.of(
            "SnapshotRegistry", registry, "Time", time, "Config", config, "GroupCoordinatorMetricsShard", metrics,
            "Timer", idle(CoordinatorTimer.class), "Executor", idle(CoordinatorExecutor.class),
            "GroupConfigManager", new GroupConfigManager(Map.of(), config, ShareGroupConfig.fromProps(Map.of()))));
        offsets = (OffsetMetadataManager) built(new OffsetMetadataManager.Builder(), Map.of(
            "SnapshotRegistry", registry, "Time", time, "GroupCoordinatorConfig", config,
            "GroupCoordinatorMetricsShard", metrics, "GroupMetadataManager", groups));
    }

    static Object built(Object builder, Map<String, Object> parts) throws Exception {
        for (Map.Entry<String, Object> part : parts.entrySet())
            call(builder, "with" + part.getKey(), part.getValue());
        return call(builder, "build");
    }

    static Object call(Object target, String name, Object... values) throws Exception {
        for (Method method : target.getClass().getDeclaredMethods())
            if (method.getName().equals(name) && takes(method.getParameterTypes(), values)) {
                method.setAccessible(true);
                try {
                    return method.invoke(target, values);
                } catch (InvocationTargetException error) {
                    throw (Exception) error.getCause();
                }
            }
        throw new IllegalArgumentException(name);
    }

    static boolean takes(Class<?>[] types, Object[] values) {
        if (types.length != values.length) return false;
        for (int index = 0; index < types.length; index++)
            if (!types[index].isInstance(values[index])) return false;
        return true;
    }

    static <T> T proxy(Class<T> type, InvocationHandler handler) {
        return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, handler));
    }

    static <T> T idle(Class<T> type) {
        return proxy(type, (self, method, values) -> method.getReturnType() == boolean.class ? false : null);
    }

    ObjectNode answer(JsonNode operation) throws Exception {
        now = operation.get("now").asLong();
        registry.idempotentCreateSnapshot(end);
        long before = end;
        ObjectNode answer = JSON.createObjectNode();
        int code = 0;
        try {
            carryOut(operation);
        } catch (ApiException error) {
            code = Errors.forException(error).code();
        }
        answer.put("code", code);
        answer.put("records", end - before);
        if (operation.get("refused").asBoolean()) {
            registry.revertToSnapshot(before);
            end = before;
        }
        ObjectNode found = answer.putObject("groups");
        for (Object group : new TreeSet<>((java.util.Set<?>) call(groups, "groupIds"))) {
            ArrayNode both = found.putArray((String) group);
            both.add(fetched((String) group, end));
            both.add(fetched((String) group, Long.MAX_VALUE));
            registry.deleteSnapshotsUpTo(end);
        }
        return answer;
    }

    ObjectNode fetched(String group, long at) throws Exception {
        if (at != Long.MAX_VALUE) registry.idempotentCreateSnapshot(at);
        OffsetFetchRequestData.OffsetFetchRequestGroup request =
            new OffsetFetchRequestData.OffsetFetchRequestGroup().setGroupId(group);
        for (String topic : List.of("t", "u"))
            request.topics().add(new OffsetFetchRequestData.OffsetFetchRequestTopics().setName(topic)
                .setPartitionIndexes(List.of(0, 1)));
        Map<String, long[]> told = new TreeMap<>();
        for (OffsetFetchResponseData.OffsetFetchResponseTopics topic : offsets.fetchOffsets(request, at).topics())
            for (OffsetFetchResponseData.OffsetFetchResponsePartitions each : topic.partitions())
                told.put(topic.name() + each.partitionIndex(), new long[] {each.errorCode(), each.committedOffset()});
        return JSON.valueToTree(told);
    }

    void carryOut(JsonNode operation) throws Exception {
        String group = operation.path("group").asText();
        String topic = operation.path("topic").asText();
        int partition = operation.path("partition").asInt();
        long producer = operation.path("producer").asLong(-1);
        AuthorizableRequestContext context = proxy(AuthorizableRequestContext.class, (self, method, values) ->
            method.getName().equals("requestVersion") ? 5 : null);
        switch (operation.get("operation").asText()) {
            case "commit" -> replay(producer, producer < 0
                ? offsets.commitOffset(context, new OffsetCommitRequestData().setGroupId(group)
                    .setGenerationIdOrMemberEpoch(operation.get("generation").asInt()).setTopics(List.of(
                        new OffsetCommitRequestData.OffsetCommitRequestTopic().setName(topic).setPartitions(List.of(
                            new OffsetCommitRequestData.OffsetCommitRequestPartition().setPartitionIndex(partition)
                                .setCommittedOffset(operation.get("offset").asLong())))))).records()
                : offsets.commitTransactionalOffset(context, new TxnOffsetCommitRequestData().setGroupId(group)
                    .setGenerationId(operation.get("generation").asInt()).setTopics(List.of(
                        new TxnOffsetCommitRequestData.TxnOffsetCommitRequestTopic().setName(topic).setPartitions(
                            List.of(new TxnOffsetCommitRequestData.TxnOffsetCommitRequestPartition()
                                .setPartitionIndex(partition)
                                .setCommittedOffset(operation.get("offset").asLong())))))).records());
            case "end" -> {
                offsets.replayEndTransactionMarker(producer,
                    operation.get("commit").asBoolean() ? TransactionResult.COMMIT : TransactionResult.ABORT);
                end++;
            }
            case "delete offset" -> {
                OffsetDeleteRequestData.OffsetDeleteRequestTopicCollection topics =
                    new OffsetDeleteRequestData.OffsetDeleteRequestTopicCollection();
                topics.add(new OffsetDeleteRequestData.OffsetDeleteRequestTopic().setName(topic).setPartitions(List.of(
                    new OffsetDeleteRequestData.OffsetDeleteRequestPartition().setPartitionIndex(partition))));
                replay(-1, offsets.deleteOffsets(
                    new OffsetDeleteRequestData().setGroupId(group).setTopics(topics)).records());
            }
            case "delete group" -> {
                List<CoordinatorRecord> records = new ArrayList<>();
                call(groups, "validateDeleteGroup", group);
                offsets.deleteAllOffsets(group, records);
                call(groups, "createGroupTombstoneRecordsAndCancelTimers", group, records);
                replay(-1, records);
            }
            case "expire" -> {
                List<CoordinatorRecord> records = new ArrayList<>();
                for (Object each : new ArrayList<>((java.util.Set<?>) call(groups, "groupIds")))
                    if (offsets.cleanupExpiredOffsets((String) each, records))
                        call(groups, "maybeDeleteGroup", each, records);
                replay(-1, records);
            }
            default -> throw new IllegalArgumentException(operation.toString());
        }
    }

    void replay(long producer, List<CoordinatorRecord> records) throws Exception {
        for (CoordinatorRecord record : records) {
            ApiMessage value = record.value() == null ? null : record.value().message();
            if (record.key() instanceof OffsetCommitKey key) {
                offsets.replay(end, producer, key, (OffsetCommitValue) value);
            } else {
                Method method = Arrays.stream(GroupMetadataManager.class.getMethods()).filter(each ->
                    each.getName().equals("replay") && each.getParameterTypes()[0] == record.key().getClass())
                    .findFirst().get();
                method.invoke(groups, record.key(), value);
            }
            end++;
        }
    }
}
"""


def answers_of_kafka(histories: Sequence[Sequence[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
    """What Kafka answers to each operation of each history."""
    done = run_java_source(SOURCE, stdin=json.dumps(list(histories)), timeout_s=300)
    answers: list[list[dict[str, Any]]] = json.loads(done.stdout)
    return answers
