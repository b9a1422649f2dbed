"""Kafka's coordinator of classic groups and offsets: its GroupCoordinatorShard, with a clock and timers that we move.

A scenario is a list of operations: a request as JSON, time to pass, or a fail-over. Requests come from clients with
numbers; a text `$id3` in a request stands for the member id that client 3 was told last, `$gen3+1` for one more than
its generation, `$members3` for the assignment that it makes if it leads. Each operation is answered with the records
that it wrote and with all answers that left: to which operation, the response, or the error.
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
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorExecutor;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetrics;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetricsShard;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorResult;
import org.apache.kafka.coordinator.common.runtime.CoordinatorTimer;
import org.apache.kafka.coordinator.group.GroupConfigManager;
import org.apache.kafka.coordinator.group.GroupCoordinatorConfig;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.GroupCoordinatorShard;
import org.apache.kafka.coordinator.group.GroupMetadataManager;
import org.apache.kafka.coordinator.group.OffsetMetadataManager;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetricsShard;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfig;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.timeline.SnapshotRegistry;

public class ClassicPeer {
    static final ObjectMapper JSON = new ObjectMapper();
    static final HexFormat HEX = HexFormat.of();
    static final CoordinatorMetrics NO_METRICS = new CoordinatorMetrics() {
        public CoordinatorMetricsShard newMetricsShard(SnapshotRegistry registry, TopicPartition partition) {
            return null;
        }
        public void activateMetricsShard(CoordinatorMetricsShard shard) { }
        public void deactivateMetricsShard(CoordinatorMetricsShard shard) { }
        public MetricName metricName(String name, String description, Map<String, String> tags) { return null; }
        public void onUpdateLastCommittedOffset(TopicPartition partition, long offset) { }
    };

    public static void main(String[] arguments) throws Exception {
        ArrayNode answers = JSON.createArrayNode();
        for (JsonNode scenario : JSON.readTree(System.in)) {
            ArrayNode each = answers.addArray();
            ClassicPeer peer = new ClassicPeer(scenario.get("now").asLong(), scenario.get("config"));
            int number = 0;
            for (JsonNode operation : scenario.get("operations")) each.add(peer.answer(operation, number++));
        }
        System.out.println(JSON.writeValueAsString(answers));
    }

    static class Timer {
        long deadline;
        long order;
        CoordinatorTimer.TimeoutOperation<CoordinatorRecord> operation;
    }

    final GroupCoordinatorRecordSerde serde = new GroupCoordinatorRecordSerde();
    final Map<String, Timer> timers = new LinkedHashMap<>();
    final Map<String, String> ids = new HashMap<>();
    final Map<String, Integer> generations = new HashMap<>();
    final Map<String, JoinGroupResponseData> joined = new HashMap<>();
    final Map<Integer, Runnable> heard = new TreeMap<>();
    final List<CoordinatorRecord> log = new ArrayList<>();
    final GroupCoordinatorConfig config;
    GroupCoordinatorShard shard;
    long now;
    long order;
    ArrayNode written;
    ArrayNode left;

    ClassicPeer(long now, JsonNode config) throws Exception {
        this.now = now;
        Map<String, String> properties = JSON.convertValue(config, Map.class);
        this.config = GroupCoordinatorConfig.fromProps(properties);
        load();
    }

    void load() throws Exception {
        timers.clear();
        SnapshotRegistry registry = new SnapshotRegistry(new LogContext());
        Time time = proxy(Time.class, (self, method, values) -> switch (method.getName()) {
            case "milliseconds" -> this.now;
            case "nanoseconds" -> this.now * 1_000_000;
            default -> InvocationHandler.invokeDefault(self, method, values);
        });
        CoordinatorTimer<CoordinatorRecord> timer = new CoordinatorTimer<CoordinatorRecord>() {
            public void schedule(String key, long delay, TimeUnit unit, boolean retry,
                                 CoordinatorTimer.TimeoutOperation<CoordinatorRecord> operation) {
                Timer timer = new Timer();
                timer.deadline = ClassicPeer.this.now + unit.toMillis(delay);
                timer.order = order++;
                timer.operation = operation;
                timers.remove(key);
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
        };
        CoordinatorExecutor<CoordinatorRecord> executor = new CoordinatorExecutor<CoordinatorRecord>() {
            public <R> boolean schedule(String key, CoordinatorExecutor.TaskRunnable<R> task,
                                        CoordinatorExecutor.TaskOperation<CoordinatorRecord, R> operation) {
                return false;
            }
            public boolean isScheduled(String key) { return false; }
            public void cancel(String key) { }
        };
        GroupCoordinatorMetricsShard metrics =
            new GroupCoordinatorMetricsShard(registry, Map.of(), new TopicPartition("__consumer_offsets", 0));
        GroupMetadataManager groups = (GroupMetadataManager) build(new GroupMetadataManager.Builder(), Map.of(
            "SnapshotRegistry", registry, "Time", time, "Timer", timer, "Executor", executor, "Config", config,
            "GroupConfigManager", new GroupConfigManager(Map.of(), config, ShareGroupConfig.fromProps(Map.of())),
            "GroupCoordinatorMetricsShard", metrics));
        OffsetMetadataManager offsets = (OffsetMetadataManager) build(new OffsetMetadataManager.Builder(), Map.of(
            "SnapshotRegistry", registry, "Time", time, "GroupMetadataManager", groups,
            "GroupCoordinatorConfig", config, "GroupCoordinatorMetricsShard", metrics));
        Constructor<?> constructor = GroupCoordinatorShard.class.getDeclaredConstructors()[0];
        constructor.setAccessible(true);
        shard = (GroupCoordinatorShard) constructor.newInstance(
            new LogContext(), groups, offsets, time, timer, config, NO_METRICS, metrics);
        for (CoordinatorRecord record : log) shard.replay(0L, -1L, (short) -1, record);
        shard.onLoaded(CoordinatorMetadataImage.EMPTY);
    }

    static Object build(Object builder, Map<String, Object> values) throws Exception {
        for (Map.Entry<String, Object> value : values.entrySet())
            for (Method method : builder.getClass().getDeclaredMethods())
                if (method.getName().equals("with" + value.getKey())) {
                    method.setAccessible(true);
                    method.invoke(builder, value.getValue());
                }
        Method build = builder.getClass().getDeclaredMethod("build");
        build.setAccessible(true);
        return build.invoke(builder);
    }

    static <T> T proxy(Class<T> type, InvocationHandler handler) {
        return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, handler));
    }

    ObjectNode answer(JsonNode operation, int number) throws Exception {
        ObjectNode answer = JSON.createObjectNode();
        written = answer.putArray("records");
        left = answer.putArray("answers");
        switch (operation.get("kind").asText()) {
            case "advance" -> advance(operation.get("ms").asLong());
            case "fail over" -> {
                shard.onUnloaded();
                load();
            }
            default -> request(operation, number);
        }
        heard.values().forEach(Runnable::run);
        heard.clear();
        return answer;
    }

    void hear(String client, JoinGroupResponseData response) {
        if (!response.memberId().isEmpty()) ids.put(client, response.memberId());
        if (response.errorCode() == 0) {
            generations.put(client, response.generationId());
            joined.put(client, response);
        }
    }

    void tell(int number, ApiMessage response, short version) {
        ByteBuffer encoded = MessageUtil.toByteBufferAccessor(response, version).buffer();
        byte[] array = new byte[encoded.remaining()];
        encoded.get(array);
        left.addObject().put("to", number).put("response", HEX.formatHex(array));
    }

    void request(JsonNode operation, int number) throws Exception {
        short version = (short) operation.get("version").asInt();
        String client = operation.get("client").asText();
        JsonNode request = resolve(operation.get("request"));
        AuthorizableRequestContext context = proxy(AuthorizableRequestContext.class, (self, method, values) ->
            switch (method.getName()) {
                case "clientId" -> "c";
                case "clientAddress" -> InetAddress.getByName("127.0.0.1");
                case "requestVersion" -> (int) version;
                default -> null;
            });
        try {
            switch (operation.get("kind").asText()) {
                case "join" -> {
                    CompletableFuture<JoinGroupResponseData> future = new CompletableFuture<>();
                    future.thenAccept(response -> {
                        if (version < 7 && response.protocolName() == null) response.setProtocolName("");
                        heard.put(number, () -> hear(client, response));
                        tell(number, response, version);
                    });
                    apply(shard.classicGroupJoin(
                        context, JoinGroupRequestDataJsonConverter.read(request, version), future));
                }
                case "sync" -> {
                    CompletableFuture<SyncGroupResponseData> future = new CompletableFuture<>();
                    future.thenAccept(response -> tell(number, response, version));
                    apply(shard.classicGroupSync(
                        context, SyncGroupRequestDataJsonConverter.read(request, version), future));
                }
                case "heartbeat" -> tell(number, apply(shard.classicGroupHeartbeat(
                    context, HeartbeatRequestDataJsonConverter.read(request, version))), version);
                case "leave" -> tell(number, apply(shard.classicGroupLeave(
                    context, LeaveGroupRequestDataJsonConverter.read(request, version))), version);
                case "commit" -> tell(number, apply(shard.commitOffset(
                    context, OffsetCommitRequestDataJsonConverter.read(request, version))), version);
                case "fetch" -> {
                    OffsetFetchRequestData fetch = OffsetFetchRequestDataJsonConverter.read(request, version);
                    OffsetFetchRequestData.OffsetFetchRequestGroup group = fetch.groups().get(0);
                    tell(number, new OffsetFetchResponseData().setGroups(List.of(
                        shard.fetchOffsets(group, Long.MAX_VALUE))), version);
                }
                case "delete offsets" -> tell(number, apply(shard.deleteOffsets(
                    context, OffsetDeleteRequestDataJsonConverter.read(request, version))), version);
                case "delete groups" -> tell(number, new DeleteGroupsResponseData().setResults(apply(shard.deleteGroups(
                    context, DeleteGroupsRequestDataJsonConverter.read(request, version).groupsNames()))), version);
                case "describe" -> {
                    DescribeGroupsRequestData describe = DescribeGroupsRequestDataJsonConverter.read(request, version);
                    tell(number, new DescribeGroupsResponseData().setGroups(
                        shard.describeGroups(context, describe.groups(), Long.MAX_VALUE)), version);
                }
                case "list" -> {
                    ListGroupsRequestData list = ListGroupsRequestDataJsonConverter.read(request, version);
                    tell(number, new ListGroupsResponseData().setGroups(shard.listGroups(
                        list.statesFilter(), list.typesFilter(), Long.MAX_VALUE)), version);
                }
                default -> throw new IllegalArgumentException(operation.toString());
            }
        } catch (ApiException error) {
            left.addObject().put("to", number).put("code", Errors.forException(error).code())
                .put("message", error.getMessage());
        }
    }

    JsonNode resolve(JsonNode node) {
        if (node.isObject()) {
            ObjectNode object = JSON.createObjectNode();
            node.fields().forEachRemaining(field -> object.set(field.getKey(), resolve(field.getValue())));
            return object;
        }
        if (node.isArray()) {
            ArrayNode array = JSON.createArrayNode();
            node.forEach(each -> array.add(resolve(each)));
            return array;
        }
        String text = node.isTextual() ? node.textValue() : "";
        if (text.startsWith("$id")) return JSON.getNodeFactory().textNode(ids.getOrDefault(text.substring(3), ""));
        if (text.startsWith("$gen")) {
            String[] parts = text.substring(4).split("[+]");
            int generation = generations.getOrDefault(parts[0], -1) + Integer.parseInt(parts[1]);
            return JSON.getNodeFactory().numberNode(generation);
        }
        if (text.startsWith("$members")) {
            ArrayNode assignments = JSON.createArrayNode();
            JoinGroupResponseData response = joined.get(text.substring(8));
            if (response != null)
                for (JoinGroupResponseData.JoinGroupResponseMember member : response.members())
                    assignments.addObject().put("memberId", member.memberId()).put("assignment", member.metadata());
            return assignments;
        }
        return node;
    }

    <T> T apply(CoordinatorResult<T, CoordinatorRecord> result) {
        for (CoordinatorRecord record : result.records()) {
            ArrayNode pair = written.addArray();
            pair.add(HEX.formatHex(serde.serializeKey(record)));
            byte[] value = serde.serializeValue(record);
            if (value == null) pair.addNull(); else pair.add(HEX.formatHex(value));
            log.add(record);
            if (result.replayRecords()) shard.replay(0L, -1L, (short) -1, record);
        }
        if (result.appendFuture() != null) result.appendFuture().complete(null);
        return result.response();
    }

    void advance(long ms) {
        long target = now + ms;
        while (true) {
            String first = null;
            for (Map.Entry<String, Timer> entry : timers.entrySet()) {
                Timer timer = entry.getValue(), best = first == null ? null : timers.get(first);
                if (timer.deadline <= target && (best == null || timer.deadline < best.deadline
                    || timer.deadline == best.deadline && timer.order < best.order)) first = entry.getKey();
            }
            if (first == null) break;
            Timer timer = timers.remove(first);
            now = Math.max(now, timer.deadline);
            apply(timer.operation.generateRecords());
        }
        now = target;
    }
}
"""


def answers_of_kafka(scenarios: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """What Kafka does at each operation of each scenario."""
    done = run_java_source(SOURCE, stdin=json.dumps(list(scenarios)), timeout_s=300)
    answers: list[list[dict[str, Any]]] = json.loads(done.stdout)
    return answers
