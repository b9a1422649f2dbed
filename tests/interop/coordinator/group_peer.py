"""Kafka's group coordinator as a program: its GroupMetadataManager, with a clock, timers and metadata that we move.

A scenario is a list of operations: a request (its bytes and version), a record to replay, topics to create, grow or
delete, time to pass. Each is answered with the response, or the error, and the records that it wrote.
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
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.message.ConsumerGroupDescribeRequestData;
import org.apache.kafka.common.message.ConsumerGroupDescribeResponseData;
import org.apache.kafka.common.message.ConsumerGroupHeartbeatRequestData;
import org.apache.kafka.common.message.HeartbeatRequestData;
import org.apache.kafka.common.message.JoinGroupRequestData;
import org.apache.kafka.common.message.JoinGroupResponseData;
import org.apache.kafka.common.message.LeaveGroupRequestData;
import org.apache.kafka.common.message.SyncGroupRequestData;
import org.apache.kafka.common.message.SyncGroupResponseData;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.metadata.RemoveTopicRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorExecutor;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorResult;
import org.apache.kafka.coordinator.common.runtime.CoordinatorTimer;
import org.apache.kafka.coordinator.common.runtime.KRaftCoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.KRaftCoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.GroupConfigManager;
import org.apache.kafka.coordinator.group.GroupCoordinatorConfig;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.GroupMetadataManager;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetricsShard;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfig;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.timeline.SnapshotRegistry;

public class GroupPeer {
    static final ObjectMapper JSON = new ObjectMapper();
    static final HexFormat HEX = HexFormat.of();

    public static void main(String[] arguments) throws Exception {
        ArrayNode answers = JSON.createArrayNode();
        for (JsonNode scenario : JSON.readTree(System.in)) {
            ArrayNode each = answers.addArray();
            GroupPeer peer = new GroupPeer(scenario.get("now").asLong(), scenario.get("config"));
            for (JsonNode operation : scenario.get("operations")) each.add(peer.answer(operation));
        }
        System.out.println(JSON.writeValueAsString(answers));
    }

    static class Timer {
        long deadline;
        CoordinatorTimer.TimeoutOperation<CoordinatorRecord> operation;
    }

    final GroupCoordinatorRecordSerde serde = new GroupCoordinatorRecordSerde();
    final Map<String, Timer> timers = new LinkedHashMap<>();
    final Map<String, Runnable> tasks = new LinkedHashMap<>();
    final GroupMetadataManager manager;
    MetadataImage image = MetadataImage.EMPTY;
    long now;
    ArrayNode written;

    GroupPeer(long now, JsonNode config) throws Exception {
        this.now = now;
        Map<String, String> properties = JSON.convertValue(config, Map.class);
        SnapshotRegistry registry = new SnapshotRegistry(new LogContext());
        GroupCoordinatorConfig coordinator = GroupCoordinatorConfig.fromProps(properties);
        Object builder = new GroupMetadataManager.Builder();
        with(builder, "SnapshotRegistry", registry);
        with(builder, "Time", proxy(Time.class, (self, method, values) -> switch (method.getName()) {
            case "milliseconds" -> this.now;
            case "nanoseconds" -> this.now * 1_000_000;
            default -> InvocationHandler.invokeDefault(self, method, values);
        }));
        with(builder, "Timer", new CoordinatorTimer<CoordinatorRecord>() {
            public void schedule(String key, long delay, TimeUnit unit, boolean retry,
                                 CoordinatorTimer.TimeoutOperation<CoordinatorRecord> operation) {
                timers.remove(key);
                Timer timer = new Timer();
                timer.deadline = GroupPeer.this.now + unit.toMillis(delay);
                timer.operation = operation;
                timers.put(key, timer);
            }
            public void schedule(String key, long delay, TimeUnit unit, boolean retry, long backoff,
                                 CoordinatorTimer.TimeoutOperation<CoordinatorRecord> operation) {
                schedule(key, delay, unit, retry, operation);
            }
            public void scheduleIfAbsent(String key, long delay, TimeUnit unit, boolean retry,
                                         CoordinatorTimer.TimeoutOperation<CoordinatorRecord> operation) {
                if (!timers.containsKey(key)) schedule(key, delay, unit, retry, operation);
            }
            public void cancel(String key) { timers.remove(key); }
            public boolean isScheduled(String key) { return timers.containsKey(key); }
        });
        with(builder, "Executor", new CoordinatorExecutor<CoordinatorRecord>() {
            public <R> boolean schedule(String key, CoordinatorExecutor.TaskRunnable<R> task,
                                        CoordinatorExecutor.TaskOperation<CoordinatorRecord, R> operation) {
                if (tasks.containsKey(key)) return false;
                tasks.put(key, () -> {
                    R result = null;
                    Throwable failure = null;
                    try { result = task.run(); } catch (Throwable error) { failure = error; }
                    apply(operation.onComplete(result, failure));
                });
                return true;
            }
            public boolean isScheduled(String key) { return tasks.containsKey(key); }
            public void cancel(String key) { tasks.remove(key); }
        });
        with(builder, "Config", coordinator);
        with(builder, "GroupConfigManager",
            new GroupConfigManager(Map.of(), coordinator, ShareGroupConfig.fromProps(Map.of())));
        with(builder, "GroupCoordinatorMetricsShard",
            new GroupCoordinatorMetricsShard(registry, Map.of(), new TopicPartition("__consumer_offsets", 0)));
        Method build = builder.getClass().getDeclaredMethod("build");
        build.setAccessible(true);
        manager = (GroupMetadataManager) build.invoke(builder);
    }

    static void with(Object builder, String what, Object value) throws Exception {
        for (Method method : builder.getClass().getDeclaredMethods())
            if (method.getName().equals("with" + what)) {
                method.setAccessible(true);
                method.invoke(builder, value);
                return;
            }
        throw new IllegalArgumentException(what);
    }

    static <T> T proxy(Class<T> type, InvocationHandler handler) {
        return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, handler));
    }

    ObjectNode answer(JsonNode operation) throws Exception {
        ObjectNode answer = JSON.createObjectNode();
        written = answer.putArray("records");
        try {
            switch (operation.get("operation").asText()) {
                case "topics" -> topics(operation);
                case "record" -> replay(operation.get("key"), operation.get("value"));
                case "commit" -> manager.group("g")
                    .validateOffsetCommit(operation.get("member").asText(), null, operation.get("epoch").asInt(), false,
                        operation.get("version").asInt())
                    .validate(operation.get("topic").asText(), new Uuid(0, operation.get("id").asLong()),
                        operation.get("partition").asInt());
                case "advance" -> advance(operation.get("ms").asLong());
                default -> request(operation, answer);
            }
        } catch (ApiException error) {
            answer.put("code", Errors.forException(error).code());
            answer.put("message", error.getMessage());
        }
        return answer;
    }

    void request(JsonNode operation, ObjectNode answer) throws Exception {
        short version = (short) operation.get("version").asInt();
        byte[] sent = HEX.parseHex(operation.get("bytes").asText());
        ByteBufferAccessor bytes = new ByteBufferAccessor(ByteBuffer.wrap(sent));
        AuthorizableRequestContext context = proxy(AuthorizableRequestContext.class, (self, method, values) ->
            switch (method.getName()) {
                case "clientId" -> "c";
                case "clientAddress" -> InetAddress.getByName("127.0.0.1");
                case "requestVersion" -> (int) version;
                default -> null;
            });
        ApiMessage response = switch (operation.get("operation").asText()) {
            case "consumer" -> apply(
                manager.consumerGroupHeartbeat(context, new ConsumerGroupHeartbeatRequestData(bytes, version)));
            case "heartbeat" -> apply(manager.classicGroupHeartbeat(context, new HeartbeatRequestData(bytes, version)));
            case "leave" -> apply(manager.classicGroupLeave(context, new LeaveGroupRequestData(bytes, version)));
            case "describe" -> new ConsumerGroupDescribeResponseData().setGroups(manager.consumerGroupDescribe(
                new ConsumerGroupDescribeRequestData(bytes, version).groupIds(), Long.MAX_VALUE));
            case "join" -> {
                CompletableFuture<JoinGroupResponseData> future = new CompletableFuture<>();
                apply(manager.classicGroupJoin(context, new JoinGroupRequestData(bytes, version), future));
                yield future.getNow(null);
            }
            case "sync" -> {
                CompletableFuture<SyncGroupResponseData> future = new CompletableFuture<>();
                apply(manager.classicGroupSync(context, new SyncGroupRequestData(bytes, version), future));
                yield future.getNow(null);
            }
            default -> throw new IllegalArgumentException(operation.toString());
        };
        if (response == null) return;
        ByteBuffer encoded = MessageUtil.toByteBufferAccessor(response, version).buffer();
        byte[] array = new byte[encoded.remaining()];
        encoded.get(array);
        answer.put("response", HEX.formatHex(array));
    }

    <T> T apply(CoordinatorResult<T, CoordinatorRecord> result) {
        for (CoordinatorRecord record : result.records()) {
            ArrayNode pair = written.addArray();
            pair.add(HEX.formatHex(serde.serializeKey(record)));
            byte[] value = serde.serializeValue(record);
            if (value == null) pair.addNull(); else pair.add(HEX.formatHex(value));
            if (result.replayRecords()) replay(record);
        }
        if (result.appendFuture() != null) result.appendFuture().complete(null);
        return result.response();
    }

    void replay(JsonNode key, JsonNode value) {
        replay(serde.deserialize(ByteBuffer.wrap(HEX.parseHex(key.asText())),
            value.isNull() ? null : ByteBuffer.wrap(HEX.parseHex(value.asText()))));
    }

    void replay(CoordinatorRecord record) {
        ApiMessage value = record.value() == null ? null : record.value().message();
        for (Method method : GroupMetadataManager.class.getMethods())
            if (method.getName().equals("replay") && method.getParameterTypes()[0] == record.key().getClass()) {
                try {
                    method.invoke(manager, record.key(), value);
                } catch (InvocationTargetException | IllegalAccessException error) {
                    throw new IllegalStateException(error.getCause());
                }
                return;
            }
        throw new IllegalArgumentException(record.toString());
    }

    void advance(long ms) {
        long target = now + ms;
        while (!tasks.isEmpty()) {
            String key = tasks.keySet().iterator().next();
            Runnable task = tasks.get(key);
            tasks.remove(key);
            task.run();
        }
        while (true) {
            String first = null;
            long earliest = target + 1;
            for (Map.Entry<String, Timer> entry : timers.entrySet())
                if (entry.getValue().deadline < earliest) {
                    first = entry.getKey();
                    earliest = entry.getValue().deadline;
                }
            if (first == null) break;
            Timer timer = timers.remove(first);
            now = Math.max(now, timer.deadline);
            apply(timer.operation.generateRecords());
        }
        now = target;
    }

    void topics(JsonNode operation) {
        MetadataDelta delta = new MetadataDelta.Builder().setImage(image).build();
        for (JsonNode broker : operation.get("brokers"))
            delta.replay(new RegisterBrokerRecord().setBrokerId(broker.get("id").asInt())
                .setRack(broker.get("rack").textValue()));
        for (JsonNode name : operation.get("removed"))
            delta.replay(new RemoveTopicRecord().setTopicId(image.topics().getTopic(name.asText()).id()));
        for (JsonNode topic : operation.get("topics")) {
            Uuid id = new Uuid(0, topic.get("id").asLong());
            int first = 0;
            if (image.topics().getTopic(id) == null)
                delta.replay(new TopicRecord().setName(topic.get("name").asText()).setTopicId(id));
            else
                first = image.topics().getTopic(id).partitions().size();
            for (int index = first; index < topic.get("count").asInt(); index++)
                delta.replay(new PartitionRecord().setTopicId(id).setPartitionId(index).setLeader(1)
                    .setReplicas(List.of(1, 2, 3)).setIsr(List.of(1, 2, 3)));
        }
        image = delta.apply(new MetadataProvenance(operation.get("offset").asLong(), 1, 0, true));
        manager.onMetadataUpdate(new KRaftCoordinatorMetadataDelta(delta), new KRaftCoordinatorMetadataImage(image));
    }
}
"""


def answers_of_kafka(scenarios: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """What Kafka answers to each operation of each scenario."""
    done = run_java_source(SOURCE, stdin=json.dumps(list(scenarios)), timeout_s=300)
    answers: list[list[dict[str, Any]]] = json.loads(done.stdout)
    return answers
