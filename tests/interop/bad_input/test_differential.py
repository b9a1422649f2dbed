"""Every bad request gets from Penstock what it gets from Apache Kafka: the same error codes, or a closed connection.

Where the answers differ on purpose, `DIFFERENCES` has the case with the reason. A difference which is not in it fails,
and so does an entry that no longer differs.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import pytest
from interop.bad_input.case import Case
from interop.bad_input.corpus import CASES
from interop.bad_input.differences import DIFFERENCES, page
from interop.bad_input.group_cases import prepare_groups, until_there_is_a_coordinator
from interop.client_metrics.taking_peer import TakingPeer
from interop.clients.valid_requests import World, batch, fetch, init_producer_id, produce
from interop.clients.valid_transaction_requests import NOBODY
from interop.clients.wire import Wire, decode_answer, errors_in

from penstock.errors import ErrorCode
from penstock.node.handlers import registry
from penstock.protocol.api import API_BY_NUMBER, APIS
from penstock.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from penstock.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from penstock.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from penstock.testing.broker import LocalBroker

pytestmark = pytest.mark.java

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "bad-requests.md"
CLOSED = "closed"
SILENT = "no answer"
SILENCE_S = 5.0
"""How long a broker that neither answers nor closes is given."""

Answer = str | tuple[tuple[str, str], ...]


@dataclass
class Judged:
    """One broker under the corpus."""

    bootstrap: str
    world: World
    stored: bytes
    wire: Wire | None = None

    def answer(self, case: Case, version: int) -> Answer:
        """What the broker says to a bad request: its error codes by path, or that it closed the connection."""
        if self.wire is None:
            self.wire = Wire(self.bootstrap, SILENCE_S)
        wire = self.wire
        wire.send(case.frame(self.world, version))
        try:
            frame = wire.receive()
        except TimeoutError:
            self.forget()
            return SILENT
        if frame is None:
            self.forget()
            return CLOSED
        api = API_BY_NUMBER[case.key]
        try:
            answer = decode_answer(
                api, version if version in range(api.min_version, api.max_version + 1) else 0, 1, frame
            )
        except AssertionError as error:
            return f"not an answer: {error}"
        return tuple((path, code.name) for path, code in errors_in(answer))

    def forget(self) -> None:
        if self.wire is not None:
            self.wire.socket.close()
            self.wire = None


def prepare(bootstrap: str) -> Judged:
    """The topics that the corpus speaks of."""
    with Wire(bootstrap) as wire:
        made = [
            CreatableTopic(name="corpus", num_partitions=1, replication_factor=1),
            CreatableTopic(
                name="corpus.dotted",
                num_partitions=1,
                replication_factor=1,
                configs=[CreatableTopicConfig(name="cleanup.policy", value="compact")],
            ),
        ]
        for result in wire.ask(CreateTopicsRequest(topics=made, timeout_ms=5000), 7).topics:
            assert result.error_code == ErrorCode.NONE
        corpus_id = id_of(wire, "corpus")
        world = World("corpus", corpus_id, lambda: "corpus", lambda _: corpus_id)
        produced = produce(world, 13, batch(b"one", b"two", b"three"))
        while wire.ask(produced, 13).responses[0].partition_responses[0].error_code != ErrorCode.NONE:
            pass  # a broker learns that it leads a new partition a moment after the topic exists
        while wire.ask(init_producer_id(world, 4), 4).error_code != ErrorCode.NONE:
            pass  # a broker asks its controller for its first producer ids
        stored = bytes(wire.ask(fetch(world, 12), 12).responses[0].partitions[0].records)
        prepare_groups(wire, world)
        until_there_is_a_coordinator(
            wire,
            lambda: wire.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=[NOBODY]), 4),
            lambda answer: int(answer.coordinators[0].error_code),
        )
    assert stored
    return Judged(bootstrap, world, stored)


def id_of(wire: Wire, name: str) -> UUID:
    while True:  # a broker's view of a new topic may come a moment after the answer
        (topic,) = wire.ask(
            MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False), 12
        ).topics
        if topic.error_code == ErrorCode.NONE and topic.partitions[0].leader_id >= 0:
            found: UUID = topic.topic_id
            return found


@pytest.fixture(scope="module")
def brokers() -> Iterator[tuple[Judged, Judged]]:
    with LocalBroker() as broker, TakingPeer() as kafka_peer:
        pair = prepare(broker.bootstrap), prepare(kafka_peer.bootstrap)
        yield pair
        for judged in pair:
            judged.forget()


@pytest.mark.slow
def test_bad_requests_are_answered_as_kafka_answers_them(
    brokers: tuple[Judged, Judged], caplog: pytest.LogCaptureFixture
) -> None:
    ours, kafkas = brokers
    unexpected, stale = [], []
    with Wire(ours.bootstrap) as healthy:
        for case in CASES:
            answers = {version: (ours.answer(case, version), kafkas.answer(case, version)) for version in case.versions}
            (first,) = healthy.ask(fetch(ours.world, 12), 12).responses[0].partitions
            assert first.error_code == ErrorCode.NONE, f"others are served after {case.name}"
            assert bytes(first.records).startswith(ours.stored), f"nothing is lost after {case.name}"
            different = {version: pair for version, pair in answers.items() if pair[0] != pair[1]}
            if case.name in DIFFERENCES:
                if not different:
                    stale.append(case.name)
                continue
            for version, (our, theirs) in different.items():
                unexpected.append(f"{case.name}, version {version}: Penstock {our}, Kafka {theirs}")
    assert not unexpected, "\n".join(["answers that differ and are not listed:", *unexpected])
    assert not stale, f"listed as different, and they no longer are: {stale}"
    bugs = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert not bugs, "the broker met a bug of its own"


def test_the_corpus_has_bad_requests_of_every_advertised_api() -> None:
    of_each = Counter(case.key for case in CASES)
    assert set(of_each) >= {key for key in registry() if "broker" in APIS[key].listeners and not APIS[key].own}
    assert len({case.name for case in CASES if case.name in DIFFERENCES}) == len(DIFFERENCES)
    assert len(CASES) >= 300


def test_the_page_of_differences_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), f"python {Path(__file__).with_name('differences.py')} > {PAGE}"


def test_the_comparison_can_fail(brokers: tuple[Judged, Judged]) -> None:
    ours, kafkas = brokers
    acks, crc = (case for case in CASES if case.name in ("Produce: acks 2", "Produce: wrong CRC"))
    assert ours.answer(acks, 13) != kafkas.answer(crc, 13)
