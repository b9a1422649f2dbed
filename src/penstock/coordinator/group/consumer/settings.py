"""What the settings of a group are: the configs of its resource (type GROUP, KIP-848) before those of the broker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from penstock.coordinator.group.config import GroupConfig
from penstock.metadata.image import ConfigResource

if TYPE_CHECKING:
    from penstock.coordinator.group.machine import GroupMachine


class Timing(NamedTuple):
    """The times of one group."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


def timing(machine: GroupMachine, group_id: str) -> Timing:
    """The times of a group."""
    overrides = machine.image.configs.get((ConfigResource.GROUP, group_id))
    config = machine.config()
    if overrides is None:
        return Timing(
            config.consumer_session_timeout_ms,
            config.consumer_heartbeat_interval_ms,
            config.consumer_assignment_interval_ms,
        )
    return timing_of(overrides, config)


def timing_of(overrides: Mapping[str, str], config: GroupConfig) -> Timing:
    """The times of a group with configs of its own, which the bounds of the broker hold in."""
    return Timing(
        within(
            overrides.get("consumer.session.timeout.ms"),
            config.consumer_session_timeout_ms,
            config.consumer_min_session_timeout_ms,
            config.consumer_max_session_timeout_ms,
        ),
        within(
            overrides.get("consumer.heartbeat.interval.ms"),
            config.consumer_heartbeat_interval_ms,
            config.consumer_min_heartbeat_interval_ms,
            config.consumer_max_heartbeat_interval_ms,
        ),
        within(
            overrides.get("consumer.assignment.interval.ms"),
            config.consumer_assignment_interval_ms,
            config.consumer_min_assignment_interval_ms,
            config.consumer_max_assignment_interval_ms,
        ),
    )


def within(text: str | None, default: int, at_least: int, at_most: int) -> int:
    """A config of the group, or what the broker says when it has none or one that is no number."""
    try:
        return default if text is None else min(max(int(text), at_least), at_most)
    except ValueError:
        return default


def default_assignor(config: GroupConfig) -> str:
    """The one that members get who do not ask for one."""
    return config.consumer_assignors[0]


def preferred_assignor(config: GroupConfig, counts: Mapping[str, int]) -> str:
    """The assignor that most members ask for, of those that the broker still has; of equals its first."""
    wanted = [name for name in config.consumer_assignors if counts.get(name)]
    return max(wanted, key=lambda name: counts[name], default=default_assignor(config))
