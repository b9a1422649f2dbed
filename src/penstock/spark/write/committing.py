"""The driver's commit of the transactional sink: what the tasks have staged, in one transaction, once.

Becoming the producer of `penstock-sink-ID` fences the driver before and ends its transaction, so that from there on
nothing of it can appear. Then the sink's marker says whether this batch is in the topic already; if not, its rows and
the new marker go out in one transaction. So whatever dies where: either rows and marker are both there, or neither is.

Without rows there is nothing to repeat, and no broker is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from functools import partial

from penstock.client.admin import Resource, ResourceType, create_topic, describe_configs, refused, wait_for_topic
from penstock.client.client import Client, Partition
from penstock.client.security import UNSECURED, ClientSecurity
from penstock.client.transactional import FENCED, Transactions
from penstock.errors import ErrorCode, PenstockError, RequestError
from penstock.records.builder import BatchBuilder
from penstock.spark.write.committed_values import committed_values
from penstock.spark.write.exactly_once import ExactlyOnce
from penstock.spark.write.markers import (
    MARKER_PARTITION,
    MARKERS,
    MARKERS_CONFIGS,
    Marker,
    is_new,
    last_of,
)
from penstock.spark.write.rows import SinkError
from penstock.spark.write.staged_files import delete, delete_until, of_others, read_staged
from penstock.spark.write.staging import Staged
from penstock.spark.write.stamping import Planned, planned, stamp
from penstock.spark.write.transaction_sending import Piece, TransactionSending

NOT_KNOWN = (
    "Whether the batch was committed is told by the sink's marker: the same batch, or a write with the same"
    " penstock.write.id, can be sent again and is not doubled"
)


class Step(Enum):
    """What a commit has just done, in order."""

    FENCED = 1
    MARKER_READ = 2
    BATCH_SENT = 3
    ALL_SENT = 4
    ENDED = 5


Reached = Callable[[Step], None]


class Committer:
    """Commits the batches of one sink.

    Args:
        bootstrap: brokers.
        topic: where the rows go.
        options: the sink's.
        wall_ms: the time of the markers.
        reached: told of each step.
        security: TLS and login at the brokers.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        options: ExactlyOnce,
        *,
        wall_ms: Callable[[], int],
        reached: Reached = lambda step: None,
        security: ClientSecurity = UNSECURED,
    ) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._options = options
        self._wall_ms = wall_ms
        self._reached = reached
        self._security = security

    async def commit(self, batch: Marker, stages: Sequence[Staged], last: Marker | None = None) -> bool:
        """Writes a batch unless it is written; returns whether it was not. The staged files of it are deleted then, and
        those of others that cannot be committed any more. `last` is the sink's marker of when a write began.

        Raises SinkError, RequestError, UnreachableError; the transaction is aborted, or its end is not known, and the
        same batch can be committed again.
        """
        written = False
        if any(staged.batches for staged in stages):
            options = self._options
            client = Client(
                self._bootstrap,
                client_id=options.client_id,
                timeout_ms=options.max_block_ms,
                security=self._security,
            )
            async with client:
                written = await self._commit(client, batch, stages, last)
        delete_until(self._options.staging, batch.query, batch.batch)
        return written

    async def _commit(self, client: Client, batch: Marker, stages: Sequence[Staged], last: Marker | None) -> bool:
        options = self._options
        await make_markers_topic(client)
        transactions = Transactions(
            client,
            options.transactional_id,
            timeout_ms=options.transaction_timeout_ms,
            patience_ms=options.max_block_ms,
        )
        await transactions.open()
        self._reached(Step.FENCED)
        marker = await last_marker(client, options.sink_id)
        self._reached(Step.MARKER_READ)
        if not is_new(marker, batch, options.sink_id, options.replaces, last):
            return False
        dead = of_others(options.staging, batch.query)
        try:
            await self._send(client, transactions, batch, planned(stages))
        except PenstockError as error:
            with suppress(PenstockError):
                await transactions.end(committed=False)
            raise explained(error, "Nothing was committed", options) from None
        self._reached(Step.ALL_SENT)
        try:
            await transactions.end(committed=True)
        except RequestError as error:
            raise explained(error, NOT_KNOWN, options) from None
        self._reached(Step.ENDED)
        for path in dead:
            delete(path)
        return True

    async def _send(
        self, client: Client, transactions: Transactions, batch: Marker, plan: dict[int, list[Planned]]
    ) -> None:
        def load(each: Planned) -> bytearray:
            content = read_staged(each.staged, each.batch)
            stamp(content, transactions.producer_id, transactions.producer_epoch, each.base_sequence)
            return content

        def load_marker() -> bytearray:
            builder = BatchBuilder(
                producer_id=transactions.producer_id,
                producer_epoch=transactions.producer_epoch,
                base_sequence=0,
                is_transactional=True,
            )
            builder.append(self._wall_ms(), self._options.sink_id.encode(), batch.encode())
            return builder.build()

        work: dict[Partition, list[Piece]] = {
            (self._topic, partition): [Piece(partial(load, each)) for each in batches]
            for partition, batches in plan.items()
        }
        work[MARKERS, MARKER_PARTITION] = [Piece(load_marker)]
        await transactions.join(work)
        sending = TransactionSending(client, transactions, self._options, lambda _: self._reached(Step.BATCH_SENT))
        await sending.send(work)


async def make_markers_topic(client: Client, name: str = MARKERS) -> None:
    """Makes a topic of markers if there is none, with the brokers' default replication.

    Raises RequestError, SinkError.
    """
    (found,) = (await client.refresh([name])).topics  # asked anew: it may have been deleted since
    if found.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        refused(found.error_code, None, f"topic {name}")
        return
    try:
        await create_topic(client, name, partitions=1, configs=MARKERS_CONFIGS)
    except RequestError as refusal:
        if refusal.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise SinkError(
                f"topic {name}, which is needed here, cannot be made: {refusal}. Make it with one partition and"
                " cleanup.policy=compact"
            ) from None
    await wait_for_topic(client, name, expected=1)


async def check_markers_topic(client: Client, name: str = MARKERS) -> None:
    """Raises SinkError unless the topic keeps the last marker of each key for ever."""
    policies = await describe_configs(client, Resource(ResourceType.TOPIC, name), ["cleanup.policy"])
    if [each.value for each in policies] != ["compact"]:
        raise SinkError(
            f"topic {name} must have cleanup.policy=compact, it has {policies[0].value}: markers would be"
            " deleted, and batches written twice"
        )


async def last_marker(client: Client, sink_id: str, *, others_write: bool = False) -> Marker | None:
    """The batch that a sink has committed last, given that it has no transaction open, or that `others_write`.

    Raises SinkError.
    """
    values, hanging = await committed_values(client, (MARKERS, MARKER_PARTITION), sink_id.encode().__eq__)
    found = last_of(values, hanging, sink_id, others_write=others_write)
    if found is None:
        await check_markers_topic(client)
    return found


def explained(error: PenstockError, outcome: str, options: ExactlyOnce) -> PenstockError:
    """An error of a transaction with what it means for the batch, and what to do."""
    if isinstance(error, RequestError) and error.code in FENCED:
        return SinkError(
            f"{error}. {outcome}. If the microbatch takes longer than kafka.transaction.timeout.ms ="
            f" {options.transaction_timeout_ms}, raise it, or make microbatches smaller; if another driver runs with"
            f" penstock.sink.id = {options.sink_id}, stop one of the two"
        )
    return error
