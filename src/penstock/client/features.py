"""Feature levels of a cluster: which are finalized, what its brokers support, and changing them (KIP-584)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from penstock.client.admin import TIMEOUT_MS, refused
from penstock.errors import UnreachableError
from penstock.protocol.api import SOFTWARE_NAME

if TYPE_CHECKING:
    from penstock.client.client import Client
    from penstock.protocol.messages.api_versions_response import ApiVersionsResponse

BROKERS_AT_ONCE = 100


class UpgradeType(IntEnum):
    """The kinds of level changes that are allowed, numbered as in UpdateFeatures."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True)
class FeatureState:
    """One feature: its finalized level, 0 for none, and the levels that every broker asked supports."""

    name: str
    level: int
    lowest: int
    highest: int


async def describe_features(client: Client, node_ids: Iterable[int]) -> tuple[FeatureState, ...]:
    """All features that these brokers know or that are finalized, by name. Brokers that do not answer are left out."""
    from penstock.protocol.messages.api_versions_request import ApiVersionsRequest

    request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version="0")

    async def ask(node_id: int) -> ApiVersionsResponse | None:
        try:
            answer: ApiVersionsResponse = await client.send(request, node_id=node_id)
        except UnreachableError:
            return None
        return answer

    asked = sorted(node_ids)
    answers: list[ApiVersionsResponse] = []
    for first in range(0, len(asked), BROKERS_AT_ONCE):
        got = await asyncio.gather(*map(ask, asked[first : first + BROKERS_AT_ONCE]))
        answers += [each for each in got if each is not None]
    levels: dict[str, int] = {}
    newest = max(answers, key=lambda each: each.finalized_features_epoch, default=None)
    if newest is not None:
        levels = {each.name: each.max_version_level for each in newest.finalized_features}
    ranges = [{each.name: (each.min_version, each.max_version) for each in got.supported_features} for got in answers]
    names = sorted({*levels, *(name for supported in ranges for name in supported)})
    return tuple(
        FeatureState(
            name,
            levels.get(name, 0),
            max((supported.get(name, (0, 0))[0] for supported in ranges), default=0),
            min((supported.get(name, (0, 0))[1] for supported in ranges), default=0),
        )
        for name in names
    )


async def update_features(
    client: Client, levels: Mapping[str, tuple[int, UpgradeType]], *, validate_only: bool = False
) -> None:
    """Sets levels, all or none. Raises RequestError with the controller's reason."""
    from penstock.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest

    updates = [
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
        for name, (level, kind) in levels.items()
    ]
    request = UpdateFeaturesRequest(timeout_ms=TIMEOUT_MS, feature_updates=updates, validate_only=validate_only)
    answer = await client.send(request)
    refused(answer.error_code, answer.error_message, "features")
    for got in answer.results:
        refused(got.error_code, got.error_message, got.feature)
