"""Changing finalized feature levels: the controller's side of UpdateFeatures (KIP-584, KIP-778).

A level is finalized only if this controller, every other registered controller and every registered broker supports it.
All updates of a request happen or none. The sentences are those of Kafka 4.3's FeatureControlManager.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from penstock.errors import ErrorCode
from penstock.metadata.eligible import switched_off
from penstock.metadata.features import (
    ELR_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    SUPPORTED_FEATURES,
    record_formats_differ,
)
from penstock.metadata.image import ConfigResource
from penstock.metadata.result import OK, ApiError, MetadataMessage, Result
from penstock.protocol.messages.metadata.config_record import ConfigRecord
from penstock.protocol.messages.metadata.feature_level_record import FeatureLevelRecord
from penstock.protocol.messages.metadata.no_op_record import NoOpRecord

if TYPE_CHECKING:
    from penstock.metadata.controller import Controller

MIN_INSYNC_REPLICAS = "min.insync.replicas"


class UpgradeType(IntEnum):
    """The kind of level change that a client allows."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """The level that is wanted for a feature. `upgrade_type` is one of UpgradeType, or what a client made up."""

    name: str
    level: int
    upgrade_type: int = UpgradeType.UPGRADE


def update_features(
    controller: Controller, updates: Mapping[str, FeatureUpdate], *, kraft_version: int = 0
) -> Result[ApiError]:
    """Finalizes the levels of `updates`, by feature name.

    `kraft_version` is the present level, which is not in the image. The quorum writes and checks a new one by itself.
    """
    records: list[MetadataMessage] = []
    for update in updates.values():
        error = problem_of(controller, update, kraft_version)
        if error is not None:
            return Result(error)
        if update.name == KRAFT_VERSION:
            records.append(NoOpRecord())  # committed after what the quorum writes of it
        else:
            records.append(FeatureLevelRecord(name=update.name, feature_level=update.level))
    wanted = updates.get(ELR_VERSION)
    if wanted is not None and wanted.level > 0:
        records = [*one_minimum_for_all(controller), *records]
    elif wanted is not None and controller.elr_enabled:
        records += switched_off(controller)
    return Result(OK, records)


def problem_of(controller: Controller, update: FeatureUpdate, kraft_version: int) -> ApiError | None:
    """Why a feature cannot get a level; None if it can."""
    current = kraft_version if update.name == KRAFT_VERSION else controller.image.features.get(update.name, 0)
    problem = None
    if update.upgrade_type not in set(UpgradeType):
        problem = "The controller does not support the given upgrade type."
    elif update.level < 0:
        problem = "A feature version cannot be less than 0."
    else:
        problem = not_supported(controller, update.name, update.level)
    if problem is None:
        if update.level < current and update.upgrade_type == UpgradeType.UPGRADE:
            problem = (
                "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
                "downgrade."
            )
        elif update.level > current and update.upgrade_type != UpgradeType.UPGRADE:
            problem = "Can't downgrade to a newer version."
        elif update.name == METADATA_VERSION:
            return downgrade_problem(update, current)
        elif update.name == KRAFT_VERSION and update.level != current:
            problem = "Can't downgrade the version of this feature." if update.level < current else None
        elif update.name not in SUPPORTED_FEATURES:
            problem = f"Feature {update.name} not found."
    if problem is None:
        return None
    sentence = f"Invalid update version {update.level} for feature {update.name}. {problem}"
    return ApiError(ErrorCode.INVALID_UPDATE_VERSION, sentence)


def downgrade_problem(update: FeatureUpdate, current: int) -> ApiError | None:
    """A metadata.version is lowered only if both levels have the same records: nothing would be lost."""
    if update.level >= current or not record_formats_differ(update.level, current):
        return None
    sentence = f"Unsupported metadata.version downgrade from {current} to {update.level}. "
    if update.upgrade_type == UpgradeType.UNSAFE_DOWNGRADE:
        sentence += "Unsafe metadata downgrade is not supported in this version."
    else:
        sentence += "Refusing to perform the requested downgrade because it might delete metadata information."
    return ApiError(ErrorCode.INVALID_UPDATE_VERSION, sentence)


def not_supported(controller: Controller, name: str, level: int) -> str | None:
    """A node that does not support a level; None if all do."""
    own = controller.settings.node_id
    image = controller.image
    nodes = [(f"Local controller {own}", SUPPORTED_FEATURES.get(name, (0, 0)))]
    nodes += [(f"Broker {each.id}", each.features.get(name, (0, 0))) for each in image.brokers.values()]
    nodes += [
        (f"Controller {each.id}", each.features.get(name, (0, 0)))
        for each in image.controllers.values()
        if each.id != own
    ]
    for node, (lowest, highest) in nodes:
        if not lowest <= level <= highest:
            if highest == 0:
                return f"{node} does not support this feature."
            return f"{node} only supports versions {lowest if lowest == highest else f'{lowest}-{highest}'}"
    return None


def one_minimum_for_all(controller: Controller) -> list[ConfigRecord]:
    """With eligible leader replicas, `min.insync.replicas` decides who may lead, so all brokers must have the same: the
    cluster's is written down, those of single brokers go."""
    records = []
    if MIN_INSYNC_REPLICAS not in controller.cluster_configs:
        value = str(controller.settings.topic_defaults.min_insync_replicas)
        records.append(
            ConfigRecord(resource_type=ConfigResource.BROKER, resource_name="", name=MIN_INSYNC_REPLICAS, value=value)
        )
    for (kind, name), overrides in controller.image.configs.items():
        if kind == ConfigResource.BROKER and name and MIN_INSYNC_REPLICAS in overrides:
            records.append(ConfigRecord(resource_type=kind, resource_name=name, name=MIN_INSYNC_REPLICAS, value=None))
    return records
