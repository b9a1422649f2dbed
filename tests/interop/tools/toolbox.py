"""Kafka's command-line tools, many runs in one Java machine: a start of one costs more than what most of them do.

with Toolbox() as tools:
    tools.run(TOPICS, broker.bootstrap, "--create", "--topic", "clicks").out
"""

from __future__ import annotations

import subprocess
from base64 import b64decode, b64encode
from pathlib import Path
from typing import NamedTuple, Self

from interop.kafka_peer import java_source

SOURCE = Path(__file__).with_name("Tools.java")
TIMEOUT_S = 30.0
PACKAGE = "org.apache.kafka.tools."
TOPICS = PACKAGE + "TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
PRODUCER = PACKAGE + "ConsoleProducer"
CONSUMER = PACKAGE + "consumer.ConsoleConsumer"
OFFSETS = PACKAGE + "GetOffsetShell"
API_VERSIONS = PACKAGE + "BrokerApiVersionsCommand"
DELETE_RECORDS = PACKAGE + "DeleteRecordsCommand"
LOG_DIRS = PACKAGE + "LogDirsCommand"
PERFORMANCE = PACKAGE + "ProducerPerformance"
QUORUM = PACKAGE + "MetadataQuorumCommand"
FEATURES = PACKAGE + "FeatureCommand"
LEADER_ELECTION = PACKAGE + "LeaderElectionCommand"
CLUSTER = PACKAGE + "ClusterTool"
CONSUMER_GROUPS = PACKAGE + "consumer.group.ConsumerGroupCommand"
GROUPS = PACKAGE + "GroupsCommand"
TRANSACTIONS = PACKAGE + "TransactionsCommand"
CLIENT_METRICS = PACKAGE + "ClientMetricsCommand"
REASSIGN = PACKAGE + "reassign.ReassignPartitionsCommand"


class Outcome(NamedTuple):
    """What a tool ended with and wrote."""

    status: int
    out: str
    error: str


class Toolbox:
    """One Java machine that runs tools; a context manager."""

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            java_source(SOURCE.read_text()),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(TIMEOUT_S)

    def run(
        self, tool: str, bootstrap: str, *arguments: object, stdin: str = "", option: str = "--bootstrap-server"
    ) -> Outcome:
        """Runs a tool with `--bootstrap-server`, or the option given, after its action if that is how the tool is."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        action, rest = (arguments[:1], arguments[1:]) if tool == CLUSTER else ((), arguments)
        words = [tool, stdin, *map(str, action), option, bootstrap, *map(str, rest)]
        self.process.stdin.write(" ".join("=" + b64encode(word.encode()).decode() for word in words) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        assert answer, f"{tool} ended the Java machine"
        out, error = (b64decode(text[1:]).decode() for text in answer[1:])
        return Outcome(int(answer[0]), out, error)
