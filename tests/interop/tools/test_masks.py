"""What is hidden before the outputs of two clusters are compared is what names the machine, and nothing else."""

from __future__ import annotations

import pytest
from interop.tools.three_nodes import masked
from interop.tools.toolbox import Outcome

SAID = (
    "Topic: clicks\tTopicId: kYAKj7XBRcW7CJ4tFlmgSA\tPartitionCount: 2\n"
    "\tTopic: clicks\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: 3,1\tElr: 2\n"
    "at 127.0.0.1:9092 rack a\n"
    "Removed KRaft controller 2 with directory id AAAAAAAAAAAAAAAAAAAABQ\n"
)


def told(out: str, status: int = 0, error: str = "") -> Outcome:
    return masked(Outcome(status, out, error))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("kYAKj7XBRcW7CJ4tFlmgSA", "uoAoR2sOSNeEmNvbTmMJ5w"),
        ("127.0.0.1:9092", "127.0.0.1:29092"),
        ("Isr: 3,1", "Isr: 1,3"),
        ("AAAAAAAAAAAAAAAAAAAABQ", "AAAAAAAAAAAAAAAAAAAABg"),
        ("rack a\n", "rack a\n\tat org.apache.kafka.Tool.main(Tool.java:7)\n"),
    ],
)
def test_what_names_the_machine_is_hidden(one: str, other: str) -> None:
    assert one in SAID
    assert told(SAID) == told(SAID.replace(one, other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Leader: 1", "Leader: 2"),
        ("Leader: 1", "Leader: none"),
        ("Replicas: 1,2,3", "Replicas: 2,1,3"),
        ("Isr: 3,1", "Isr: 3"),
        ("Elr: 2", "Elr: "),
        ("PartitionCount: 2", "PartitionCount: 3"),
        ("rack a", "rack b"),
        ("controller 2", "controller 3"),
        ("Partition: 0\t", "Partition: 0 "),
        ("Removed KRaft", ""),
    ],
)
def test_what_a_cluster_is_like_is_not(one: str, other: str) -> None:
    assert one in SAID
    assert told(SAID) != told(SAID.replace(one, other))


def test_statuses_and_errors_count() -> None:
    assert told(SAID) != told(SAID, status=1)
    assert told(SAID, error="broker 2 is not there") != told(SAID, error="broker 3 is not there")
