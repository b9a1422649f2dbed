"""Options of a write: what is taken, what is renamed, what is refused and how that reads."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from confluent_kafka import Producer
from support.tls import Authority

from penstock.errors import ConfigError
from penstock.spark.write.options import WriteOptions, parse

BROKERS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


def parsed(**options: str) -> WriteOptions:
    return parse({**BROKERS, **{name.replace("__", "."): value for name, value in options.items()}})


def setting(name: str, **options: str) -> str | None:
    return dict(parsed(**options).producer).get(name)


def test_the_producer_begins_with_javas_defaults() -> None:
    options = parsed(topic="clicks")
    assert (options.topic, options.bootstrap, options.max_block_ms) == ("clicks", "127.0.0.1:9092", 60_000)
    assert (options.include_headers, options.timestamps) == (True, False)
    assert setting("partitioner") == "murmur2_random"
    assert setting("delivery.timeout.ms") == "120000"
    assert setting("enable.idempotence") == "true"


def test_names_are_matched_whatever_their_case() -> None:
    options = parse({"KAFKA.bootstrap.Servers": "a:1", "TOPIC": "t", "includeheaders": "FALSE", "kafka.Linger.ms": "7"})
    assert (options.bootstrap, options.topic, options.include_headers) == ("a:1", "t", False)
    assert dict(options.producer)["linger.ms"] == "7"


def test_javas_names_become_librdkafkas() -> None:
    assert setting("queue.buffering.max.kbytes", kafka__buffer__memory="1048576") == "1024"
    assert setting("message.max.bytes", **{"kafka.max.request.size": "5000"}) == "5000"
    levels = {
        "kafka.compression.type": "zstd",
        "kafka.compression.zstd.level": "7",
        "kafka.compression.gzip.level": "1",
    }
    assert setting("compression.level", **levels) == "7"
    assert parsed(**{"kafka.max.block.ms": "250"}).max_block_ms == 250


@pytest.mark.parametrize(("acks", "idempotent"), [("all", "true"), ("-1", "true"), ("1", "false"), ("0", "false")])
def test_weaker_acks_turn_idempotence_off_as_in_java(acks: str, idempotent: str) -> None:
    assert setting("enable.idempotence", kafka__acks=acks) == idempotent
    assert setting("enable.idempotence", **{"kafka.acks": acks, "kafka.enable.idempotence": "true"}) == "true"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topik": "t"}, "unknown option topik; did you mean topic?"),
        ({"subscribe": "t"}, "unknown option subscribe"),
        ({"topic": " "}, "option topic is empty"),
        ({"includeHeaders": "yes"}, "option includeHeaders = 'yes' must be one of true, false"),
        ({"kafka.linger.ms": "5", "kafka.batch.size": "10k"}, "option kafka.batch.size = '10k' must be a whole number"),
        ({"kafka.value.serializer": "x"}, "kafka.value.serializer cannot be used: values are written as they are"),
        ({"kafka.transactional.id": "x"}, "for transactions set penstock.exactly.once"),
        ({"kafka.sasl.jaas.config": "x", "kafka.sasl.username": "a"}, "exclude each other: use Kafka's names or"),
        ({"kafka.sasl.jaas.confg": "x"}, "did you mean sasl.jaas.config?"),
    ],
)
def test_what_cannot_be_is_named_with_what_would_be_right(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("?", r"\?")):
        parse({**BROKERS, **options})


def test_brokers_are_needed() -> None:
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap\.servers is missing"):
        parse({"topic": "t"})


def test_kafkas_names_of_security_are_made_into_librdkafkas_by_who_sends(tmp_path: Path) -> None:
    from penstock.spark.write.librdkafka import librdkafka_settings

    store = Authority(tmp_path).store("client")
    jaas = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="s3cret-canary";'
    given = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": jaas}
    options = parse({**BROKERS, **{f"kafka.{name}": text for name, text in {**given, **store.properties()}.items()}})
    assert not [name for name, _ in options.producer if name.startswith(("sasl.", "ssl.", "security."))]
    settings = librdkafka_settings(options.security)
    assert settings["security.protocol"] == "sasl_ssl"
    assert (settings["sasl.username"], settings["sasl.password"]) == ("alice", "s3cret-canary")
    assert settings["ssl.ca.pem"].strip() == store.trust.read_text().strip()
    assert settings["ssl.certificate.pem"].startswith(store.certificate_pem.strip())
    assert settings["ssl.endpoint.identification.algorithm"] == "https"
    assert "s3cret-canary" not in f"{options}{settings}"
    assert "BEGIN PRIVATE KEY" not in f"{options}{settings}"
    assert Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0, **settings}) is not None


def test_a_task_gets_a_token_when_librdkafka_asks_for_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from support.issuer import CLIENT, SECRET, Issuer, client_properties

    from penstock.client.bearer_tokens import ALLOWED_URLS_VARIABLE
    from penstock.spark.write.librdkafka import librdkafka_settings

    issuer, file = Issuer(), tmp_path / "token"
    file.write_text(issuer.token("loader"))
    monkeypatch.setenv(ALLOWED_URLS_VARIABLE, f"file://{file}")
    credentials = f'clientId="{CLIENT}" clientSecret="{SECRET}" extension_zone="a"'
    given = client_properties(f"file://{file}", credentials)
    options = pickle.loads(pickle.dumps(parse({**BROKERS, **{f"kafka.{name}": text for name, text in given.items()}})))
    settings = librdkafka_settings(options.security)
    text, expires_s, subject, extensions = settings["oauth_cb"]("")
    assert (text, subject, extensions) == (file.read_text(), "loader", {"zone": "a"})
    assert abs(expires_s - issuer.claims()["exp"]) < 600
    assert SECRET not in f"{options}{settings}"
    assert not [name for name in settings if name in ("sasl.username", "sasl.password")]


def test_librdkafkas_names_of_security_go_there_as_they_are() -> None:
    options = parse(
        {**BROKERS, "kafka.security.protocol": "SASL_SSL", "kafka.sasl.username": "a", "kafka.sasl.password": "s3cret"}
    )
    assert dict(options.producer)["sasl.password"] == "s3cret"
    assert options.security.protocol == "PLAINTEXT"
    assert "s3cret" not in repr(options)
