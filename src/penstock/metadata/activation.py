"""The first records of a controller that has become active, as Kafka's ActivationRecordsGenerator.

An empty log gets the records of `bootstrap.checkpoint`, in a metadata transaction, so that they may need several
batches; with eligible leader replicas also `min.insync.replicas`, which then must be the same for all brokers. A log
whose last leader left a transaction open gets it aborted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.metadata.feature_updates import one_minimum_for_all
from penstock.metadata.features import ELR_VERSION, LATEST_METADATA_VERSION, METADATA_VERSION
from penstock.metadata.result import MetadataMessage, Result
from penstock.protocol.messages.metadata.abort_transaction_record import AbortTransactionRecord
from penstock.protocol.messages.metadata.begin_transaction_record import BeginTransactionRecord
from penstock.protocol.messages.metadata.end_transaction_record import EndTransactionRecord
from penstock.protocol.messages.metadata.feature_level_record import FeatureLevelRecord

if TYPE_CHECKING:
    from penstock.metadata.controller import Controller

BOOTSTRAP_TRANSACTION = "Bootstrap records"
FAILOVER = "Controller failover"


def default_bootstrap() -> list[MetadataMessage]:
    """The first records of an empty log in a directory without a bootstrap.checkpoint."""
    return [FeatureLevelRecord(name=METADATA_VERSION, feature_level=LATEST_METADATA_VERSION)]


def activation_records(controller: Controller, bootstrap: Sequence[MetadataMessage]) -> Result[None]:
    """The records to append before anything else is served."""
    records: list[MetadataMessage] = []
    if controller.transaction_start_offset >= 0:
        records.append(AbortTransactionRecord(reason=FAILOVER))
    if controller.image.features:
        return Result(None, records)
    records.append(BeginTransactionRecord(name=BOOTSTRAP_TRANSACTION))
    records += bootstrap
    if any(
        isinstance(each, FeatureLevelRecord) and each.name == ELR_VERSION and each.feature_level for each in bootstrap
    ):
        records += one_minimum_for_all(controller)
    records.append(EndTransactionRecord())
    return Result(None, records, atomic=False)
