"""Options of reading with `format("penstock-lake")`, checked before anything runs; the names are Delta's own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from penstock.errors import ConfigError
from penstock.spark.frames.options import recognised
from penstock.spark.lake.destination import table_uri
from penstock.spark.lake.table import FORMATS
from penstock.spark.limits import LAKE_STREAM_FILES

COMMON = ("path", "tableFormat", "columns", "penstock.parallelism")
BATCH = ("versionAsOf", "timestampAsOf")
STREAM = (
    "startingVersion",
    "startingTimestamp",
    "maxFilesPerTrigger",
    "maxBytesPerTrigger",
    "ignoreDeletes",
    "skipChangeCommits",
)
STARTS = ("earliest", "latest")
SIZE = re.compile(r"([0-9]{1,18})([kmg]?)b?")
UNITS = {"": 0, "k": 10, "m": 20, "g": 30}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """A checked set of options.

    Attributes:
        path: where the table is.
        table_format: "delta", "iceberg", or "auto".
        columns: those to read, or None for all.
        parallelism: tasks that may run at once, or None for the cores of this machine.
        version, time_ms: the version to read, or the time of it; None for the newest.
        start: where a stream begins, "earliest", "latest" or a version; None for all rows there are, then what is new.
        start_ms: the same as a time.
        max_files, max_bytes: what one batch of a stream takes at most; at least one file.
        ignore_deletes: whether commits that only took rows away are passed over.
        skip_changes: whether commits that took rows away are passed over, with what they added.
        storage_options: of the store and the catalog, as `open_table` takes them.
    """

    path: str
    table_format: str = "auto"
    columns: tuple[str, ...] | None = None
    parallelism: int | None = None
    version: int | None = None
    time_ms: int | None = None
    start: str | int | None = None
    start_ms: int | None = None
    max_files: int = LAKE_STREAM_FILES
    max_bytes: int | None = None
    ignore_deletes: bool = False
    skip_changes: bool = False
    storage_options: Mapping[str, str] = field(default_factory=dict)


def parse(options: Mapping[str, str], *, stream: bool | None = None) -> ReadOptions:
    """Checks the options of a read.

    Args:
        options: as Spark hands them over, in any case.
        stream: whether it is `readStream`; None where that is not known yet.

    Raises ConfigError naming the option, what it has and what it may have.
    """
    given, stores = recognised(options, (*COMMON, *BATCH, *STREAM))
    for name, others in (("read", BATCH), ("readStream", STREAM)):
        wrong = [each for each in others if each in given]
        if wrong and stream is (name == "read"):
            raise ConfigError(f"option {wrong[0]} is for spark.{name}")
    for one, other in (BATCH, STREAM[:2]):
        if one in given and other in given:
            raise ConfigError(f"options {one} and {other} exclude each other")
    if not given.get("path", "").strip():
        raise ConfigError("the table's place is missing: .load(PATH) or option path")
    table_format = given.get("tableFormat", "auto").lower()
    if table_format not in (*FORMATS, "auto"):
        raise ConfigError(f"option tableFormat = {given['tableFormat']!r} must be one of {', '.join(FORMATS)}, auto")
    start = given.get("startingVersion", "").strip().lower()
    return ReadOptions(
        table_uri(given["path"].strip()),
        table_format,
        _columns(given),
        _whole(given, "penstock.parallelism", 1),
        _whole(given, "versionAsOf"),
        _time(given, "timestampAsOf"),
        start if start in STARTS else _whole(given, "startingVersion", also=STARTS),
        _time(given, "startingTimestamp"),
        _whole(given, "maxFilesPerTrigger", 1) or LAKE_STREAM_FILES,
        _bytes(given, "maxBytesPerTrigger"),
        _flag(given, "ignoreDeletes"),
        _flag(given, "skipChangeCommits"),
        stores,
    )


def _columns(given: Mapping[str, str]) -> tuple[str, ...] | None:
    if "columns" not in given:
        return None
    names = tuple(each.strip() for each in given["columns"].split(","))
    if not all(names) or len(set(names)) < len(names):
        raise ConfigError(f"option columns = {given['columns']!r} must be names of columns, separated by commas")
    return names


def _whole(given: Mapping[str, str], name: str, least: int = 0, also: tuple[str, ...] = ()) -> int | None:
    if name not in given:
        return None
    text = given[name].strip()
    if not (text.isascii() and text.isdecimal() and least <= int(text) < 1 << 63):
        others = "".join(f" or {each}" for each in also)
        raise ConfigError(f"option {name} = {given[name]!r} must be a whole number ≥ {least}{others}")
    return int(text)


def _time(given: Mapping[str, str], name: str) -> int | None:
    if name not in given:
        return None
    try:
        moment = datetime.fromisoformat(given[name].strip())
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except ValueError:
        raise ConfigError(
            f"option {name} = {given[name]!r} must be a time such as 2026-01-31 or 2026-01-31T10:00:00Z, in UTC unless "
            "it says otherwise"
        ) from None


def _bytes(given: Mapping[str, str], name: str) -> int | None:
    if name not in given:
        return None
    found = SIZE.fullmatch(given[name].strip().lower())
    size = int(found[1]) << UNITS[found[2]] if found else 0
    if not size:
        raise ConfigError(f"option {name} = {given[name]!r} must be a size such as 1000000, 64m or 1g")
    return size


def _flag(given: Mapping[str, str], name: str) -> bool:
    value = given.get(name, "false").strip().lower()
    if value not in ("true", "false"):
        raise ConfigError(f"option {name} = {given[name]!r} must be one of true, false")
    return value == "true"
