"""A controller node on a simulated disk, with nothing around it: every operation runs when the test says so."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

from penstock.config.server import Settings
from penstock.errors import ErrorCode
from penstock.log.disk import Operation
from penstock.log.meta_properties import read_meta_properties
from penstock.metadata import brokers, topics
from penstock.metadata.bootstrap import read_bootstrap
from penstock.metadata.brokers import Registration
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.format import FormatRequest, format_directories
from penstock.metadata.image import Endpoint, MetadataImage
from penstock.node.controller import ControllerNode
from penstock.node.quorum import Quorum
from penstock.protocol.messages.create_topics_request import CreatableTopic
from penstock.raft.voters import VoterEndpoint
from simulator.world.disk import SimulatedDisk

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
NODE_ID = 1
START_MS = 1_800_000_000_000
LOG_DIRECTORY = "/data"


def formatted_disk(*, standalone: bool = True, **request: Any) -> SimulatedDisk:
    """A disk as `storage format` leaves it, with no other feature than metadata.version unless `request` has some."""
    request.setdefault("feature_levels", {"group.version": 0, "transaction.version": 0})
    disk = SimulatedDisk(clock=lambda: START_MS)
    controller = VoterEndpoint("CONTROLLER", "127.0.0.1", 9093)
    format_directories(
        {LOG_DIRECTORY: disk},
        FormatRequest(CLUSTER_ID, NODE_ID, LOG_DIRECTORY, standalone=standalone, controller=controller, **request),
        Random(1),
        START_MS,
    )
    return disk


def directory_id_of(disk: SimulatedDisk) -> UUID:

    found = read_meta_properties(disk, LOG_DIRECTORY).directory_id
    assert found is not None
    return found


class Harness:
    """One run of a controller node, from its start to its stop or crash.

    `history` has a line for each thing that happened, in order: operations as they run, and what the observer heard.
    """

    def __init__(self, disk: SimulatedDisk, *, now_ms: int = START_MS, seed: int = 7, **settings: Any) -> None:
        self.disk = disk
        self.now_ms = now_ms
        self.settings = Settings.for_node(NODE_ID, log_dirs=(LOG_DIRECTORY,), **settings)
        self.random = Random(seed)
        self.history: list[str] = []
        self.published: list[tuple[MetadataImage, MetadataImage, MetadataDelta]] = []
        self.failures: list[Exception] = []
        self.waiting: list[Operation] = []
        self.quorum = Quorum(
            self.settings, disk, self, call=self.call, directory_id=directory_id_of(disk), random=self.random
        )
        self.node = ControllerNode(self.settings, self.quorum, self, bootstrap=read_bootstrap(disk), random=self.random)

    # What the node's observer hears

    def image_published(self, old: MetadataImage, new: MetadataImage, delta: MetadataDelta, now_ms: int) -> None:
        self.published.append((old, new, delta))
        self.history.append(f"published {new.offset}")

    def controller_active(self, now_ms: int) -> None:
        self.history.append("active")

    def leader_changed(self, leader: object, now_ms: int) -> None:
        assert leader is None, "there is nobody else"

    def call(self, *arguments: object) -> None:
        raise AssertionError("there is nobody to call")

    def answer(self, request: object, message: object, now_ms: int) -> None:
        raise AssertionError("nobody asks")

    def bug(self, place: str, what: str, error: Exception) -> None:
        raise error

    def quorum_stirred(self) -> None: ...

    def metadata_log_has_no_room(self, error: OSError, now_ms: int) -> None: ...

    def metadata_log_has_room(self, now_ms: int) -> None: ...

    def metadata_log_failed(self, error: Exception, now_ms: int) -> None:
        self.failures.append(error)
        self.history.append(f"failed: {error}")

    # Running

    def take(self) -> None:
        """Ends a turn of the loop: what the node wants done waits from now on."""
        self.waiting += self.quorum.take_operations(self.now_ms)

    def step(self) -> bool:
        """Runs the operation that has waited longest; False when there is none."""
        self.take()
        if not self.waiting:
            return False
        operation = self.waiting.pop(0)
        self.history.append(type(operation).__name__)
        try:
            result = operation.run(self.disk)
        except OSError as error:
            operation.owner.operation_failed(operation, error, self.now_ms)
        else:
            operation.owner.operation_completed(operation, result, self.now_ms)
        return True

    def settle(self) -> None:
        """Runs everything."""
        while self.step():
            pass

    def start(self) -> Harness:
        """Starts the node and has it become active."""
        self.quorum.start(self.now_ms, self.node)
        self.settle()
        return self

    def register(self, *, incarnation: int = 1, port: int = 9092) -> int:
        """Registers and unfences the node's broker; returns its epoch."""
        registration = Registration(
            NODE_ID,
            UUID(int=1 << 100 | incarnation),
            [Endpoint("PLAINTEXT", "127.0.0.1", port)],
            [directory_id_of(self.disk)],
        )
        state = self.node.state
        result = brokers.register_broker(state, registration, self.node.next_offset)
        own = brokers.register_controller(state, NODE_ID, registration.incarnation_id, [])
        self.append([*result.records, *own.records])
        self.settle()
        unfenced = brokers.unfence_broker(state, NODE_ID, result.response).records
        if unfenced:
            self.append(unfenced)
            self.settle()
        return result.response

    def append(self, records: Any) -> list[ErrorCode]:
        """Appends records; the list gets NONE when they are committed, or the code when they are lost."""
        outcome: list[ErrorCode] = []
        self.node.append(
            records,
            lambda now_ms: outcome.append(ErrorCode.NONE),
            lambda code, now_ms: outcome.append(code),
            self.now_ms,
        )
        return outcome

    def create_topic(self, name: str, partitions: int = 1) -> list[ErrorCode]:
        """Creates a topic; see `append`."""
        wanted = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        return self.append(topics.create_topics(self.node.state, [wanted]).records)

    def stop(self) -> None:
        """Stops cleanly."""
        state = self.node.state
        broker = state.image.brokers.get(NODE_ID)
        if broker is not None and not broker.fenced:
            self.append(brokers.begin_controlled_shutdown(state, NODE_ID, broker.epoch).records)
            self.append(brokers.fence_broker(state, NODE_ID, broker.epoch).records)
            self.settle()
        self.quorum.shutdown(lambda now_ms: self.history.append("stopped"), self.now_ms)
        self.settle()
