"""A simulated cluster with transactions.

    TransactionWorld(seed, TRANSACTION_SCENARIOS["transactions"]).run()

Producers write transactions over the partitions of one topic, chains take what is committed there, and commit what
they make of it in another topic together with how far they have come; readers read everything, or what is committed.
Processes die, stand still, are replaced and wake. When everything is well again, each transaction has to end, each
chain comes to the end of what it reads, and then all logs are read and compared with what the clients know.

`history` is what they know; `process`, `client`, `producer` and `chain` who they are, `readers` and `watcher` who looks
on, `churn` what happens to them; `repeats` and `held` what the network does to requests of brokers; `log_rules` and
`state_log` the rules for the logs of partitions and of coordinators; `faults` and `scenarios` what happens to the
cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from penstock.metadata.features import SUPPORTED_FEATURES
from penstock.metadata.format import FormatRequest
from penstock.metadata.image import PartitionRegistration
from penstock.node.coordinator_topic import partition_for
from penstock.node.groups import OFFSETS_TOPIC
from simulator.cluster import clocks
from simulator.cluster.chaos_admins import ChaosAdmin
from simulator.cluster.history import PartitionHistory
from simulator.cluster.producers import IdempotentProducer
from simulator.cluster.readers import Reader
from simulator.cluster.replica_rules import replica_bytes
from simulator.cluster.world import CLIENT_PORT, END_MS_MAX, PARTITIONS, ClusterWorld
from simulator.groups.history import NOTHING
from simulator.transactions.admins import change_transaction_version
from simulator.transactions.chain import FETCH_OFFSETS_VERSION, Chain, fetched_offset, offset_fetch_request
from simulator.transactions.churn import Churn, Slot
from simulator.transactions.held import HeldVerifications
from simulator.transactions.history import ALL_OR_NOTHING, COUNT, LedgerHistory, Place, TransactionHistory
from simulator.transactions.load import INBOX, TRANSACTION_TOPIC, TRANSACTION_VERSION, TransactionLoad
from simulator.transactions.log_rules import ENDS, LedgerLog, StableOffsets, whole
from simulator.transactions.members import HEARTBEAT_MS, SESSION_MS, MemberChain
from simulator.transactions.producer import TransactionProducer
from simulator.transactions.readers import ALL_RECORDS, COMMITTED_RECORDS, LedgerReader
from simulator.transactions.repeats import MarkerRepeats
from simulator.transactions.scenarios import TransactionScenario
from simulator.transactions.state_log import RESTING, StateLog, Status, states
from simulator.transactions.watcher import Watcher
from simulator.world.checks import check
from simulator.world.network import Socket

INTERNAL_PARTITIONS = (1, 2, 3)
TIMED_OUT_EVERY_MS = 300
OTHER_PRODUCERS = 1
READERS_OF_ALL = 2


class TransactionWorld(ClusterWorld):
    """See the module's head.

    Attributes:
        ledgers: the partitions that have transactions. slots, churn: transactional ids, and what happens to them.
        logs: what the logs of the ledgers had, when all was over.
    """

    scenario: TransactionScenario

    def __init__(self, seed: int, scenario: TransactionScenario) -> None:
        super().__init__(seed, scenario)
        known = len(self.load.clients)
        self.history = TransactionHistory()
        self.ledgers = [
            LedgerHistory(each.topic, each.index, self.history, cleaned=scenario.cleaned) for each in self.partitions
        ]
        self.partitions[:] = self.ledgers
        self.producers = [
            IdempotentProducer(self.load, self.ledgers[number], f"producer-{number}")
            for number in range(0 if scenario.cleaned else OTHER_PRODUCERS)
        ]
        self.plain = []
        self.readers = [
            LedgerReader(self.load, ledger, f"committed-reader-{ledger.name}", COMMITTED_RECORDS)
            for ledger in self.ledgers
        ]
        self.readers += [
            LedgerReader(self.load, ledger, f"reader-{ledger.name}", ALL_RECORDS)
            for ledger in self.random.sample(self.ledgers, READERS_OF_ALL)
        ]
        self.transactions = TransactionLoad(
            self.load,
            self.checker,
            {ledger.place: ledger for ledger in self.ledgers},
            self.history,
            scenario.timeouts_ms,
            scenario.old_probability,
            scenario.repeat_probability,
            scenario.repeated_after_ms,
            scenario.hasty_probability,
            scenario.calm,
        )
        self.slots = [self._producer_slot(f"payer-{number}") for number in range(scenario.producers)]
        self.chain_slots = [self._chain_slot(f"chain-{number}", number) for number in range(scenario.chains)]
        self.slots += self.chain_slots
        self.churn = Churn(self.transactions, self.slots, scenario.churn_interval_ms)
        self.groups = [(self._group_of(number), (INBOX, number)) for number in range(PARTITIONS)]
        self.watcher = Watcher(self.transactions, "watcher", self.groups)
        self._held = HeldVerifications(self.transactions, scenario.held_probability)
        self._repeats = MarkerRepeats(self.transactions, CLIENT_PORT)
        self.network.carried = self._carried
        self.stable_offsets = StableOffsets(self.checker.machines)
        self.logs: dict[Place, LedgerLog] = {}
        if scenario.cleaned:
            self.clocks = clocks.of_cleaned(self.simulation, self.machines, self._nothing_is_missing)
        if scenario.changes_version:
            brokers = [machine.settings.node_id for machine in self.machines if machine.settings.is_broker]
            admin = ChaosAdmin(
                self.load, len(self.chaos_admins), brokers, self.replication_factor, (change_transaction_version,)
            )
            self.chaos_admins.append(admin)
        hosts = [client.name for client in self.load.clients[known:]]
        hosts += [slot.transactional_id for slot in self.slots] + [self.watcher.name]
        self.faults.cluster.clients += hosts

    def _producer_slot(self, transactional_id: str) -> Slot:
        make = partial(TransactionProducer, self.transactions, transactional_id)
        return Slot(self.transactions, transactional_id, make, lasting=False)

    def _chain_slot(self, transactional_id: str, index: int) -> Slot:
        def make(name: str) -> Chain:
            if self.scenario.members:
                return MemberChain(self.transactions, name, self._group_of(index))
            return Chain(self.transactions, transactional_id, name, index)

        return Slot(self.transactions, transactional_id, make, lasting=True)

    def _group_of(self, index: int) -> str:
        """The group that reads a partition."""
        return "group-of-chains" if self.scenario.members else f"group-of-chain-{index}"

    def _settings(self, controller_ids: Sequence[int]) -> dict[str, Any]:
        replicas = min(3, *self.scenario.nodes)
        partitions = self.random.choice(INTERNAL_PARTITIONS)
        return {
            **super()._settings(controller_ids),
            "offsets_topic_num_partitions": self.random.choice(INTERNAL_PARTITIONS),
            "offsets_topic_replication_factor": replicas,
            "transaction_state_log_num_partitions": partitions,
            "transaction_state_log_replication_factor": replicas,
            "transaction_state_log_min_isr": min(2, replicas),
            "transaction_abort_timed_out_transaction_cleanup_interval_ms": TIMED_OUT_EVERY_MS,
            "min_insync_replicas": min(2, replicas),
            "log_flush_interval_messages": 1 if self.scenario.durable else 2**63 - 1,
            "group_consumer_min_session_timeout_ms": SESSION_MS,
            "group_consumer_session_timeout_ms": SESSION_MS,
            "group_consumer_min_heartbeat_interval_ms": HEARTBEAT_MS,
            "group_consumer_heartbeat_interval_ms": HEARTBEAT_MS,
        }

    def _format_request(self, node_id: int, host: str, path: str) -> FormatRequest:
        request = super()._format_request(node_id, host, path)
        return replace(request, feature_levels={**request.feature_levels, TRANSACTION_VERSION: self._version})

    @property
    def _version(self) -> int:
        """All nodes are formatted alike."""
        if not hasattr(self, "_drawn_version"):
            _, supported = SUPPORTED_FEATURES[TRANSACTION_VERSION]
            self._drawn_version = min(supported, self.random.choice(self.scenario.versions))
        return self._drawn_version

    def _topic_configs(self) -> dict[str, str]:
        configs = super()._topic_configs()
        if self.scenario.cleaned:
            configs |= {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
            configs |= {"internal.segment.bytes": "2000", "delete.retention.ms": str(clocks.MARKERS_STAY_MS)}
        return configs

    # The run

    def _carried(self, socket: Socket, frame: bytearray) -> None:
        """A frame is on its way."""
        self._repeats.carried(socket, frame)
        self._held.carried(socket, frame)

    def _suffer(self) -> None:
        self.churn.begin()
        self.watcher.start()
        super()._suffer()
        self.churn.end()

    def _look(self) -> None:
        super()._look()
        for place in self._places():
            self.stable_offsets.look(self.checker.image, place)

    def _places(self) -> list[Place]:
        """All partitions that may have transactions."""
        offsets = [(OFFSETS_TOPIC, index) for index in range(self._count(OFFSETS_TOPIC))]
        return [*(ledger.place for ledger in self.ledgers), *offsets]

    def _count(self, topic: str) -> int:
        """How many partitions a topic has."""
        found = self.checker.image.topics_by_name.get(topic)
        return 0 if found is None else len(found.partitions)

    def _replicated(self) -> Sequence[PartitionHistory]:
        internal = [
            PartitionHistory(topic, index)
            for topic in (OFFSETS_TOPIC, TRANSACTION_TOPIC)
            for index in range(self._count(topic))
        ]
        return [*super()._replicated(), *internal]

    def _alike(self) -> Sequence[PartitionHistory]:
        return [] if self.scenario.cleaned else super()._alike()

    def _unfinished(self) -> list[str]:
        """Who has not finished, and which transactions are open."""
        self.churn.fill()
        found = super()._unfinished()
        for slot in self.slots:
            found += [process.name for process in slot.alive if process.transaction is not None]
        reached: dict[Place, int] = {}
        for slot in self.chain_slots:
            chain = slot.process
            assert isinstance(chain, Chain)
            reached |= chain.reached if chain.alive else {}
        for group_id, place in self.groups:
            end = self._leaders_end(self.transactions.ledgers[place])
            if end is None or reached.get(place, -1) < end:
                found.append(f"{group_id} at {reached.get(place)} of {end}")
        return found or self._open()

    def _leaders_end(self, partition: PartitionHistory) -> int | None:
        registration = self._registration(partition)
        if registration is None or registration.leader < 0:
            return None
        return self._end_offset(registration.leader, partition)

    def _open(self) -> list[str]:
        """Transactions that are open in a partition, as its leader has it."""
        found = [] if self.transactions.quiet else ["requests may come late"]
        found += self._open_at_coordinators()
        for topic, index in self._places():
            registration = self.checker.image.partition(topic, index)
            if registration is None or registration.leader < 0:
                found.append(f"{topic}-{index} has no leader")
                continue
            log = self.checker.machines[registration.leader].broker.logs.open_log(topic, index)
            if log is not None and log.producers.ongoing:
                found.append(f"{ENDS}: {topic}-{index} has {log.producers.ongoing}")
        return found

    def _open_at_coordinators(self) -> list[str]:
        """Transactions that are not over, by the log of the coordinators."""
        found = []
        for index in range(self._count(TRANSACTION_TOPIC)):
            leader = self._internal(TRANSACTION_TOPIC, index).leader
            if leader < 0:
                return [f"{TRANSACTION_TOPIC}-{index} has no leader"]
            last = {name: value for _, name, value in states(self._content(leader, TRANSACTION_TOPIC, index))}
            for name, value in last.items():
                if value is not None and value.transaction_status not in (*RESTING, Status.DEAD):
                    found.append(f"{ENDS}: {name} is {Status(value.transaction_status).name}")
        return found

    def _content(self, broker_id: int, topic: str, index: int) -> bytes:
        """What a replica has, up to the last whole batch."""
        content = replica_bytes(self.checker.machines[broker_id], topic, index)
        return content[: whole(content)]

    def _read_everything(self) -> None:
        self.transactions.over = True
        super()._read_everything()

    def _last_reader(self, partition: PartitionHistory, name: str) -> Reader:
        assert isinstance(partition, LedgerHistory)
        return LedgerReader(self.load, partition, name, COMMITTED_RECORDS)

    # The end

    def _compare_replicas(self) -> None:
        """Every replica has what the clients know, and each transaction is there or not."""
        for ledger in self.ledgers:
            registration = self._registration(ledger)
            assert registration is not None
            contents = self._contents(ledger, registration)
            if not self.scenario.cleaned:
                first = contents[registration.leader]
                different = [broker_id for broker_id, content in contents.items() if content != first]
                check(not different, "replicas are equal", f"{ledger.name}: {different} of {registration.replicas}")
                contents = {registration.leader: first}
            self._check_ledger(ledger, contents)
        self._check_transactions()
        self._check_state_log()
        for group_id, place in self.groups:
            self._check_chain(group_id, place)

    def _check_ledger(self, ledger: LedgerHistory, contents: dict[int, bytes]) -> None:
        committed: dict[int, bytes] | None = None
        for broker_id, content in contents.items():
            log = LedgerLog(ledger, calm=self.scenario.calm)
            log.check(content, f"{ledger.name} of {broker_id}")
            ledger.check_whole(log.records)
            same = committed is None or committed == log.committed
            check(same, "replicas have the same committed records", f"{ledger.name} of {broker_id}")
            committed = log.committed
            self.logs[ledger.place] = log
        self.simulation.trace(f"{ledger.name} has {len(log.records)} records, {len(log.committed)} committed")

    def _check_transactions(self) -> None:
        """All of each is there, or nothing, in all partitions."""
        there = {place: set(log.committed.values()) for place, log in self.logs.items()}
        for transaction in self.history.transactions.values():
            for place, values in transaction.values.items():
                for value in values:
                    found = value in there[place]
                    transaction.settle(found, f"{value[:40]!r} is {'' if found else 'not '}in {place} in the end")
        self.simulation.trace(f"{len(self.history.transactions)} transactions")

    def _check_state_log(self) -> None:
        log = StateLog(self.history, cleaned=self.scenario.cleaned)
        for index in range(self._count(TRANSACTION_TOPIC)):
            leader = self._internal(TRANSACTION_TOPIC, index).leader
            content = replica_bytes(self.checker.machines[leader], TRANSACTION_TOPIC, index)
            count = log.check(content, f"{TRANSACTION_TOPIC}-{index}")
            self.simulation.trace(f"{TRANSACTION_TOPIC}-{index} has {count} records")
        log.check_whole()

    def _internal(self, topic: str, index: int) -> PartitionRegistration:
        registration = self.checker.image.partition(topic, index)
        assert registration is not None
        return registration

    def _check_chain(self, group_id: str, place: Place) -> None:
        """The chain has taken everything that is committed before where its group is, once, and nothing after it."""
        offset = self._ask_committed(group_id, place)
        sources = self.logs[place].committed
        for at, value in sources.items():
            taken = value in self.history.takers
            detail = f"{group_id} is at {offset}, {place} {at} is {'' if taken else 'not '}taken"
            check(taken is (at < offset), COUNT, detail)
        for transaction in self.history.transactions.values():
            if transaction.source == place and transaction.committed and transaction.offset is not None:
                detail = f"{group_id} has {offset}, {transaction} was committed with {transaction.offset}"
                check(offset >= transaction.offset, ALL_OR_NOTHING, detail)

    def _ask_committed(self, group_id: str, place: Place) -> int:
        """What the group has committed, as its coordinator says."""
        if not self._count(OFFSETS_TOPIC):
            return 0
        client = self.load.client(f"last-admin-of-{group_id}")
        leader = self._internal(OFFSETS_TOPIC, partition_for(group_id, self._count(OFFSETS_TOPIC))).leader
        answers: list[Any] = []
        request = offset_fetch_request(group_id, place, stable=True)
        client.ask(self.checker.machines[leader].address(), request, FETCH_OFFSETS_VERSION, answers.append)
        self._wait_until(lambda: bool(answers), END_MS_MAX, "a coordinator answers", str)
        code, offset, metadata = fetched_offset(answers[0])
        check(not code, "a coordinator answers", code.name)
        if offset == NOTHING:
            return 0
        self.history.saw_offset(group_id, offset, metadata)
        return offset
