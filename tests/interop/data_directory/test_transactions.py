"""Apache Kafka and Penstock take turns on one data directory with open transactions: whoever comes next ends them."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest
from interop.clients.wire import errors_in
from interop.data_directory.turns import DataDirectory
from interop.kafka_peer import require_kafka
from interop.transactions.clients import Confluent
from interop.transactions.raw import GROUP, READ_COMMITTED, Id, Raw, codes

from penstock.errors import ErrorCode
from penstock.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

pytestmark = pytest.mark.java

STATE_TOPIC = "__transaction_state"
PREFIX = "turns"
TOPIC, READING = f"{PREFIX}-written", f"{PREFIX}-group"
TIMEOUT_MS = 900_000
NONE = [ErrorCode.NONE]


@pytest.fixture(scope="module", autouse=True)
def kafka() -> None:
    require_kafka()


class TransactionHistory:
    """What the turns left: one transaction of raw requests and one of a living client are open from turn to turn.

    Attributes: `committed`, the values that are to be read in each of the two partitions; `open`, who holds the raw
    transaction.
    """

    def __init__(self, shared: DataDirectory, survivor: Confluent) -> None:
        self.shared, self.survivor = shared, survivor
        self.turns = 0
        self.committed: list[list[str]] = [[], []]
        self.open: Id | None = None
        self.offset = -1
        self.began_at = [0, 0]

    def turn(self, *, last: bool) -> None:
        """Ends what is open, one turn by a commit and the next by an abort, and opens more but at last."""
        with Raw(self.shared.bootstrap, PREFIX) as raw:
            if not self.turns:
                raw.create_topic("written", 2)
                self.survivor.open("survivor", "survivor", TIMEOUT_MS)
                self.open = raw.initialised("open", TIMEOUT_MS)
            else:
                self._check_what_is_open(raw)
                self._end(raw, commit=self.turns % 2 == 1)
            self.turns += 1
            self._write_and_end(raw)
            if not last:
                self._open_more(raw)

    def _check_what_is_open(self, raw: Raw) -> None:
        """Who holds it, since where, and that nothing of it is seen."""
        assert self.open is not None
        raw.find(self.open.transactional_id)
        state = raw.state(self.open.transactional_id)
        assert state.transaction_state == "Ongoing"
        assert (state.producer_id, state.producer_epoch) == (self.open.producer_id, self.open.producer_epoch)
        topics = {each.topic: sorted(each.partitions) for each in state.topics}
        assert topics.pop("__consumer_offsets") != []
        assert topics == {TOPIC: [0, 1]}
        for partition in range(2):
            assert raw.end_offset(TOPIC, READ_COMMITTED, partition) == self.began_at[partition], "where it began"
            held = [
                each for each in raw.producers(TOPIC, partition).active_producers if each.current_txn_start_offset >= 0
            ]
            assert self.open.producer_id in {each.producer_id for each in held}
        assert self._offset(raw, stable=True) == ErrorCode.UNSTABLE_OFFSET_COMMIT
        assert self._offset(raw, stable=False) == self.offset

    def _end(self, raw: Raw, *, commit: bool) -> None:
        assert self.open is not None
        answer = raw.end(self.open, commit=commit)
        assert codes(answer) == NONE
        assert (answer.producer_id, answer.producer_epoch) == (self.open.producer_id, self.open.producer_epoch + 1)
        self.open = self.open.with_epoch(answer.producer_epoch)
        (self.survivor.commit if commit else self.survivor.abort)("survivor")
        if commit:
            self.offset = self.turns
            for partition, values in enumerate(self.committed):
                values += [f"open-{self.turns}-{partition}", f"survivor-{self.turns}-{partition}"]
        for partition in range(2):
            raw.wait_until_stable(TOPIC, partition)
        raw.wait_for_state(self.open, "CompleteCommit", "CompleteAbort")
        assert self._offset(raw, stable=True) == self.offset

    def _write_and_end(self, raw: Raw) -> None:
        """Transactions of this turn alone, and the check that all of the past is read as it should be."""
        for name in ("committed", "aborted", "last"):
            producer = raw.initialised(f"{name}-{self.turns}", TIMEOUT_MS)
            for partition in range(2):
                assert codes(raw.add(producer, {TOPIC: [partition]})) == NONE
                value = f"{name}-{self.turns}-{partition}"
                assert codes(raw.produce(producer, TOPIC, partition, value=value.encode())) == NONE
                if name != "aborted":
                    self.committed[partition].append(value)
            assert codes(raw.end(producer, commit=name != "aborted")) == NONE
        with Confluent(self.shared.bootstrap) as client:
            for partition, values in enumerate(self.committed):
                raw.wait_until_stable(TOPIC, partition)
                assert client.read(TOPIC, partition, values[-1]) == values

    def _open_more(self, raw: Raw) -> None:
        """Opens the two transactions that the next turn ends."""
        assert self.open is not None
        self.survivor.begin("survivor")
        raw.find(READING, GROUP)
        for partition in range(2):
            self.began_at[partition] = raw.end_offset(TOPIC, partition=partition)
            answer = raw.produce(
                self.open, TOPIC, partition, version=12, value=f"open-{self.turns}-{partition}".encode()
            )
            assert codes(answer) == NONE
            self.survivor.send("survivor", TOPIC, partition, f"survivor-{self.turns}-{partition}")
        assert codes(raw.commit_offsets(self.open, READING, TOPIC, self.turns, version=5)) == NONE

    def _offset(self, raw: Raw, *, stable: bool) -> int | ErrorCode:
        """The group's offset, or the error that it is answered with."""
        topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])]
        group = OffsetFetchRequestGroup(group_id=READING, topics=topics)
        answer = raw.ask_until_settled(OffsetFetchRequest(groups=[group], require_stable=stable), 9)
        wrong = [code for _, code in errors_in(answer) if code]
        return wrong[0] if wrong else int(answer.groups[0].topics[0].partitions[0].committed_offset)


