"""Settings held against Kafka's own definitions: every name, type, default, bound and update mode; what texts mean."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import known_settings
import pytest
from interop.kafka_peer import run_java_source

from penstock.config.broker.quotas import DROPPED
from penstock.config.known import KNOWN
from penstock.config.server import SETTINGS
from penstock.config.setting import Setting
from penstock.config.topic import TOPIC_SETTINGS
from penstock.errors import ConfigError

pytestmark = pytest.mark.java

PARSE = """
import java.util.Base64;
import java.util.Map;
import java.util.Scanner;
import org.apache.kafka.common.config.ConfigDef;

public class ParseSettings {
    public static void main(String[] arguments) {
        Map<String, ConfigDef> definitions = Map.of("broker", kafka.server.KafkaConfig.configDef(),
            "topic", org.apache.kafka.storage.internals.log.LogConfig.configDefCopy());
        Scanner lines = new Scanner(System.in);
        StringBuilder out = new StringBuilder();
        while (lines.hasNextLine()) {
            String[] parts = lines.nextLine().split(" ", -1);
            ConfigDef.ConfigKey key = definitions.get(parts[0]).configKeys().get(parts[1]);
            try {
                String text = new String(Base64.getDecoder().decode(parts[2]));
                Object value = ConfigDef.parseType(key.name, text, key.type);
                if (key.validator != null) key.validator.ensureValid(key.name, value);
                out.append("=").append(ConfigDef.convertToString(value, key.type)).append("\\n");
            } catch (org.apache.kafka.common.config.ConfigException wrong) {
                out.append("refused\\n");
            }
        }
        System.out.print(out);
    }
}
"""

OWN = "penstock."
"""How names begin that Kafka does not have."""
OF_THE_AUTHORIZER = {"super.users", "allow.everyone.if.no.acl.found"}
"""What Kafka's StandardAuthorizer reads by itself, without a definition."""
DIFFERENCES = {
    ("leader.replication.throttled.replicas", ","): "two empty replicas are refused here",
    ("follower.replication.throttled.replicas", ","): "two empty replicas are refused here",
    ("group.coordinator.rebalance.protocols", ""): "has no meaning here",
    ("group.coordinator.rebalance.protocols", " "): "has no meaning here",
    **{("sasl.server.max.receive.size", text): "no login would fit" for text in ("-1", "-2", "0")},
    **{
        ("log.cleaner.io.buffer.load.factor", text): "no table can be filled so far, or none of it is used"
        for text in (
            *("5", " 5 ", "+5", "-1", "-2", "0", "1.5", "1e3", "NaN", "2147483648", "-9223372036854775809"),
            "9223372036854775807",
        )
    },
}

REFUSED = {
    "max.connections.per.ip.overrides": "Kafka finds at start what is no entry; names of hosts are not looked up here",
    "ssl.keystore.type": "Kafka finds at start that there is no such store",
    "ssl.truststore.type": "Kafka finds at start that there is no such store",
    "ssl.endpoint.identification.algorithm": "Java finds at the first connection that there is no such algorithm",
    "ssl.enabled.protocols": "Kafka finds at start that there is no such protocol",
    "sasl.kerberos.principal.to.local.rules": "Kafka finds at the first login that a rule cannot be read",
    "sasl.oauthbearer.clock.skew.seconds": "a skew below 0 would end tokens before their time",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": "keys would be fetched without a pause",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "keys would be fetched without a pause",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "keys would be fetched without a pause",
}
"""Settings of which more is refused as they are read."""


@pytest.fixture(scope="module")
def facts(kafka_jars: None) -> dict[str, dict[str, dict[str, Any]]]:
    return known_settings.kafka_facts()


def declared() -> list[tuple[str, Setting[Any]]]:
    kinds = {"broker": SETTINGS, "topic": TOPIC_SETTINGS}
    found = [(kind, each) for kind, of in kinds.items() for each in of.values() if not each.name.startswith(OWN)]
    return [(kind, each) for kind, each in found if each.name not in {*OF_THE_AUTHORIZER, *DROPPED}]


def test_every_setting_of_kafka_is_declared_or_known(facts: dict[str, dict[str, dict[str, Any]]]) -> None:
    own = {name for name in (*SETTINGS, *TOPIC_SETTINGS) if name.startswith(OWN)}
    assert (set(SETTINGS) | set(KNOWN)) - own - OF_THE_AUTHORIZER - set(DROPPED) == set(facts["broker"])
    assert set(DROPPED).isdisjoint(facts["broker"])
    assert set(TOPIC_SETTINGS) - own == set(facts["topic"])


def test_the_table_of_known_settings_is_current(facts: dict[str, dict[str, dict[str, Any]]]) -> None:
    table = known_settings.table(facts["broker"], set(SETTINGS))
    assert table in known_settings.TARGET.read_text(), "run tools/known_settings.py"


def test_declared_settings_have_the_types_defaults_and_modes_of_kafka(
    facts: dict[str, dict[str, dict[str, Any]]],
) -> None:
    differences = []
    for kind, setting in declared():
        fact = facts[kind][setting.name]
        default = None if setting.required else setting.type.print(setting.default)
        ours = (setting.type.name, default, setting.required, setting.internal, setting.dynamic.value)
        theirs = (fact["type"], fact["default"], fact["required"], fact["internal"], fact["mode"])
        if ours != theirs:
            differences.append((setting.name, ours, theirs))
    assert differences == []


def texts(setting: Setting[Any], fact: dict[str, Any]) -> Iterator[str]:
    """Values worth trying: the default, both sides of each bound, and what a person might write by mistake."""
    yield from ("", " ", "5", " 5 ", "+5", "-1", "-2", "0", "abc", "1.5", "1e3", "0x10", "10k", "1_000", "NaN", "1f")
    yield from ("true", "TRUE", " False ", "yes", "2147483648", "-9223372036854775809", "9223372036854775807", "٣")
    yield from ("a,b", "a, b", "a,a", "a,,b", ",", "a,", "*", "1:2", "1:2,3:4", "1:x", "compact", "delete,compact")
    yield from ("lz4", "LZ4", "CreateTime", "uncompressed", "none", "broker,controller", "PLAINTEXT")
    if fact["default"] is not None:
        yield fact["default"]
    for bound in known_settings.bounds(fact)[:2]:
        if bound:
            yield from (bound, str(int(float(bound)) - 1), str(int(float(bound)) + 1))


def test_every_text_means_what_it_means_to_kafka(facts: dict[str, dict[str, dict[str, Any]]]) -> None:
    known = [("broker", setting) for setting in KNOWN.values()]
    asked = [
        (kind, setting, text)
        for kind, setting in declared() + known
        if setting.type.name != "CLASS"
        for text in texts(setting, facts[kind][setting.name])
    ]
    questions = "".join(f"{kind} {s.name} {base64.b64encode(text.encode()).decode()}\n" for kind, s, text in asked)
    answers = run_java_source(PARSE, stdin=questions).stdout.split("\n")[:-1]
    assert len(answers) == len(asked)
    differences = []
    for (kind, setting, text), theirs in zip(asked, answers, strict=True):
        try:
            ours = f"={setting.type.redacted(setting.parse(text))}"
        except ConfigError:
            ours = "refused"
        refused = ours == "refused" and setting.name in REFUSED
        if ours != theirs and not refused and (setting.name, text) not in DIFFERENCES:
            differences.append((kind, setting.name, text, ours, theirs))
    assert differences == []
