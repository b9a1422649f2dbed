"""Names of topics: which are allowed, which collide, which are the cluster's own."""

from __future__ import annotations

import re

from penstock.errors import ErrorCode, RequestError
from penstock.log.names import COORDINATOR_TOPICS
from penstock.metadata.limits import TOPIC_NAME_MAX_CHARACTERS
from penstock.raft.topic import METADATA

METADATA_TOPIC = METADATA.name
INTERNAL_TOPICS = COORDINATOR_TOPICS
"""Topics of the coordinators: clients see them flagged as internal."""

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Raises RequestError INVALID_TOPIC_EXCEPTION with Kafka's sentence for a name that no topic may have."""
    reason = None
    if not name:
        reason = "the empty string is not allowed"
    elif name in {".", ".."}:
        reason = f"'{name}' is not allowed"
    elif len(name) > TOPIC_NAME_MAX_CHARACTERS:
        reason = f"the length of '{name}' is longer than the max allowed length {TOPIC_NAME_MAX_CHARACTERS}"
    elif _LEGAL.fullmatch(name) is None:
        reason = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    if reason is not None:
        raise RequestError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def collision_key(name: str) -> str | None:
    """The key that two topics must not share, since metric names turn dots into underscores; None for a name with
    neither.
    """
    return name.replace(".", "_") if "." in name or "_" in name else None


def is_internal(name: str) -> bool:
    """Whether a topic belongs to a coordinator: clients may not write to it or delete its records."""
    return name in INTERNAL_TOPICS
