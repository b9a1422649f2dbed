"""What a pipeline's file says of an audit, as its step and its report use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from penstock.client.property_files import client_properties
from penstock.client.security import UNSECURED, ClientSecurity
from penstock.errors import ConfigError

DAY_MS = 86_400_000
PRODUCER, CLUSTER, LAKE = "producer", "cluster", "lake"
"""Tiers; each mirror is one of its own name."""


@dataclass(frozen=True, slots=True)
class Copy:
    """Another cluster that has the topics, under names with a prefix."""

    name: str
    bootstrap: str
    prefix: str
    security: ClientSecurity = UNSECURED


@dataclass(frozen=True, slots=True)
class Lake:
    """A table that has the topics' records, or some of them."""

    table: str
    table_format: str
    storage_options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Settings:
    """See `penstock.pipelines.jobs.audit.JOB`; `counts` is the path of the counts' table."""

    topics: Sequence[str]
    audit_topic: str | None
    mirrors: Sequence[Copy]
    lakes: Sequence[Lake]
    counts: str
    since_ms: int | None
    grace_ms: int
    keep_days: int

    @classmethod
    def of(cls, options: Mapping[str, Any], directory: Path) -> Settings:
        """Raises ConfigError."""
        mirrors = [
            Copy(each["name"], each["bootstrap"], each["prefix"], _security(each.get("command_config")))
            for each in options["mirrors"] or ()
        ]
        names = [each.name for each in mirrors]
        if len({*names, PRODUCER, CLUSTER, LAKE}) < len(names) + 3:
            raise ConfigError(f"mirrors need names of their own, none of them {PRODUCER}, {CLUSTER} or {LAKE}")
        lakes = [Lake(each["table"], each["table_format"], each["storage_options"]) for each in options["lakes"] or ()]
        audit_topic = options["audit_topic"]
        if not mirrors and not lakes and audit_topic is None:
            raise ConfigError("there is nothing to compare the topics with: audit_topic, mirrors or lakes")
        if audit_topic in options["topics"]:
            raise ConfigError("topics cannot have the audit_topic itself")
        if any(not each.table for each in lakes) or any(not each.bootstrap for each in mirrors):
            raise ConfigError("each of lakes needs a table, each of mirrors a bootstrap")
        return cls(
            options["topics"],
            audit_topic,
            mirrors,
            lakes,
            options["table"] or str(directory / "tables" / "completeness"),
            _since(options["since"]),
            options["grace_seconds"] * 1000,
            options["keep_days"],
        )

    @property
    def tiers(self) -> dict[str, str]:
        """Each tier with the one that it is held against."""
        found = {CLUSTER: PRODUCER} if self.audit_topic is not None else {}
        found |= {each.name: CLUSTER for each in self.mirrors}
        return found | ({LAKE: CLUSTER} if self.lakes else {})

    def first_ms(self, since_ms: int, now_ms: int) -> int:
        """The first bucket that counts now: those of whole days are forgotten."""
        return max(since_ms, now_ms - now_ms % DAY_MS - self.keep_days * DAY_MS)


def _since(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"since is {text!r}: it must be a time like 2026-01-31T08:00Z") from None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def _security(path: str | None) -> ClientSecurity:
    """What a mirror's file of client properties says. Raises ConfigError."""
    return UNSECURED if path is None else client_properties(path)[1]
