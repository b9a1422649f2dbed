"""Options of reading DataFrames from a lake table."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow", reason="needs penstock[spark]")

from penstock.errors import ConfigError
from penstock.spark.frames.read_options import parse


def test_options_are_read_in_any_case() -> None:
    told = parse(
        {
            "PATH": "s3://lake/clicks/",
            "tableformat": "Iceberg",
            "columns": "id, page",
            "startingversion": "EARLIEST",
            "maxfilespertrigger": "3",
            "maxbytespertrigger": "64m",
            "ignoredeletes": "TRUE",
            "storage.AWS_REGION": "here",
            "catalog.uri": "sqlite:///c.db",
        },
        stream=True,
    )
    assert (told.path, told.table_format, told.columns) == ("s3://lake/clicks", "iceberg", ("id", "page"))
    assert (told.start, told.max_files, told.max_bytes) == ("earliest", 3, 64 << 20)
    assert (told.ignore_deletes, told.skip_changes) == (True, False)
    assert told.storage_options == {"aws_region": "here", "catalog.uri": "sqlite:///c.db"}
    assert parse({"path": "t", "versionAsOf": "7"}).version == 7
    assert parse({"path": "t", "timestampAsOf": "1970-01-01T00:00:01"}).time_ms == 1000
    assert parse({"path": "t", "timestampAsOf": "1970-01-01T01:00:01+01:00"}).time_ms == 1000


@pytest.mark.parametrize(
    ("options", "stream", "message"),
    [
        ({}, None, r"place is missing: .load\(PATH\)"),
        ({"path": "ftp://lake"}, None, "a table cannot be at ftp://lake"),
        ({"path": "t", "versonAsOf": "1"}, None, r"unknown option versonAsOf; did you mean versionAsOf\?"),
        ({"path": "t", "tableFormat": "hudi"}, None, "tableFormat = 'hudi' must be one of delta, iceberg, auto"),
        ({"path": "t", "columns": "a,,b"}, None, "columns = 'a,,b' must be names of columns"),
        ({"path": "t", "columns": "a,a"}, None, "columns = 'a,a' must be names of columns"),
        ({"path": "t", "versionAsOf": "-1"}, False, "versionAsOf = '-1' must be a whole number ≥ 0"),
        ({"path": "t", "timestampAsOf": "noon"}, False, "timestampAsOf = 'noon' must be a time such as"),
        ({"path": "t", "versionAsOf": "1", "timestampAsOf": "2026-01-01"}, False, "exclude each other"),
        ({"path": "t", "startingVersion": "1", "startingTimestamp": "2026-01-01"}, True, "exclude each other"),
        ({"path": "t", "versionAsOf": "1"}, True, r"option versionAsOf is for spark\.read$"),
        ({"path": "t", "ignoreDeletes": "true"}, False, r"option ignoreDeletes is for spark\.readStream"),
        ({"path": "t", "ignoreDeletes": "yes"}, True, "ignoreDeletes = 'yes' must be one of true, false"),
        ({"path": "t", "startingVersion": "first"}, True, "must be a whole number ≥ 0 or earliest or latest"),
        ({"path": "t", "maxFilesPerTrigger": "0"}, True, "maxFilesPerTrigger = '0' must be a whole number ≥ 1"),
        ({"path": "t", "maxBytesPerTrigger": "0"}, True, "maxBytesPerTrigger = '0' must be a size"),
        ({"path": "t", "maxBytesPerTrigger": "9x"}, True, "maxBytesPerTrigger = '9x' must be a size"),
    ],
)
def test_wrong_options_are_named(options: dict[str, str], stream: bool | None, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(options, stream=stream)
