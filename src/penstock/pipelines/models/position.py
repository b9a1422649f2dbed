"""How far a model has read topics: what row counts are held against, and what ends a backfill beside a stream.

A file in the pipeline's directory, replaced after each run of the model: the offset that each partition was read from,
and until. Of an incremental model the ends are those of its query's checkpoint, the starts those of its first run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.errors import ConfigError
from penstock.pipelines.models.frames import Ends
from penstock.pipelines.models.project import Model, Project, Source
from penstock.spark.frames.positions import NOTHING
from penstock.spark.frames.stream_position import from_json as table_position
from penstock.spark.lake.destination import Destination, table_uri
from penstock.spark.read.stream_offsets import from_json as topic_positions


@dataclass(frozen=True, slots=True)
class Positions:
    """Where the files are."""

    directory: Path

    def read(self, model: str) -> dict[str, Ends]:
        """By source the offsets that a model has read; empty if it never ran."""
        try:
            told = json.loads(self._path(model).read_text())
        except FileNotFoundError:
            return {}
        return {
            source: {int(each): (ends[0], ends[1]) for each, ends in partitions.items()}
            for source, partitions in told.items()
        }

    def write(self, model: str, ends: Mapping[str, Ends]) -> None:
        path = self._path(model)
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(ends))
        fresh.replace(path)

    def _path(self, model: str) -> Path:
        return self.directory / "models" / f"{model}.json"


@dataclass(frozen=True, slots=True)
class Reached:
    """Where a query's checkpoint stands: offsets by topic and partition, the next version by a table's id, and the
    time up to which windows are over (Spark's watermark), in ms since 1970; 0 if there is none."""

    topics: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    tables: Mapping[str, int] = field(default_factory=dict)
    watermark_ms: int = 0

    def ends(self, project: Project, model: Model, starts: Mapping[str, Ends]) -> dict[str, Ends]:
        """By source of a model the offsets that it has read; a partition that is in no `starts` is read from 0."""
        return {
            source.name: {
                each: (starts.get(source.name, {}).get(each, (0, 0))[0], end) for each, end in self._of(source).items()
            }
            for source in project.topics(model)
        }

    def _of(self, source: Source) -> Mapping[int, int]:
        return self.topics.get(source.topic or "", {})


def has_begun(checkpoint: str, storage_options: Mapping[str, str]) -> bool:
    """Whether a checkpoint is one of a query that has started a batch."""
    return bool(Destination(table_uri(checkpoint), storage_options).list("offsets"))


def has_state(checkpoint: str, storage_options: Mapping[str, str]) -> bool:
    """Whether a checkpoint keeps windows, or other groups, from one run to the next."""
    return bool(Destination(table_uri(checkpoint), storage_options).list("state"))


def reached(checkpoint: str, storage_options: Mapping[str, str]) -> Reached:
    """Where the last batch in a checkpoint ends. Raises ConfigError for what nobody can read."""
    where = Destination(table_uri(checkpoint), storage_options)
    numbers = [int(name) for each in where.list("offsets") if (name := each.path.rpartition("/")[2]).isdecimal()]
    if not numbers:
        return Reached()
    text = (where.read(f"offsets/{max(numbers)}") or b"").decode()
    topics: dict[str, dict[int, int]] = {}
    tables: dict[str, int] = {}
    lines = text.splitlines()
    batch = json.loads(lines[1]) if len(lines) > 1 else {}
    for line in lines[2:]:  # behind the version and the batch's own metadata
        if line.strip() == NOTHING:
            continue
        told: Any = json.loads(line)
        if isinstance(told, dict) and "table" in told:
            position = table_position(told)
            tables[position.table] = position.version
            continue
        try:
            for (topic, partition), found in topic_positions(told).items():
                topics.setdefault(topic, {})[partition] = found.offset
        except ConfigError:
            continue
    return Reached(topics, tables, int(batch.get("batchWatermarkMs", 0)))
