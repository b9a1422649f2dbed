"""Settings: values by layer, errors that a person can act on, and Kafka's rules between settings."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from penstock.config import properties
from penstock.config.crosscheck import KNOWN_CLASSES
from penstock.config.describe import describe_broker
from penstock.config.dynamic import check_dynamic
from penstock.config.group import GROUP_SETTINGS
from penstock.config.listeners import Endpoint, Voter
from penstock.config.server import SETTINGS, Settings
from penstock.config.setting import Group, Setting
from penstock.config.topic import TOPIC_SETTINGS
from penstock.config.values import INT, PASSWORD, STRING, MiB, Password
from penstock.errors import ConfigError

NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "log.dirs": "/data/a,/data/b",
}
BROKER = {
    **NODE,
    "process.roles": "broker",
    "node.id": "2",
    "listeners": "PLAINTEXT://127.0.0.1:9092",
}
CONTROLLER = {**NODE, "process.roles": "controller", "listeners": "CONTROLLER://127.0.0.1:9093"}


def settings(base: dict[str, str] = NODE, **changes: str | None) -> Settings:
    """Settings with changes, `_` standing for `.`; None leaves an entry out."""
    entries = base | {name.replace("_", "."): value for name, value in changes.items()}
    return Settings.from_properties({name: value for name, value in entries.items() if value is not None})


def test_attributes_have_the_values_of_the_file_and_the_defaults_elsewhere() -> None:
    read = settings(num_partitions="3")
    assert (read.num_partitions, read.log_segment_bytes, read.directories) == (3, 1 << 30, ("/data/a", "/data/b"))


def test_through_the_class_one_gets_the_declaration() -> None:
    assert Settings.log_segment_bytes.default == 1 << 30
    assert Settings.log_segment_bytes.topic == "segment.bytes"


def test_settings_cannot_be_changed() -> None:
    read = settings()
    with pytest.raises(AttributeError, match="Settings is immutable"):
        read.num_partitions = 2  # type: ignore[assignment]
    with pytest.raises(AttributeError, match="Settings is immutable"):
        del read.num_partitions


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("log.segment.bytes", "10", 'log.segment.bytes = "10" is too small: it must be at least 1 MiB (1048576)'),
        (
            "log.segment.bytes",
            "10k",
            'log.segment.bytes = "10k" is not an integer: it must be at least 1 MiB (1048576)',
        ),
        ("log.segment.bytes", "4294967296", 'log.segment.bytes = "4294967296" does not fit a 32-bit integer'),
        ("compression.zstd.level", "23", 'compression.zstd.level = "23" is too large: it must be from -131072 to 22'),
        ("compression.gzip.level", "0", 'compression.gzip.level = "0" is too small: it must be from 1 to 9 or -1'),
        (
            "compression.type",
            "brotli",
            'compression.type = "brotli" is not known: it must be one of uncompressed, zstd',
        ),
        ("log.cleanup.policy", "delete,delete", 'log.cleanup.policy = "delete,delete" names an element twice'),
        ("auto.create.topics.enable", "yes", 'auto.create.topics.enable = "yes" is not a boolean: it must be true or'),
        ("num.network.threads", "0", 'num.network.threads = "0" is too small: it must be at least 1'),
        ("log.roll.ms", "0", "log.roll.ms must be at least 1"),
        ("log.retention.hours", "0", "log.retention.hours = 0 would delete everything at once"),
        ("penstock.lane.thread", "2", "unknown setting penstock.lane.thread; did you mean penstock.lane.threads?"),
        ("authorizer.class.name", "com.example.Mine", "Java classes cannot be loaded here"),
        ("super.users", "alice", 'super.users = "alice" is no list of principals: it must be such as User:alice'),
        ("early.start.listeners", "A,A", "names an element twice"),
        ("early.start.listeners", "OTHER", "early.start.listeners has OTHER, which must stand in listeners"),
        ("allow.everyone.if.no.acl.found", "yes", "is not a boolean"),
        ("create.topic.policy.class.name", "com.example.Policy", "Java classes cannot be loaded here"),
        ("remote.log.storage.system.enable", "true", "is not supported yet"),
        ("config.providers", "file", "is not supported yet"),
    ],
)
def test_a_bad_value_is_named_with_what_would_be_right(name: str, text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as wrong:
        settings(**{name: text})
    assert sentence in str(wrong.value)


def test_an_error_says_the_file_and_the_line() -> None:
    text = "".join(f"{name}={value}\n" for name, value in NODE.items()) + "\nlog.segment.bytes=10k\n"
    with pytest.raises(ConfigError, match=r"\n  in conf/server.properties, line 8$"):
        Settings.from_properties(properties.parse(text, "conf/server.properties"))


def test_an_unknown_name_is_a_warning_with_the_nearest_one_and_an_error_when_strict() -> None:
    entries = NODE | {"num.partition": "3"}
    assert Settings.from_properties(entries).warnings == (
        "unknown setting num.partition; did you mean num.partitions?",
    )
    with pytest.raises(ConfigError, match=re.escape("unknown setting num.partition; did you mean num.partitions")):
        Settings.from_properties(entries, strict=True)


def test_what_means_nothing_here_is_accepted_and_listed() -> None:
    read = settings(num_network_threads="8", background_threads="4")
    assert read.ignored == ("background.threads", "num.network.threads")
    assert read.warnings == ()


@pytest.mark.parametrize("name", ["quota.producer.default", "quota.consumer.default"])
def test_settings_that_kafka_dropped_still_count_with_a_warning(name: str) -> None:
    read = settings(**{name: "1000"})
    assert (read.quota_producer_default, read.quota_consumer_default)[name == "quota.consumer.default"] == 1000
    (warning,) = read.warnings
    assert warning.startswith(f"{name}: Kafka 4 dropped this setting")
    assert "penstock quotas set --client-id-default" in warning
    assert settings().warnings == ()
    assert name not in [each.name for each in describe_broker(settings())], "Kafka does not know it"
    assert name in [each.name for each in describe_broker(read)]
    with pytest.raises(ConfigError, match=name):
        settings(**{name: "0"})


def test_names_of_plug_ins_are_free() -> None:
    assert settings(**{"rsm.config.a": "b"}).warnings == ()


def test_dynamic_configs_lie_over_the_file_and_a_brokers_own_over_the_clusters() -> None:
    read = settings(message_max_bytes="1000")
    changed = read.with_dynamic({"message.max.bytes": "2000", "log.retention.ms": "5"}, {"log.retention.ms": "7"})
    assert (changed.message_max_bytes, changed.log_retention_ms) == (2000, 7)
    assert (changed.topic_defaults.max_message_bytes, changed.topic_defaults.retention_ms) == (2000, 7)
    assert read.message_max_bytes == 1000


def test_a_malformed_dynamic_config_is_left_out_with_a_warning() -> None:
    changed = settings().with_dynamic({"message.max.bytes": "many"}, {})
    assert changed.message_max_bytes == MiB + 12
    (warning,) = changed.warnings
    assert warning.startswith('dynamic config left out: message.max.bytes = "many" is not an integer')


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "0", "-0.0", "-0.5", "1.0001", "1e300"])
def test_a_load_factor_that_fills_no_table_is_refused(text: str) -> None:
    name = "log.cleaner.io.buffer.load.factor"
    with pytest.raises(ConfigError, match="it must be more than 0 and at most 1"):
        settings(**{name: text})
    with pytest.raises(ConfigError, match="it must be more than 0 and at most 1"):
        check_dynamic({name: text}, per_broker=False)
    changed = settings().with_dynamic({name: text, "log.retention.ms": "5"}, {})
    assert (changed.log_cleaner_io_buffer_load_factor, changed.log_retention_ms) == (0.9, 5), "one that is stored"
    assert settings(**{name: "1"}).log_cleaner_io_buffer_load_factor == 1


def test_listeners_are_parsed_with_their_protocols() -> None:
    read = settings(
        listeners="INTERNAL://[::1]:9092,external://:9094,CONTROLLER://127.0.0.1:9093",
        listener_security_protocol_map="INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
        advertised_listeners="INTERNAL://10.0.0.1:9092,EXTERNAL://kafka.example.com:9094",
        inter_broker_listener_name="INTERNAL",
    )
    assert read.listener_endpoints[0] == Endpoint("INTERNAL", "PLAINTEXT", "::1", 9092)
    assert str(read.listener_endpoints[0]) == "INTERNAL://[::1]:9092"
    assert [str(endpoint) for endpoint in read.advertised_endpoints] == [
        "INTERNAL://10.0.0.1:9092",
        "EXTERNAL://kafka.example.com:9094",
    ]
    assert [endpoint.listener for endpoint in read.controller_endpoints] == ["CONTROLLER"]
    assert read.inter_broker_listener == "INTERNAL"
    assert read.voters == (Voter(1, "127.0.0.1", 9093),)


def test_a_controller_is_reached_where_it_is_advertised() -> None:
    """As in a container: it listens everywhere, and others know it by a name."""
    listening = "PLAINTEXT://:9092,CONTROLLER://0.0.0.0:9093"
    read = settings(listeners=listening)
    assert [str(endpoint) for endpoint in read.controller_endpoints] == ["CONTROLLER://0.0.0.0:9093"]
    read = settings(listeners=listening, advertised_listeners="PLAINTEXT://one:9092,CONTROLLER://one.example.com:19093")
    assert [str(endpoint) for endpoint in read.controller_endpoints] == ["CONTROLLER://one.example.com:19093"]
    assert [endpoint.listener for endpoint in read.advertised_endpoints] == ["PLAINTEXT"]


def test_broker_id_is_the_older_name_of_node_id() -> None:
    assert settings(node_id=None, broker_id="1").node_id == 1
    assert settings().broker_id == 1


@pytest.mark.parametrize("base", [NODE, BROKER, CONTROLLER])
def test_each_kind_of_node_can_be_configured(base: dict[str, str]) -> None:
    read = settings(base)
    assert read.is_broker == ("broker" in base["process.roles"])
    assert read.is_controller == ("controller" in base["process.roles"])


@pytest.mark.parametrize(
    ("base", "changes", "sentence"),
    [
        (NODE, {"process.roles": None}, "process.roles is missing"),
        (NODE, {"node.id": None}, "node.id is missing"),
        (NODE, {"broker.id": "7"}, "node.id = 1 and broker.id = 7 differ"),
        (NODE, {"controller.listener.names": None}, "controller.listener.names is missing"),
        (NODE, {"controller.quorum.voters": None}, "controller.quorum.bootstrap.servers and controller.quorum.voters"),
        (NODE, {"controller.quorum.voters": "2@h:1"}, "controller.quorum.voters must name node 1"),
        (NODE, {"controller.quorum.voters": "1:h:1"}, '"1:h:1" is not a voter: it must be like 1@127.0.0.1:9093'),
        (NODE, {"controller.quorum.voters": "1@h:1,1@g:2"}, "names node 1 twice"),
        (NODE, {"listeners": "PLAINTEXT://:9092"}, "controller.listener.names has CONTROLLER, which must stand in"),
        (NODE, {"listeners": "CONTROLLER://:9093"}, "there is no listener for clients"),
        (NODE, {"listeners": "PLAINTEXT://:1,CONTROLLER://:1"}, "share a port"),
        (NODE, {"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "names PLAINTEXT twice"),
        (NODE, {"listeners": "127.0.0.1:9092"}, "is not a listener: it must be like PLAINTEXT://127.0.0.1:9092"),
        (NODE, {"listeners": "PLAINTEXT://h:99999,CONTROLLER://:1"}, '"h:99999" is not an address'),
        (NODE, {"listeners": "IN://:1,CONTROLLER://:2"}, "listener IN has no security protocol: add IN:PLAINTEXT"),
        (
            NODE,
            {"listeners": "SASL_SSL://:1,CONTROLLER://:2", "security.inter.broker.protocol": "SASL_SSL"},
            "sasl_ssl.gssapi.sasl.jaas.config is missing",
        ),
        (NODE, {"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "advertised.listeners cannot use 0.0.0.0"),
        (NODE, {"advertised.listeners": "SSL://h:9092"}, "which is not in listeners (PLAINTEXT, CONTROLLER)"),
        (NODE, {"inter.broker.listener.name": "IN"}, "listeners has PLAINTEXT for clients: inter.broker.listener"),
        (
            NODE,
            {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"},
            "only one of inter.broker.listener.name and security.inter.broker.protocol",
        ),
        (BROKER, {"node.id": "1"}, "names node 1, which is only a broker"),
        (BROKER, {"listeners": NODE["listeners"]}, "listeners has CONTROLLER, which belongs to the controllers"),
        (CONTROLLER, {"listeners": NODE["listeners"]}, "listeners has PLAINTEXT: a controller that is no broker"),
        (NODE, {"log.dirs": "/a,/a"}, "names an element twice"),
        (NODE, {"cordoned.log.dirs": "/c"}, "cordoned.log.dirs names /c, which is not in log.dirs"),
        (NODE, {"replica.fetch.wait.max.ms": "40000"}, "is larger than replica.socket.timeout.ms = 30000"),
        (NODE, {"queued.max.request.bytes": "5"}, "is smaller than socket.request.max.bytes"),
        (NODE, {"max.connections.per.ip": "0"}, "max.connections.per.ip = 0 refuses everyone"),
        (NODE, {"log.cleaner.min.compaction.lag.ms": "9", "log.cleaner.max.compaction.lag.ms": "8"}, "is larger than"),
        (NODE, {"log.cleaner.dedupe.buffer.size": "0"}, "has no room for a single key"),
        (NODE, {"log.cleaner.dedupe.buffer.size": "-1"}, "it must be at least 100 for each"),
        (
            NODE,
            {"log.cleaner.dedupe.buffer.size": "399", "log.cleaner.threads": "4"},
            "log.cleaner.threads = 4: it must",
        ),
        (NODE, {"metric.reporters": "com.example.Reporter"}, "Java classes cannot be loaded here"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    base: dict[str, str], changes: dict[str, str | None], sentence: str
) -> None:
    with pytest.raises(ConfigError) as wrong:
        settings(base, **changes)
    assert sentence in str(wrong.value)


def test_the_class_names_of_kafka_that_have_a_counterpart_are_accepted() -> None:
    for name, classes in KNOWN_CLASSES.items():
        for class_name in classes:
            assert settings(**{name: class_name}).warnings == ()


def test_for_node_refuses_a_misspelt_attribute() -> None:
    with pytest.raises(ConfigError, match="unknown setting num_partition; did you mean num_partitions"):
        Settings.for_node(num_partition=3)
    assert Settings.for_node(num_partitions=3, log_dirs=("/a", "/b")).directories == ("/a", "/b")


def test_a_setting_under_another_attribute_name_is_a_mistake_of_ours() -> None:
    with pytest.raises((AssertionError, RuntimeError)):
        type("Wrong", (Group,), {"max_size": Setting("max.bytes", INT, default=1, doc="")})


def test_every_setting_says_what_it_is_and_has_a_default_that_it_would_accept() -> None:
    for setting in (*SETTINGS.values(), *TOPIC_SETTINGS.values(), *GROUP_SETTINGS.values()):
        assert setting.doc.endswith("."), setting.name
        if not setting.required and setting.name != "broker.id":
            assert setting.problem(setting.default) is None, setting.name
        assert setting.type is not STRING or isinstance(setting.default, str | None), setting.name


def test_a_secret_does_not_show_itself() -> None:
    class Secrets(Group):
        key = Setting("key", PASSWORD, default=Password(""), doc="A secret.")

    held = Secrets({"key": Secrets.key.parse("hunter2")})
    assert held.key == "hunter2"
    assert "hunter2" not in repr(held) + repr(held.key) + str(vars(held))


def test_the_import_needs_no_other_room() -> None:
    program = (
        "import sys, penstock.config.server;"
        "print(*{name.split('.')[1] for name in sys.modules if name.startswith('penstock.')})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {"config", "errors"}
