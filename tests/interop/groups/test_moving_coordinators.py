"""Tools at work on groups while their coordinators move from broker to broker: none of what they do is lost.

A coordinator that has not heard yet that another took over answers by what it knew, here as in Apache Kafka; so what
was written is read until it is seen.

The leaders of `__consumer_offsets` are moved all along. Java's admin client sets, reads (only what is stable) and
deletes offsets and groups, several groups in a request; librdkafka's sets and deletes, and ours reads.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from interop.kafka_peer import run_java_source
from support.processes import Cluster, wait_until

from penstock.client.client import Client
from penstock.client.cluster import ElectionType, alter_reassignments, elect_leaders
from penstock.client.groups import committed

logger = logging.getLogger(__name__)
pytestmark = [pytest.mark.java, pytest.mark.slow]

TOPIC, PARTITIONS = "t", 3
COORDINATORS = 6
NODES = (1, 2, 3)
SECONDS = 8
GROUPS = [f"librdkafka-{number}" for number in range(8)]

ADMIN = """
import java.io.FileReader;
import java.util.*;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.GroupIdNotFoundException;

public class MovingCoordinators {
    static final List<String> GROUPS = new ArrayList<>();
    static Map<TopicPartition, OffsetAndMetadata> offsets(long from) {
        Map<TopicPartition, OffsetAndMetadata> map = new HashMap<>();
        for (int each = 0; each < 3; each++)
            map.put(new TopicPartition("t", each), new OffsetAndMetadata(from + each, "round " + from));
        return map;
    }

    static void check(Admin admin, Map<TopicPartition, OffsetAndMetadata> wanted) throws Exception {
        Map<String, ListConsumerGroupOffsetsSpec> specs = new HashMap<>();
        for (String group : GROUPS) specs.put(group, new ListConsumerGroupOffsetsSpec());
        long end = System.nanoTime() + 30_000_000_000L;
        String wrong;
        do {
            wrong = null;
            var stable = new ListConsumerGroupOffsetsOptions().requireStable(true);
            var found = admin.listConsumerGroupOffsets(specs, stable);
            for (String group : GROUPS) {
                var has = found.partitionsToOffsetAndMetadata(group).get();
                if (!has.equals(wanted)) wrong = group + " has " + has + " instead of " + wanted;
            }
        } while (wrong != null && System.nanoTime() < end);
        if (wrong != null) throw new AssertionError(wrong);
    }

