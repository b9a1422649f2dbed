"""From where to where a streaming query has read topics, as its checkpoint says.

Spark writes `offsets/N` before it runs batch N: a line of the version, one of the batch's metadata, then one for each
source. The first end of a partition says by itself where `format("penstock")` began there.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from penstock.client.client import Partition
from penstock.errors import ConfigError, PenstockError
from penstock.spark.frames.options import FrameOptions
from penstock.spark.lake.destination import Destination, table_uri
from penstock.spark.lake.kept import Kept
from penstock.spark.read.plan import Positions
from penstock.spark.read.stream_offsets import from_json

VERSION = "v1"
NOTHING = "-"
"""The line of a source of which there has been nothing yet."""


def read_by(options: FrameOptions, number: int, known: Collection[Partition] = ()) -> Sequence[Kept]:
    """What a query has read of each partition once a batch is done; where it began in those `known` is not looked up.

    Nothing if that cannot be said of every source: one of another format, one that began with the official connector,
    a topic that two of them read, a file that Spark has deleted.

    Raises PenstockError if the checkpoint cannot be read now.
    """
    positions = _positions(options, number)
    begins = dict.fromkeys(known, 0)
    for earlier in range(number, -1, -1):  # an end names the beginning of what nothing was read of before it
        told = positions if earlier == number else _positions(options, earlier)
        begins |= {each: at.begin for each, at in told.items() if each not in begins and at.begin is not None}
        if not told or set(positions) <= set(begins):
            break
    if not set(positions) <= set(begins) or any(each.topic_id is None for each in positions.values()):
        return ()
    return [Kept(each[0], str(at.topic_id), each[1], begins[each], at.offset) for each, at in positions.items()]


def _positions(options: FrameOptions, number: int) -> Positions:
    """Where a batch ends, of all sources; nothing if that cannot be said of each."""
    if options.checkpoint is None:
        return {}
    try:
        content = Destination(table_uri(options.checkpoint), options.storage_options).read(f"offsets/{number}")
    except OSError as error:  # perhaps only now; without it the query's record would end
        raise PenstockError(f"the checkpoint {options.checkpoint} cannot be read: {error}") from error
    try:
        lines = (content or b"").decode().splitlines()
        told = [json.loads(line) for line in lines[2:] if line != NOTHING]
        positions = [pair for each in told for pair in from_json(each).items()]
    except (ConfigError, ValueError, AttributeError):
        return {}
    found = dict(positions)
    return found if lines and lines[0] == VERSION and len(found) == len(positions) else {}
