"""What a group's configs and the broker's settings of groups may be, as Kafka's own classes say it."""

from __future__ import annotations

import base64

import pytest
from interop.kafka_peer import run_java_source

from penstock.config.group import GROUP_SETTINGS, GroupConfigs
from penstock.config.server import Settings
from penstock.errors import ConfigError

pytestmark = pytest.mark.java

CHECK = """
import java.util.*;
import kafka.server.KafkaConfig;
import org.apache.kafka.coordinator.group.GroupConfig;

public class CheckGroupConfigs {
    static Map<String, String> pairs(String encoded) {
        Map<String, String> read = new LinkedHashMap<>();
        for (String pair : new String(Base64.getDecoder().decode(encoded)).split(";"))
            if (!pair.isEmpty()) read.put(pair.split("=", 2)[0], pair.split("=", 2)[1]);
        return read;
    }

    public static void main(String[] arguments) {
        Scanner lines = new Scanner(System.in);
        System.out.println(String.join(",", new TreeSet<>(GroupConfig.configNames())));
        while (lines.hasNextLine()) {
            String[] parts = lines.nextLine().split(" ", -1);
            try {
                KafkaConfig broker = new KafkaConfig(new HashMap<>(pairs(parts[0])), false);
                GroupConfig.validate(pairs(parts[1]), broker.groupCoordinatorConfig(), broker.shareGroupConfig());
                System.out.println("fine");
            } catch (Exception wrong) {
                System.out.println("refused " + wrong.getMessage().replace("\\n", " "));
            }
        }
    }
}
"""
NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
}
CONSUMER, SHARE = "group.consumer.", "group.share."
BROKERS: list[dict[str, str]] = [
    {},
    {CONSUMER + "heartbeat.interval.ms": "4999"},
    {CONSUMER + "heartbeat.interval.ms": "15001"},
    {CONSUMER + "min.heartbeat.interval.ms": "5001"},
    {CONSUMER + "max.heartbeat.interval.ms": "4999"},
    {CONSUMER + "session.timeout.ms": "44999"},
    {CONSUMER + "session.timeout.ms": "60001"},
    {CONSUMER + "min.session.timeout.ms": "45001"},
    {CONSUMER + "max.session.timeout.ms": "44999"},
    {CONSUMER + "assignment.interval.ms": "15001"},
    {CONSUMER + "min.assignment.interval.ms": "1001"},
    {CONSUMER + "max.assignment.interval.ms": "999"},
    {CONSUMER + "min.session.timeout.ms": "1", CONSUMER + "session.timeout.ms": "5000"},
    {CONSUMER + "min.session.timeout.ms": "1", CONSUMER + "session.timeout.ms": "5001"},
]
"""Settings of a broker beside the default ones; some are refused."""
WIDE = {
    CONSUMER + "min.heartbeat.interval.ms": "100",
    CONSUMER + "min.session.timeout.ms": "1000",
    SHARE + "max.delivery.count.limit": "25",
}
TEXTS = ("", " ", "0", "1", "x", "-1", "2", "99", "100", "999", "1000", "5000", "10", "11", "14999", "15000", "15001")
MORE = ("44999", "45000", "45001", "60000", "60001", "2147483648", "latest", "earliest", "LATEST", " latest ")
DURATIONS = (
    "PT1H",
    "P1DT2H3M4.5S",
    "P",
    "PT",
    "P1DT",
    "-PT1H",
    "PT-1H",
    "PT1H-61M",
    "P1D",
    "pt1s",
    "PT1.5H",
    "P1W",
    "",
)
WORDS = ("read_committed", "READ_COMMITTED", "read_uncommitted", "true", "FALSE", "yes", *MORE)
PAIRS = [
    {f"{kind}.session.timeout.ms": session, f"{kind}.heartbeat.interval.ms": heartbeat}
    for kind in ("consumer", "share", "streams")
    for session, heartbeat in (("50000", "6000"), ("45000", "15000"), ("5000", "5000"), ("5001", "5000"), ("1", "1"))
]


def cases() -> list[tuple[dict[str, str], dict[str, str]]]:
    """A broker's settings, and configs for one of its groups."""
    texts = [*TEXTS, *WORDS, *(f"by_duration:{each}" for each in DURATIONS)]
    configs = [{name: text} for name in GROUP_SETTINGS for text in texts] + PAIRS
    configs += [{"share.mistaken": "1"}, {"consumer.assignor.offload.enable": "true"}, {"session.timeout.ms": "1"}]
    return [(broker, {}) for broker in BROKERS] + [(broker, each) for broker in ({}, WIDE) for each in configs]


def ours(broker: dict[str, str], configs: dict[str, str]) -> str:
    """`fine`, or why not."""
    try:
        settings = Settings.from_properties(NODE | broker)
        if configs:  # else it is the broker that is looked at
            GroupConfigs.resolve(settings, configs).check(settings, configs)
    except ConfigError as wrong:
        return f"refused {wrong}"
    return "fine"


def encoded(pairs: dict[str, str]) -> str:
    return base64.b64encode(";".join(f"{name}={value}" for name, value in pairs.items()).encode()).decode()


def test_what_is_refused_is_what_kafka_refuses(kafka_jars: None) -> None:
    asked = cases()
    lines = "".join(f"{encoded(NODE | broker)} {encoded(configs)}\n" for broker, configs in asked)
    names, *verdicts = run_java_source(CHECK, stdin=lines).stdout.splitlines()
    assert names.split(",") == sorted(GROUP_SETTINGS)
    differing = [
        (broker, configs, theirs, mine)
        for (broker, configs), theirs in zip(asked, verdicts, strict=True)
        if (mine := ours(broker, configs)).split()[0] != theirs.split()[0]
        or ("group." in theirs and not broker and mine != theirs)  # what is out of bounds is named in the same words
    ]
    assert differing == []
    assert {"fine", "refused"} == {each.split()[0] for each in verdicts}
