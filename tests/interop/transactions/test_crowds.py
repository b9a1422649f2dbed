"""What bad clients do to a running broker in numbers: thousands of partitions or transactional ids, a crowd at once."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from operator import ge

import pytest
from interop.transactions.conftest import SETTINGS
from interop.transactions.raw import Id, Raw, codes, until
from support.heard import until_heard

from penstock.client.admin import Change, ConfigOperation, Resource, ResourceType, alter_configs
from penstock.client.client import Client
from penstock.errors import ErrorCode
from penstock.protocol.messages.init_producer_id_request import InitProducerIdRequest
from penstock.protocol.messages.list_transactions_request import ListTransactionsRequest
from penstock.testing.broker import LocalBroker

VERIFICATION = "transaction.partition.verification.enable"
NONE = [ErrorCode.NONE]
PRODUCERS = 100
TOPICS = 10
MANY_IDS, CONNECTIONS = 3_000, 10
EXPIRE = {"transactional.id.expiration.ms": "2000", "transaction.remove.expired.transaction.cleanup.interval.ms": "200"}


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker(SETTINGS) as broker:
        yield broker


def test_verification_is_switched_while_the_broker_runs(broker: LocalBroker) -> None:
    def switch(value: str | None) -> None:
        async def change() -> None:
            operation = ConfigOperation.DELETE if value is None else ConfigOperation.SET
            async with Client(broker.bootstrap) as client:
                await alter_configs(client, Resource(ResourceType.BROKER, ""), [Change(VERIFICATION, operation, value)])

        asyncio.run(change())
        until_heard(broker.bootstrap)

    with Raw(broker.bootstrap, "switched") as raw:
        topic = raw.create_topic("t")
        first, second = raw.initialised("first"), raw.initialised("second")
        assert codes(raw.produce(first, topic)) == [ErrorCode.TRANSACTION_ABORTABLE]
        switch("false")
        assert codes(raw.produce(first, topic)) == NONE, "nobody asks the coordinator"
        switch(None)
        assert codes(raw.produce(second, topic)) == [ErrorCode.TRANSACTION_ABORTABLE]
        assert codes(raw.produce(first, topic)) == NONE, "what has begun goes on"
        assert raw.end_offset(topic) == 0
        assert codes(raw.markers(first, {topic: [0]}, commit=False)) == NONE
        raw.wait_until_stable(topic)


def test_of_a_hundred_producers_with_one_id_the_last_one_commits(broker: LocalBroker) -> None:
    with ExitStack() as stack, ThreadPoolExecutor(PRODUCERS) as pool:
        raws = [stack.enter_context(Raw(broker.bootstrap, "one")) for _ in range(PRODUCERS)]
        topic = raws[0].create_topic("id")
        together = threading.Barrier(PRODUCERS)

        def initialise(raw: Raw) -> Id:
            together.wait()
            return raw.initialised("id")

        def write(raw: Raw, producer: Id) -> ErrorCode:
            """Up to the first error."""
            together.wait()
            value = b"%d" % producer.producer_epoch
            for step in (
                lambda: raw.add(producer, {topic: [0]}),
                lambda: raw.produce(producer, topic, value=value),
                lambda: raw.end(producer),
            ):
                (code,) = codes(step())
                if code != ErrorCode.NONE:
                    return code
            return ErrorCode.NONE

        producers = list(pool.map(initialise, raws))
        assert len({each.producer_id for each in producers}) == 1
        assert len({each.producer_epoch for each in producers}) == PRODUCERS, "each has an epoch of its own"
        ends = list(pool.map(write, raws, producers))
        last = max(each.producer_epoch for each in producers)
        won = [each.producer_epoch for each, code in zip(producers, ends, strict=True) if code == ErrorCode.NONE]
        assert won == [last]
        assert Counter(ends) == {ErrorCode.NONE: 1, ErrorCode.PRODUCER_FENCED: PRODUCERS - 1}
        raws[0].wait_until_stable(topic)
        assert raws[0].end_offset(topic) == 2, "one record and its marker"


@pytest.mark.parametrize(
    "partitions", [pytest.param(2_000, marks=pytest.mark.slow), pytest.param(10_000, marks=pytest.mark.long)]
)
def test_a_transaction_over_thousands_of_partitions_ends_and_others_go_on_meanwhile(
    broker: LocalBroker, partitions: int
) -> None:
    each = partitions // TOPICS
    prefix = f"wide-{partitions}"
    with Raw(broker.bootstrap, prefix) as raw, Raw(broker.bootstrap, prefix) as other:
        topics = [raw.create_topic(f"t{number}", each) for number in range(TOPICS)]
        own = raw.create_topic("own")
        wide, bystander = raw.initialised("wide"), other.initialised("bystander")
        meanwhile = 0
        for commit in (True, False):
            assert codes(raw.add(wide, {topic: range(each) for topic in topics})) == NONE * partitions
            for topic in topics:
                for partition in (0, each - 1):
                    assert codes(raw.produce(wide, topic, partition)) == NONE
            wide = ended(raw, wide, commit=commit)
            while True:
                assert codes(other.produce(bystander, own, version=12)) == NONE
                bystander = ended(other, bystander)
                if not raw.state(wide.transactional_id).transaction_state.startswith("Prepare"):
                    break
                meanwhile += 1
        assert meanwhile, "whole transactions of the bystander while markers of the other one were to come"
        for topic in topics:
            found = [raw.fetched(topic, partition) for partition in (0, each // 2, each - 1)]
            ends = [part.last_stable_offset for part in found]
            assert ends == [part.high_watermark for part in found], "no transaction is open"
            assert all(map(ge, ends, (4, 2, 4))), "each has its records and both markers; one that is late comes again"
            assert [len(part.aborted_transactions) for part in found] == [1, 0, 1]


def ended(raw: Raw, producer: Id, *, commit: bool = True) -> Id:
    """Ends a transaction; the producer with its next epoch."""
    answer = raw.end(producer, commit=commit)
    assert codes(answer) == NONE
    return producer.with_epoch(answer.producer_epoch)


def test_thousands_of_transactional_ids_are_known_and_forgotten_again() -> None:
    with LocalBroker({**SETTINGS, **EXPIRE}) as broker, ExitStack() as stack:
        raws = [stack.enter_context(Raw(broker.bootstrap, "ids")) for _ in range(CONNECTIONS)]
        holder = raws[0].begun("holder", raws[0].create_topic("held"))

        def initialise(raw: Raw, first: int) -> set[int]:
            found = set()
            for number in range(first, MANY_IDS, len(raws)):
                request = InitProducerIdRequest(transactional_id=f"id-{number}", transaction_timeout_ms=60_000)
                answer = raw.ask_until_settled(request, 5)
                assert answer.error_code == ErrorCode.NONE
                found.add(answer.producer_id)
            return found

        def known() -> list[str]:
            answer = raws[0].ask(ListTransactionsRequest(), 2)
            assert answer.error_code == ErrorCode.NONE
            return [each.transactional_id for each in answer.transaction_states]

        with ThreadPoolExecutor(len(raws)) as pool:
            producer_ids = set().union(*pool.map(initialise, raws, range(len(raws))))
        assert len(producer_ids) == MANY_IDS, "no producer id is given twice"
        until(known, lambda found: found == [holder.transactional_id])
        assert codes(raws[0].end(holder)) == NONE, "what is open does not expire"
