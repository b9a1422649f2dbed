"""Kafka's assignors as a program: cases in, assignments out, one JVM for all of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from uuid import UUID

from interop.kafka_peer import run_java_source

from penstock.coordinator.group.assignors import GroupSpec, Partitions

SOURCE = """
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

public class AssignorPeer {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        ArrayNode answers = JSON.createArrayNode();
        for (JsonNode each : JSON.readTree(System.in)) answers.add(answer(each));
        System.out.println(JSON.writeValueAsString(answers));
    }

    static Uuid id(String text) {
        return new Uuid(half(text.substring(0, 16)), half(text.substring(16)));
    }

    static long half(String text) {
        return Long.parseUnsignedLong(text, 16);
    }

    static String text(Uuid id) {
        return String.format("%016x%016x", id.getMostSignificantBits(), id.getLeastSignificantBits());
    }

    static ObjectNode answer(JsonNode each) {
        Map<Uuid, Integer> counts = new HashMap<>();
        each.get("topics").fields().forEachRemaining(entry -> counts.put(id(entry.getKey()), entry.getValue().asInt()));
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        for (JsonNode member : each.get("members")) {
            Set<Uuid> topics = new LinkedHashSet<>();
            for (JsonNode topic : member.get("topics")) topics.add(id(topic.asText()));
            Map<Uuid, Set<Integer>> assigned = new LinkedHashMap<>();
            member.get("assigned").fields().forEachRemaining(entry -> {
                Set<Integer> numbers = new TreeSet<>();
                for (JsonNode number : entry.getValue()) {
                    numbers.add(number.asInt());
                    owners.computeIfAbsent(id(entry.getKey()), key -> new HashMap<>())
                        .put(number.asInt(), member.get("id").asText());
                }
                assigned.put(id(entry.getKey()), numbers);
            });
            members.put(member.get("id").asText(), new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), Optional.ofNullable(member.get("instance").textValue()), topics,
                new Assignment(assigned)));
        }
        ConsumerGroupPartitionAssignor assignor =
            each.get("assignor").asText().equals("range") ? new RangeAssignor() : new UniformAssignor();
        SubscriptionType type =
            each.get("homogeneous").asBoolean() ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        GroupAssignment result = assignor.assign(
            new GroupSpecImpl(Collections.unmodifiableMap(members), type, owners),
            new SubscribedTopicDescriber() {
                public int numPartitions(Uuid topic) { return counts.getOrDefault(topic, -1); }
                public Set<String> racksForPartition(Uuid topic, int number) { return Set.of(); }
            });
        ObjectNode answer = JSON.createObjectNode();
        for (Map.Entry<String, MemberAssignment> entry : result.members().entrySet()) {
            ObjectNode partitions = answer.putObject(entry.getKey());
            entry.getValue().partitions().forEach((topic, numbers) -> {
                ArrayNode list = partitions.putArray(text(topic));
                new TreeSet<>(numbers).forEach(list::add);
            });
        }
        return answer;
    }
}
"""


def case(assignor: str, spec: GroupSpec) -> dict[str, object]:
    """A group as the program reads it."""
    return {
        "assignor": assignor,
        "homogeneous": spec.homogeneous,
        "topics": {topic.hex: count for topic, count in spec.partition_counts.items()},
        "members": [
            {
                "id": member_id,
                "instance": member.instance_id,
                "topics": [topic.hex for topic in member.topics],
                "assigned": {topic.hex: numbers for topic, numbers in member.assigned.items()},
            }
            for member_id, member in spec.members.items()
        ],
    }


def assignments_of_kafka(cases: Sequence[tuple[str, GroupSpec]]) -> list[Mapping[str, Partitions]]:
    """What Kafka assigns in each case: (name of the assignor, group)."""
    text = json.dumps([case(*each) for each in cases])
    answers = json.loads(run_java_source(SOURCE, stdin=text, timeout_s=300).stdout)
    return [
        {
            member_id: {UUID(topic): tuple(numbers) for topic, numbers in partitions.items()}
            for member_id, partitions in answer.items()
        }
        for answer in answers
    ]
