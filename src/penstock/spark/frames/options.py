"""Options of writing with `format("penstock-lake")`, checked before anything runs.

Which query writes is known from its checkpoint: Spark keeps the query's id in the file `metadata` there before the
first batch. So the checkpoint must be somewhere that tables can be, and named as an option of the query.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.config.nearest import did_you_mean
from penstock.errors import ConfigError
from penstock.spark.lake.batches import QueryBatch
from penstock.spark.lake.destination import Destination, table_uri
from penstock.spark.lake.table import FORMATS

OWN = (
    *("path", "tableFormat", "partitionBy", "mergeSchema", "upsertBy", "latestBy", "deleteWhen"),
    *("txnAppId", "txnVersion", "checkpointLocation", "queryName"),
)
PREFIXES = ("storage.", "catalog.")
NUMBER_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class FrameOptions:
    """A checked set of options.

    Attributes:
        path: where the table is.
        table_format: "delta", "iceberg", or "auto": what is there, Delta where there is nothing.
        partition_by: columns by which a new table's files are apart.
        merge_schema: whether columns that the table lacks are added to it.
        batch: which batch a `df.write` is; without a query unless txnAppId and txnVersion say so.
        checkpoint: where the query keeps its checkpoint, or None.
        name: the query's name, or None.
        storage_options: of the store and the catalog, as `open_table` takes them.
        upsert_by: the columns of the key if rows take the place of those with their key; empty if they are added.
        latest_by: the column by which of two rows of a key one is the later, or None.
        delete_when: the column that says that a row deletes its key, or None.
    """

    path: str
    table_format: str = "auto"
    partition_by: tuple[str, ...] = ()
    merge_schema: bool = False
    batch: QueryBatch = field(default_factory=QueryBatch)
    checkpoint: str | None = None
    name: str | None = None
    storage_options: Mapping[str, str] = field(default_factory=dict)
    upsert_by: tuple[str, ...] = ()
    latest_by: str | None = None
    delete_when: str | None = None


def parse(options: Mapping[str, str], *, stream: bool = False) -> FrameOptions:
    """Checks the options of a write. Raises ConfigError naming the option, what it has and what it may have."""
    given, stores = recognised(options, OWN)
    if not given.get("path", "").strip():
        raise ConfigError("the table's place is missing: .save(PATH), .start(PATH) or option path")
    if stream:
        for name in ("txnAppId", "txnVersion"):
            if name in given:
                raise ConfigError(f"option {name} is for df.write: a stream's batches are numbered by Spark")
    table_format = given.get("tableFormat", "auto").lower()
    if table_format not in (*FORMATS, "auto"):
        raise ConfigError(f"option tableFormat = {given['tableFormat']!r} must be one of {', '.join(FORMATS)}, auto")
    merge = given.get("mergeSchema", "false").lower()
    if merge not in ("true", "false"):
        raise ConfigError(f"option mergeSchema = {given['mergeSchema']!r} must be one of true, false")
    key = _names(given, "upsertBy")
    _check_upsert(given, key)
    return FrameOptions(
        table_uri(given["path"].strip()),
        table_format,
        _names(given, "partitionBy"),
        merge == "true",
        _batch(given),
        given.get("checkpointLocation"),
        given.get("queryName") or None,
        stores,
        key,
        given.get("latestBy"),
        given.get("deleteWhen"),
    )


def _names(given: Mapping[str, str], option: str) -> tuple[str, ...]:
    """The columns that an option lists; none if it is not given."""
    if option not in given:
        return ()
    names = tuple(name.strip() for name in given[option].split(","))
    if not all(names) or len(set(names)) < len(names):
        raise ConfigError(f"option {option} = {given[option]!r} must be columns, separated by commas")
    return names


def _check_upsert(given: Mapping[str, str], key: Sequence[str]) -> None:
    """Raises ConfigError for options of an upsert that do not go together."""
    for option in ("latestBy", "deleteWhen"):
        if option not in given:
            continue
        if not key:
            raise ConfigError(f"option {option} needs upsertBy: the columns of the key")
        if not given[option].strip() or given[option] in key:
            raise ConfigError(f"option {option} = {given[option]!r} must be a column beside the key")
    if "latestBy" in given and given["latestBy"] == given.get("deleteWhen"):
        raise ConfigError("options latestBy and deleteWhen must be two columns")


def recognised(options: Mapping[str, str], known: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """The options by their proper spelling, and those of the store and the catalog.

    Raises ConfigError for one that is neither known nor of those.
    """
    spelling = {name.lower(): name for name in known}
    given: dict[str, str] = {}
    stores: dict[str, str] = {}
    for name, value in options.items():
        lower = name.lower()
        if lower in spelling:
            given[spelling[lower]] = value
        elif lower.startswith("storage."):
            stores[lower.removeprefix("storage.")] = value
        elif lower.startswith("catalog."):
            stores[lower] = value
        else:
            raise ConfigError(f"unknown option {name}{did_you_mean(name, [*known, *PREFIXES])}")
    return given, stores


def _batch(given: Mapping[str, str]) -> QueryBatch:
    """The batch that txnAppId and txnVersion name, as they do for Delta's own sink."""
    if ("txnAppId" in given) != ("txnVersion" in given):
        raise ConfigError("options txnAppId and txnVersion belong together: which writer, and which of its batches")
    if "txnAppId" not in given:
        return QueryBatch()
    number = given["txnVersion"].strip()
    if not (number.isascii() and number.isdecimal() and int(number) <= NUMBER_MAX):
        raise ConfigError(f"option txnVersion = {given['txnVersion']!r} must be a whole number ≥ 0")
    if not given["txnAppId"].strip():
        raise ConfigError("option txnAppId is empty")
    return QueryBatch(given["txnAppId"], int(number))


def query_of(options: FrameOptions) -> str:
    """The id of a streaming query, from its checkpoint.

    Raises ConfigError if the checkpoint is not named, not where it could be read, or holds no query.
    """
    if options.checkpoint is None:
        raise ConfigError(
            "option checkpointLocation is missing: by the checkpoint the table knows which batches it has (the "
            "session's default, spark.sql.streaming.checkpointLocation, is not told to sinks)"
        )
    try:
        where = Destination(table_uri(options.checkpoint), options.storage_options)
        content = where.read("metadata")
    except ConfigError:
        raise ConfigError(
            f"the checkpoint {options.checkpoint} cannot be read here: use a path, or a URI of s3, hdfs, gs, az"
        ) from None
    except OSError as error:
        raise ConfigError(f"the checkpoint {options.checkpoint} cannot be read: {error}") from error
    try:
        query = json.loads(content or b"")["id"]
    except (ValueError, KeyError, TypeError):
        query = None
    if not isinstance(query, str) or not query:
        raise ConfigError(f"{options.checkpoint} is no checkpoint of a query: its file metadata holds no id")
    return query
