"""From where to where a streaming query has read topics, as its checkpoint says.

Spark writes `offsets/N` before it runs batch N: a line of the version, one of the batch's metadata, then one for each
source. An end of `format("penstock")` says by itself where the query began in each partition.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from penstock.errors import ConfigError
from penstock.spark.frames.options import FrameOptions
from penstock.spark.lake.destination import Destination, table_uri
from penstock.spark.lake.kept import Kept
from penstock.spark.read.stream_offsets import from_json

VERSION = "v1"
NOTHING = "-"
"""Stands for a source that has had nothing yet."""


def read_by(options: FrameOptions, number: int) -> Sequence[Kept]:
    """What a query has read of each partition once a batch is done.

    Nothing if that cannot be said of every source: one of another format, one that began with the official connector,
    a topic that two of them read.
    """
    if options.checkpoint is None:
        return ()
    try:
        content = Destination(table_uri(options.checkpoint), options.storage_options).read(f"offsets/{number}")
        lines = (content or b"").decode().splitlines()
        told = [json.loads(line) for line in lines[2:] if line != NOTHING]
        positions = [pair for each in told for pair in from_json(each).items()]
    except (ConfigError, OSError, ValueError, AttributeError):
        return ()
    if not positions or lines[0] != VERSION or len(dict(positions)) < len(positions):
        return ()
    found = []
    for (topic, partition), position in positions:
        if position.begin is None or position.topic_id is None:
            return ()
        found.append(Kept(topic, str(position.topic_id), partition, position.begin, position.offset))
    return found
