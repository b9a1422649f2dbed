"""Log levels at run time (KIP-412): the BROKER_LOGGER resource of the config APIs.

The loggers are Python's, from `penstock` down; `root` stands for `penstock` itself. Levels have log4j's names. A
level is not durable: it holds until the process ends.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.errors import ErrorCode, RequestError
from penstock.metadata.configs import APPEND, DELETE, SET, SUBTRACT

ROOT = "root"
HOUSE = "penstock"
LEVELS: Mapping[str, int] = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG - 5,
}


@dataclass(frozen=True, slots=True)
class LevelChange:
    """One logger's change; `operation` as in IncrementalAlterConfigs."""

    name: str
    operation: int
    value: str | None


def loggers() -> dict[str, str]:
    """The level of every logger, by name."""
    known = logging.Logger.manager.loggerDict
    names = sorted(name for name in known if name.startswith(f"{HOUSE}."))
    return {ROOT: level_name(logging.getLogger(HOUSE)), **{name: level_name(logging.getLogger(name)) for name in names}}


def level_name(logger: logging.Logger) -> str:
    """The name of a logger's effective level."""
    level = logger.getEffectiveLevel()
    return next((name for name, number in LEVELS.items() if level >= number), "TRACE")


def change_levels(changes: Iterable[LevelChange], *, validate_only: bool) -> None:
    """Sets or unsets levels, all or none. Raises RequestError for a logger, level or operation that does not exist."""
    changes = list(changes)
    for change in changes:
        check_level_change(change)
    if validate_only:
        return
    for change in changes:
        logger = logging.getLogger(HOUSE if change.name == ROOT else change.name)
        logger.setLevel(LEVELS[change.value or ""] if change.operation == SET else logging.NOTSET)


def check_level_change(change: LevelChange) -> None:
    if change.operation in (APPEND, SUBTRACT):
        name = "APPEND" if change.operation == APPEND else "SUBTRACT"
        raise RequestError(ErrorCode.INVALID_REQUEST, f"{name} operation is not allowed for the BROKER_LOGGER resource")
    if change.operation not in (SET, DELETE):
        raise RequestError(
            ErrorCode.INVALID_REQUEST,
            f"Unknown operation type {change.operation} is not allowed for the BROKER_LOGGER resource",
        )
    if change.name not in loggers():
        raise RequestError(ErrorCode.INVALID_CONFIG, f"Logger {change.name} does not exist!")
    if change.operation == DELETE and change.name == ROOT:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"Removing the log level of the {ROOT} logger is not allowed")
    if change.operation == SET and change.value not in LEVELS:
        raise RequestError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {change.name} to {change.value} as it is not a supported log level. "
            f"Valid log levels are {', '.join(sorted(LEVELS))}",
        )
