"""`penstock dev --guardian`: a Guardian beside the cluster, which knows it, and goes when it goes."""

from __future__ import annotations

import json
import signal
import socket
from pathlib import Path
from typing import Any

import pytest
from e2e.test_dev import interrupted, line_of, penstock, started
from support.processes import wait_until

from penstock.guardian.core.records import FEATURE_LEVEL

PORTS = ("--port", "0", "--metrics-port", "0", "--guardian-port", "0")


def clusters(address: str) -> list[dict[str, Any]]:
    done = penstock("guardian", "clusters", "list", "--guardian", address, "--json")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["clusters"]
    return found


def listens(address: str) -> bool:
    host, _, port = address.partition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def the_only_one(address: str) -> tuple[str, str, list[str]]:
    (found,) = clusters(address)
    return found["name"], found["kind"], found["bootstrap"]


@pytest.mark.slow
def test_the_cluster_is_registered_and_again_where_it_is_next_time(tmp_path: Path) -> None:
    data = tmp_path / "data"
    words = ("dev", "--json", "--guardian", *PORTS, "--data", str(data))
    seen = set()
    for more in ((), (), ("--fresh",)):
        with started(*words, *more, home=tmp_path) as process:
            ready = json.loads(line_of(process))
            assert the_only_one(ready["guardian"]) == ("dev", "penstock", [ready["bootstrap"]])
            seen.add(ready["bootstrap"])
            assert listens(ready["guardian"])
            upgraded = penstock("guardian", "upgrade", "--guardian", ready["guardian"])
            assert upgraded.stdout == f"Guardian is at feature level {FEATURE_LEVEL}, as before.\n".encode()
            assert interrupted(process) == (0, "", "")
        assert not listens(ready["guardian"])
    assert len(seen) == 3, "each time it was elsewhere"
    assert (tmp_path / "data-guardian" / "data" / "guardian.properties").exists()


@pytest.mark.slow
def test_several_brokers_are_registered_as_one_cluster(tmp_path: Path) -> None:
    words = ("dev", "--brokers", "2", "--json", "--guardian", *PORTS, "--data", str(tmp_path / "data"))
    with started(*words, home=tmp_path) as process:
        ready = json.loads(line_of(process))
        assert the_only_one(ready["guardian"]) == ("dev", "penstock", ready["bootstrap"].split(","))
        assert interrupted(process, signal.SIGTERM) == (0, "", "")
    assert not listens(ready["guardian"])


@pytest.mark.slow
def test_it_does_not_outlive_a_broker_that_is_killed(tmp_path: Path) -> None:
    with started("dev", "--guardian", *PORTS, "--json", "--data", str(tmp_path / "data"), home=tmp_path) as process:
        address = json.loads(line_of(process))["guardian"]
        process.kill()
        process.wait()
        wait_until(lambda: not listens(address), "Guardian has ended")


def test_what_cannot_be_is_said_and_nothing_is_left(tmp_path: Path) -> None:
    done = penstock("dev", "--guardian", "--secure", *PORTS, "--data", str(tmp_path / "data"))
    assert done.returncode == 2
    assert b"--guardian is for a cluster without --secure" in done.stderr
    (tmp_path / "data-guardian").mkdir()
    (tmp_path / "data-guardian" / "mine").touch()
    done = penstock("dev", "--guardian", *PORTS, "--data", str(tmp_path / "data"))
    assert done.returncode == 1
    assert b"data-guardian was not made by penstock dev: it is left alone" in done.stderr
    assert [each.name for each in (tmp_path / "data-guardian").iterdir()] == ["mine"]
