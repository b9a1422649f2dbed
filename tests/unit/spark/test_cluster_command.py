"""`penstock spark`, as far as it needs no Spark."""

from __future__ import annotations

import argparse
import json
import re
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest

from penstock.cli.main import main
from penstock.cli.spark import memory_mb
from penstock.errors import ConfigError
from penstock.spark.limits import SPARK_DYNAMIC_TASKS
from penstock.spark.session import (
    DEFAULTS,
    SparkError,
    check_addresses,
    check_reachable,
    parallelism,
    session,
    settings_for,
)


def test_no_cluster_is_said_and_ends_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spark", "cluster", "status", "--directory", str(tmp_path)]) == 1
    assert main(["spark", "cluster", "down", "--directory", str(tmp_path), "--json"]) == 0
    said = capsys.readouterr().out.split("\n", 1)
    assert said[0] == "no cluster runs"
    assert json.loads(said[1]) == {"ended": []}


def test_sizes() -> None:
    assert (memory_mb("512m"), memory_mb("2G"), memory_mb("1gb")) == (512, 2048, 1024)
    with pytest.raises(argparse.ArgumentTypeError, match="2 GiB is no size such as 512m"):
        memory_mb("2 GiB")


def test_every_setting_has_a_reason_and_the_users_wins(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spark", "settings"]) == 0
    told = capsys.readouterr().out
    assert all(f"{name} = {each.value}" in told and each.why in told for name, each in DEFAULTS.items())
    assert "spark.executor.memory" not in settings_for(None, {})
    assert settings_for("spark://h:1", {"spark.executor.memory": "2g"})["spark.executor.memory"] == "2g"
    assert "spark.driver.host" not in settings_for("spark://h:1", {})
    assert settings_for("spark://127.0.0.1:1", {})["spark.driver.host"] == "127.0.0.1"


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({"spark.cores.max": "8"}, "24"),
        ({"spark.executor.instances": "10", "spark.executor.cores": "4"}, "120"),
        ({"spark.executor.instances": "10", "spark.executor.cores": "4", "spark.cores.max": "8"}, "24"),
        ({"spark.executor.instances": "10"}, None),
        (
            {
                "spark.dynamicAllocation.enabled": "true",
                "spark.dynamicAllocation.maxExecutors": "50",
                "spark.executor.instances": "1",
                "spark.executor.cores": "2",
            },
            "300",
        ),
        ({"spark.cores.max": "8", "spark.sql.shuffle.partitions": "7"}, "7"),
    ],
)
def test_shuffles_have_parts_for_the_cores_that_settings_tell(settings: dict[str, str], parts: str | None) -> None:
    assert settings_for("spark://h:1", settings).get("spark.sql.shuffle.partitions") == parts


def test_workers_on_yarn_are_reached_by_tcp() -> None:
    """The directory of a YARN container is longer than the address of a Unix socket may be."""
    name = "spark.python.unix.domain.socket.enabled"
    assert settings_for("spark://h:1", {})[name] == "true"
    assert name not in settings_for("yarn", {})
    assert settings_for("yarn", {name: "true"})[name] == "true"


def test_a_number_of_cores_that_is_none_is_named() -> None:
    with pytest.raises(ConfigError, match=r"spark\.cores\.max = 'all' must be a whole number"):
        settings_for("yarn", {"spark.cores.max": "all"})


@pytest.mark.parametrize(
    "secret",
    [
        "kafka.sasl.password",
        "kafka.sasl.jaas.config",
        "kafka.sasl.username",
        "kafka.ssl.key.pem",
        "kafka.ssl.key.password",
        "kafka.ssl.keystore.location",
        "spark.hadoop.fs.s3a.secret.key",
        "AWS_ACCESS_KEY_ID",
        "AWS_SESSION_TOKEN",
        "azure_storage_account_key",
        "basic.auth.user.info",
        "http://name:word@registry:8081",
    ],
)
def test_spark_is_told_what_to_hide(secret: str) -> None:
    shown = ("kafka.bootstrap.servers", "subscribe", "checkpointLocation", "s3://bucket/table", "http://registry:8081")
    hidden = re.compile(DEFAULTS["spark.redaction.regex"].value)
    assert hidden.search(secret)
    assert not any(hidden.search(each) for each in shown)


def test_a_cluster_keeps_sparks_own_shuffle_partitions_and_its_page() -> None:
    """Four parts are right for one machine; a streaming query on a cluster would keep them for ever."""
    ours = ("spark.sql.shuffle.partitions", "spark.ui.enabled")
    assert [settings_for(None, {})[name] for name in ours] == ["4", "false"]
    assert not set(ours) & set(settings_for("spark://h:1", {}))
    assert set(ours) & set(settings_for("spark://127.0.0.1:1", {})) == {ours[0]}, "which is one machine, too"
    assert not any(DEFAULTS[name].live for name in ours), "a Spark Connect server has its own"


def closed_port() -> int:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        return int(nobody.getsockname()[1])


def test_an_address_where_nobody_listens_is_said_before_spark_is_started() -> None:
    port = closed_port()
    with pytest.raises(SparkError, match=f"no Spark master at spark://127.0.0.1:{port}: connection refused"):
        session("a test", master=f"spark://127.0.0.1:{port}")
    with pytest.raises(SparkError, match="no Spark Connect server at sc:"):
        session("a test", remote=f"sc://127.0.0.1:{port}/;user_id=me")
    with pytest.raises(ConfigError, match="spark://h: h is no address HOST:PORT"):
        check_reachable("spark://h")


def test_of_several_masters_one_that_listens_is_enough() -> None:
    with socket.socket() as master:
        master.bind(("127.0.0.1", 0))
        master.listen()
        check_reachable(f"spark://127.0.0.1:{closed_port()},127.0.0.1:{master.getsockname()[1]}")
    for address in (None, "local[2]", "yarn", "k8s://https://h:1"):
        check_reachable(address)


class Session:
    """As much of a session as says how parallel it is."""

    def __init__(self, cores: int, **conf: str) -> None:
        self.sparkContext = SimpleNamespace(defaultParallelism=cores)
        self.conf = {name.replace("_", "."): value for name, value in conf.items()}


def test_executors_that_come_when_tasks_wait_are_counted_as_if_they_were_there() -> None:
    dynamic = {"spark_dynamicAllocation_enabled": "true"}
    assert parallelism(Session(8)) == 8
    assert parallelism(Session(2, **dynamic)) == SPARK_DYNAMIC_TASKS
    most = {"spark_dynamicAllocation_maxExecutors": "20", "spark_executor_cores": "4"}
    assert parallelism(Session(2, **dynamic, **most)) == 80


@pytest.mark.parametrize(
    ("master", "remote", "said"),
    [("local", "sc://h:1", "exclude each other"), (None, "h:1", "must be sc://"), ("h:1", None, "must be local")],
)
def test_addresses_that_are_none_are_refused_before_spark_starts(
    master: str | None, remote: str | None, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        check_addresses(master, remote)