def take_turns(shared: DataDirectory, turns: Sequence[str], stopped_by: signal.Signals) -> TransactionHistory:
    with Confluent(shared.bootstrap) as survivor:
        history = TransactionHistory(shared, survivor)
        for number, who in enumerate(turns, 1):
            with shared.served_by(who, stopped_by):
                history.turn(last=number == len(turns))
        return history


@pytest.mark.slow
def test_open_transactions_go_from_kafka_to_penstock_and_back(tmp_path: Path) -> None:
    with DataDirectory(tmp_path, formatted_by="kafka") as shared:
        history = take_turns(shared, ("kafka", "penstock", "kafka"), signal.SIGTERM)
        assert history.turns == 3


@pytest.mark.parametrize(
    ("formatted_by", "stopped_by"),
    [
        pytest.param("penstock", signal.SIGKILL, marks=pytest.mark.slow),
        pytest.param("kafka", signal.SIGKILL, marks=pytest.mark.long),
        pytest.param("penstock", signal.SIGTERM, marks=pytest.mark.long),
    ],
)
def test_open_transactions_take_turns(tmp_path: Path, formatted_by: str, stopped_by: signal.Signals) -> None:
    other = {"kafka": "penstock", "penstock": "kafka"}[formatted_by]
    with DataDirectory(tmp_path, formatted_by=formatted_by) as shared:
        history = take_turns(shared, (formatted_by, other) * 2, stopped_by)
        assert history.turns == 4
        dump_agrees(shared)


def dump_agrees(shared: DataDirectory) -> None:
    """Kafka's DumpLogSegments understands every record of the coordinators."""
    found = shared.dump(f"{STATE_TOPIC}-*", ".log", "--transaction-log-decoder")
    assert "isvalid: false" not in found
    assert "Could not" not in found
    assert {"turns-open", "survivor", "turns-aborted-1"} <= set(re.findall(r'"transactionalId":"([^"]+)"', found))