    public static void main(String[] arguments) throws Exception {
        for (int each = 0; each < 8; each++) GROUPS.add("java-" + each);
        Properties settings = new Properties();
        String login = System.getenv("CLIENT_PROPERTIES");
        if (login != null) try (FileReader text = new FileReader(login)) { settings.load(text); }
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("retries", "1000");
        settings.put("default.api.timeout.ms", "60000");
        long end = System.nanoTime() + Long.parseLong(arguments[1]) * 1_000_000_000L;
        int rounds = 0;
        try (Admin admin = Admin.create(settings)) {
            for (; System.nanoTime() < end; rounds++) {
                var wanted = offsets(rounds);
                for (String group : GROUPS) admin.alterConsumerGroupOffsets(group, wanted).all().get();
                check(admin, wanted);
                var gone = new TopicPartition("t", 1);
                for (String group : GROUPS) admin.deleteConsumerGroupOffsets(group, Set.of(gone)).all().get();
                wanted.remove(gone);
                check(admin, wanted);
                for (var described : admin.describeConsumerGroups(GROUPS).all().get().values())
                    if (!described.groupState().toString().equals("Empty")) throw new AssertionError(described);
                for (var result : admin.deleteConsumerGroups(GROUPS).deletedGroups().values()) {
                    try {
                        result.get();
                    } catch (ExecutionException wrong) {  // the answer to the first try was lost
                        if (!(wrong.getCause() instanceof GroupIdNotFoundException)) throw wrong;
                    }
                }
                check(admin, Map.of());
            }
        }
        System.out.println(rounds);
    }
}
"""


@contextmanager
def moving(bootstrap: str) -> Iterator[list[int]]:
    """Moves the leaders of `__consumer_offsets` from node to node until the block ends; gives what node leads now."""
    ended = threading.Event()
    leaders: list[int] = []

    async def move() -> None:
        keys = [("__consumer_offsets", each) for each in range(COORDINATORS)]
        async with Client(bootstrap, timeout_ms=20_000) as client:
            while not ended.is_set():
                first = len(leaders) % len(NODES)
                order = NODES[first:] + NODES[:first]
                # each partition another node first, so that every node coordinates some groups
                wanted = {key: order[key[1] % 3 :] + order[: key[1] % 3] for key in keys}
                refused = {key: error for key, error in (await alter_reassignments(client, wanted)).items() if error}
                assert not refused, refused
                await elect_leaders(client, ElectionType.PREFERRED, keys)
                leaders.append(order[0])
                await asyncio.sleep(0.3)

    failed: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(move())
        except BaseException as error:  # told where the block ends
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield leaders
    finally:
        ended.set()
        thread.join()
    assert not failed, failed


MOVED = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)


def until_told(ask: Callable[[], None], *fine: int) -> None:
    """Asks until no coordinator is on the move, which librdkafka's admin client leaves to us; or for an error that is
    `fine`."""

    def told() -> bool:
        try:
            ask()
        except KafkaException as error:
            code = error.args[0].code()
            if code not in (*MOVED, *fine):
                raise
            return code in fine
        return True

    wait_until(told, "a coordinator stays where it is for a moment")


def offsets_of(bootstrap: str, group: str) -> dict[int, int]:
    """What the group has committed, by our own client: librdkafka's crashes when it hears NOT_COORDINATOR here."""

    async def ask() -> dict[int, int]:
        async with Client(bootstrap, timeout_ms=20_000) as client:
            return {place[1]: at.offset for place, at in (await committed(client, group)).items()}

    return asyncio.run(ask())


def until_seen(bootstrap: str, group: str, wanted: dict[int, int]) -> None:
    """Reads until these are the group's offsets."""
    wait_until(lambda: offsets_of(bootstrap, group) == wanted, f"{group} has the offsets {wanted}")


def set_offsets(admin: AdminClient, group: str, offset: int) -> None:
    """Commits for a group without members."""
    places = [TopicPartition(TOPIC, each, offset + each) for each in range(PARTITIONS)]

    def ask() -> None:
        asked = [ConsumerGroupTopicPartitions(group, places)]
        answer = admin.alter_consumer_group_offsets(asked, request_timeout=30)[group].result()
        for each in answer.topic_partitions:
            if each.error:
                raise KafkaException(each.error)

    until_told(ask)


def delete(admin: AdminClient, group: str) -> None:
    """Deletes a group; where it is gone already the answer to an earlier try was lost."""

    def ask() -> None:
        admin.delete_consumer_groups([group], request_timeout=30)[group].result()

    until_told(ask, KafkaError.GROUP_ID_NOT_FOUND)


def test_offsets_and_groups_are_set_read_and_deleted_while_coordinators_move(tmp_path: Path) -> None:
    with Cluster(tmp_path, offsets_topic_num_partitions=COORDINATORS) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(30)
        set_offsets(admin, "first", 0)
        java: list[str] = []
        tool = threading.Thread(
            target=lambda: java.append(run_java_source(ADMIN, cluster.bootstrap, SECONDS).stdout.strip())
        )
        with moving(cluster.bootstrap) as leaders:
            tool.start()
            rounds = 0
            while tool.is_alive():
                for number, group in enumerate(GROUPS):
                    set_offsets(admin, group, rounds + number)
                    until_seen(cluster.bootstrap, group, {each: rounds + number + each for each in range(PARTITIONS)})
                    delete(admin, group)
                    until_seen(cluster.bootstrap, group, {})
                rounds += 1
            tool.join()
        assert java, "Java's admin client failed: its output is above"
        logger.info("rounds of Java %s, of librdkafka %s, moves of coordinators %s", java[0], rounds, len(leaders))
        assert int(java[0]) >= 2
        assert rounds >= 2
        assert len(set(leaders)) == len(NODES), "coordinators were moved over all nodes"
        assert offsets_of(cluster.bootstrap, "first") == {0: 0, 1: 1, 2: 2}
