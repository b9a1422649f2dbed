"""Feature levels: which records the log may hold, so that Guardian is upgraded node by node.

Each type of record belongs to a level, and is written only when the log is at that level or above. A new log begins at
the highest level that its leader knows; an older one stays where it is, whatever software its nodes run, until somebody
asks for more (`penstock guardian upgrade`). Then the leader asks every other voter which levels it knows, by
ApiVersions, and raises the level only if all of them follow. A voter that says nothing of levels is as old as they are:
it knows the first alone.

A level is never lowered: a node that is too old for it stops, and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, get_args

from penstock.config.guardian import LISTENER, GuardianSettings
from penstock.guardian.core.accounts import AccountRecord
from penstock.guardian.core.alarms.alarm import AlarmRecord
from penstock.guardian.core.records import FEATURE_LEVEL, GuardianRecord
from penstock.guardian.core.work.replaying import WorkRecord
from penstock.node.outgoing import Outgoing, Peer
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.api_versions_response import ApiVersionsResponse, SupportedFeatureKey
from penstock.protocol.messages.guardian.guardian_cluster_record import GuardianClusterRecord
from penstock.protocol.messages.guardian.guardian_command_record import GuardianCommandRecord
from penstock.protocol.messages.guardian.guardian_level_record import GuardianLevelRecord
from penstock.protocol.messages.guardian.guardian_mode_record import GuardianModeRecord
from penstock.protocol.messages.guardian.guardian_remove_cluster_record import GuardianRemoveClusterRecord

FEATURE = "guardian.level"
"""The name of the levels among the features in ApiVersions."""
FIRST_LEVEL = 1
CHANNEL = "guardian level"

LEVELS: Mapping[type, int] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                *(GuardianLevelRecord, GuardianCommandRecord),
                *(GuardianClusterRecord, GuardianRemoveClusterRecord, GuardianModeRecord),
            ),
            1,
        ),
        **dict.fromkeys((*get_args(AlarmRecord), *get_args(WorkRecord), *get_args(AccountRecord)), 2),
    }
)
"""The level that each type of record belongs to; a new type belongs to one above all that were ever released."""


def needed_level(records: Iterable[GuardianRecord]) -> int:
    """The level at which all of these may be written."""
    return max((LEVELS[type(each)] for each in records), default=FIRST_LEVEL)


def supported_feature(knows: int = FEATURE_LEVEL) -> SupportedFeatureKey:
    """What a node says of itself in ApiVersions."""
    return SupportedFeatureKey(name=FEATURE, min_version=FIRST_LEVEL, max_version=knows)


def known_by(answer: Any) -> int:
    """The highest level that a node knows, by what it says of itself."""
    for each in answer.supported_features or ():
        if each.name == FEATURE:
            return int(each.max_version)
    return FIRST_LEVEL


class VoterLevels:
    """Asks the other voters which levels they know."""

    def __init__(self, settings: GuardianSettings, outgoing: Outgoing, *, timeout_ms: int) -> None:
        own_id = settings.penstock_guardian_node_id
        self._peers = [
            Peer(each.id, each.host, each.port, LISTENER) for each in settings.node.voters if each.id != own_id
        ]
        self._outgoing = outgoing
        self._timeout_ms = timeout_ms

    def ask(self, told: Callable[[Mapping[int, int | None], int], None], now_ms: int) -> None:
        """Calls `told(levels, now_ms)` once: the highest level of each other voter, None for one without an answer."""
        if not self._peers:
            told({}, now_ms)
            return
        found: dict[int, int | None] = {}

        def answered(node_id: int, answer: Message | None, reason: str | None, at_ms: int) -> None:
            told_it = isinstance(answer, ApiVersionsResponse) and not answer.error_code
            found[node_id] = known_by(answer) if told_it else None
            if len(found) == len(self._peers):
                told(found, at_ms)

        for peer in self._peers:
            done = partial(answered, peer.node_id)
            self._outgoing.call(
                peer, ApiVersionsRequest(), timeout_ms=self._timeout_ms, done=done, now_ms=now_ms, channel=CHANNEL
            )
