"""Values as they are: one column `value` of bytes."""

from __future__ import annotations

import pyarrow as pa

from penstock.spark.load.formats.format import Parsed

COLUMNS = pa.schema([pa.field("value", pa.binary())])


class RawFormat:
    """Rejects nothing."""

    def parse(self, topic: str, values: pa.Array) -> Parsed:
        return Parsed(pa.RecordBatch.from_arrays([values], schema=COLUMNS))
