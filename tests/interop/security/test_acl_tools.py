"""Kafka's kafka-acls, which is its AdminClient, manages Penstock's ACLs; `penstock acls` makes the same of the same
options; and Kafka reads them in the metadata log.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from interop.data_directory.turns import DataDirectory
from interop.kafka_peer import require_kafka, run_tool
from interop.security.secured_peer import AUTHORIZER
from interop.tools.toolbox import Toolbox

from penstock.cli.main import main
from penstock.testing.broker import LocalBroker

pytestmark = [pytest.mark.java, pytest.mark.slow]

ACLS = "org.apache.kafka.tools.AclCommand"
SECURED = {"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS;User:admin"}


@pytest.fixture(scope="module")
def tools() -> Iterator[Toolbox]:
    require_kafka()
    with Toolbox() as toolbox:
        yield toolbox


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    with LocalBroker(SECURED) as made:
        yield made


def listed(broker: LocalBroker | DataDirectory, capsys: pytest.CaptureFixture[str]) -> list[dict[str, str]]:
    """The ACLs, as `penstock acls list` has them."""
    capsys.readouterr()
    assert main(["acls", "list", "--json", "--bootstrap", broker.bootstrap]) == 0
    found: list[dict[str, str]] = json.loads(capsys.readouterr().out)
    return found


CONVENIENCE = [
    (
        ["--allow-principal", "User:a", "--producer", "--topic", "t"],
        ["--allow", "User:a", "--producer", "--topic", "t"],
        3,
    ),
    (
        ["--allow-principal", "User:a", "--producer", "--topic", "t", "--transactional-id", "x", "--idempotent"],
        ["--allow", "User:a", "--producer", "--topic", "t", "--transactional-id", "x", "--idempotent"],
        6,
    ),
    (
        ["--allow-principal", "User:a", "--consumer", "--topic", "t", "--group", "g"],
        ["--allow", "User:a", "--consumer", "--topic", "t", "--group", "g"],
        3,
    ),
    (
        ["--allow-principal", "User:a", "--topic", "t", "--resource-pattern-type", "prefixed", "--operation", "Read"],
        ["--allow", "User:a", "--topic", "t", "--pattern", "prefixed", "--operation", "read"],
        1,
    ),
    (
        ["--deny-principal", "User:b", "--deny-host", "10.0.0.7", "--topic", "*", "--operation", "All"],
        ["--deny", "User:b", "--host", "10.0.0.7", "--topic", "*"],
        1,
    ),
    (["--allow-principal", "User:c", "--cluster", "--operation", "AlterConfigs"],
     ["--allow", "User:c", "--cluster", "--operation", "alter-configs"], 1),
]  # fmt: skip


@pytest.mark.parametrize("words", CONVENIENCE)
def test_both_commands_make_the_same_acls(
    tools: Toolbox, broker: LocalBroker, capsys: pytest.CaptureFixture[str], words: tuple[list[str], list[str], int]
) -> None:
    kafkas, ours, count = words
    made = tools.run(ACLS, broker.bootstrap, "--add", *kafkas)
    assert made.status == 0, made
    by_kafka = listed(broker, capsys)
    assert len(by_kafka) == count
    gone = tools.run(ACLS, broker.bootstrap, "--remove", "--force", "--topic", "*", "--resource-pattern-type", "any")
    assert gone.status == 0, gone
    assert main(["acls", "remove", "--all", "--bootstrap", broker.bootstrap]) == 0
    assert listed(broker, capsys) == []
    assert main(["acls", "add", *ours, "--bootstrap", broker.bootstrap]) == 0
    assert listed(broker, capsys) == by_kafka


def test_kafkas_command_lists_and_removes(
    tools: Toolbox, broker: LocalBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--allow", "User:a", "--allow", "User:b", "--operation", "read", "--topic", "t", "--topic", "u"]
    assert main(["acls", "add", *words, "--bootstrap", broker.bootstrap]) == 0
    shown = tools.run(ACLS, broker.bootstrap, "--list", "--topic", "t").out
    assert re.findall(r"principal=(User:\w), host=\*, operation=READ, permissionType=ALLOW", shown) in (
        ["User:a", "User:b"],
        ["User:b", "User:a"],
    )
    assert "name=u" not in shown
    words = ["--remove", "--force", "--allow-principal", "User:a", "--operation", "Read", "--topic", "t"]
    gone = tools.run(ACLS, broker.bootstrap, *words)
    assert gone.status == 0, gone
    left = [(each["principal"], each["name"]) for each in listed(broker, capsys)]
    assert left == [("User:b", "t"), ("User:a", "u"), ("User:b", "u")]


def test_kafka_reads_the_acls_in_the_metadata_log(tmp_path: Path) -> None:
    require_kafka()
    with LocalBroker(SECURED, tmp_path) as broker:
        words = ["--allow", "User:a", "--operation", "read", "--topic", "t.", "--pattern", "prefixed"]
        assert main(["acls", "add", *words, "--bootstrap", broker.bootstrap]) == 0
        assert main(["acls", "remove", "--principal", "User:a", "--bootstrap", broker.bootstrap]) == 0
    log = tmp_path / "__cluster_metadata-0" / f"{0:020}.log"
    dumped = run_tool("org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", log).stdout
    (made,) = re.findall(r'\{"type":"ACCESS_CONTROL_ENTRY_RECORD","version":0,"data":(\{.*?\})\}', dumped)
    fields = json.loads(made)
    assert fields.pop("id")
    assert fields == {
        "resourceType": 2,
        "resourceName": "t.",
        "patternType": 4,
        "principal": "User:a",
        "host": "*",
        "operation": 3,
        "permissionType": 3,
    }
    assert "REMOVE_ACCESS_CONTROL_ENTRY_RECORD" in dumped


@pytest.mark.long
def test_a_directory_with_acls_changes_hands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    require_kafka()
    with DataDirectory(tmp_path, formatted_by="penstock") as shared:
        more = "".join(f"{name}={value}\n" for name, value in SECURED.items())
        shared.kafka.config_file.write_text(shared.kafka.config_file.read_text() + more)
        expected: list[dict[str, str]] = []
        for number, who in enumerate(("penstock", "kafka", "penstock")):
            with shared.served_by(who):
                assert listed(shared, capsys) == expected, who
                words = ["--allow", f"User:{number}", "--deny", f"User:{number}", "--operation", "read", "--topic", "t"]
                assert main(["acls", "add", *words, "--bootstrap", shared.bootstrap]) == 0
                words = ["--principal", f"User:{number}", "--denying", "--bootstrap", shared.bootstrap]
                assert main(["acls", "remove", *words]) == 0
                expected = listed(shared, capsys)
                assert [each["principal"] for each in expected] == [f"User:{each}" for each in range(number + 1)]
