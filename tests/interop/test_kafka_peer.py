"""The harness itself: Kafka starts, its tools run, and Java programs compile against its classes."""

from __future__ import annotations

import re

import pytest
from interop import kafka_peer
from interop.kafka_peer import TOOL_OPTIONS, KafkaPeer, ToolError, run_java_source, run_tool

pytestmark = pytest.mark.java

HELLO = """
import org.apache.kafka.common.utils.AppInfoParser;

public class Hello {
    public static void main(String[] arguments) {
        System.out.println(arguments[0] + " " + AppInfoParser.getVersion());
    }
}
"""


def test_a_java_program_sees_the_classes_of_kafka() -> None:
    assert run_java_source(HELLO, "Kafka").stdout == f"Kafka {kafka_peer.VERSION}\n"


def test_a_tool_that_fails_says_what_it_said() -> None:
    with pytest.raises(ToolError, match="NoSuchTool"):
        run_tool("org.apache.kafka.tools.NoSuchTool")


def test_a_node_of_kafka_serves_its_own_tools(kafka_peer: KafkaPeer) -> None:
    kafka_peer.create_topic("harness", partitions=2, retention_ms=1000)
    listed = kafka_peer.run_tool("org.apache.kafka.tools.TopicCommand", "--describe", "--topic", "harness").stdout
    assert "PartitionCount: 2" in listed
    assert "retention.ms=1000" in listed


def test_without_java_tests_are_skipped_with_the_reason_and_fail_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no Java"):
        kafka_peer.require_kafka()
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no Java"):
        kafka_peer.require_kafka()


def test_kafkas_classes_come_out_of_the_archive() -> None:
    loads = "-Xlog:class+load:stdout"
    archived = re.compile(r" org\.apache\.kafka\.common\.utils\.AppInfoParser source: shared objects file")
    for command in (
        kafka_peer.java("org.apache.kafka.tools.TopicCommand", "--version", options=[*TOOL_OPTIONS, loads]),
        kafka_peer.java_source(HELLO, "Kafka", options=[*TOOL_OPTIONS, loads]),
    ):
        assert archived.search(kafka_peer.run(command).stdout), command
