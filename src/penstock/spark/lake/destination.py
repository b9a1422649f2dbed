"""Where the files of a table go: a directory of some store, that tasks write to without knowing the table's format.

A `Destination` travels to Spark's workers as JSON. A local directory is written with plain files and costs no import,
`s3://` by Arrow's client (delta-rs's holds Python's lock while it waits), any other store (`hdfs://`, `gs://`, `az://`)
by delta-rs's. One spelling of the storage options, delta-rs's, serves the files and the table.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any
from urllib.parse import quote, unquote, urlsplit

from penstock.errors import ConfigError
from penstock.spark.lake.durable import DurableFile, sync, sync_above

HDFS_ODD = re.compile(r"""[^!-~]|["#<>?`{}^|\\]""")
"""What is written otherwise in a URL's path."""
STORES = ("s3", "s3a", "hdfs", "gs", "az", "abfs", "abfss")


@dataclass(frozen=True, slots=True)
class Destination:
    """A table's directory.

    `uri` is an absolute path or a URI of one of STORES. `storage_options` are delta-rs's (AWS_ENDPOINT_URL, ...).
    `partition_by` names the columns by which files are apart: a file has one value of each. `keeps_partition_columns`
    says whether the files themselves hold those columns too (Iceberg's do, Delta's do not). `derived` says which
    columns a load makes, and of what (see `derived`); `cluster_by` how it sorts rows (see `clustering`).
    """

    uri: str
    storage_options: Mapping[str, str] = field(default_factory=dict)
    partition_by: Sequence[str] = ()
    keeps_partition_columns: bool = False
    derived: Mapping[str, str] = field(default_factory=dict)
    cluster_by: str = ""

    @property
    def is_local(self) -> bool:
        """Whether it is a directory of this host (or one mounted on it)."""
        return "://" not in self.uri

    def to_json(self) -> str:
        alike = [self.uri, dict(self.storage_options), list(self.partition_by), self.keeps_partition_columns]
        return json.dumps([*alike, dict(self.derived), self.cluster_by])

    @classmethod
    def from_json(cls, text: str) -> Destination:
        uri, options, partition_by, keeps, derived, cluster_by = json.loads(text)
        return cls(uri, options, tuple(partition_by), keeps, derived, cluster_by)

    def open(self, path: str) -> IO[bytes] | Any:
        """Opens a new file for writing, by its path relative to the table; what `pq.ParquetWriter` takes.

        On a store the file exists when it is closed, and not before; on a disk it is forced to it then.
        """
        if self.is_local:
            return DurableFile(os.path.join(self.uri, path), self.uri)
        return self.filesystem().open_output_stream(path)

    def sync(self, *paths: str) -> None:
        """Forces files that others wrote, and directories, to the disk; a store has done so."""
        for path in paths if self.is_local else ():
            sync(os.path.join(self.uri, path))

    def sync_above(self) -> None:
        """The same of the directories above the table, which were made with it."""
        if self.is_local:
            sync_above(self.uri)

    def read(self, path: str) -> bytes | None:
        """The whole of a small file, or None if there is none."""
        try:
            if self.is_local:
                with open(os.path.join(self.uri, path), "rb") as file:
                    return file.read()
            with self.filesystem().open_input_file(path) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None

    def delete(self, path: str) -> None:
        """Deletes a file; none is fine."""
        try:
            if self.is_local:
                os.unlink(os.path.join(self.uri, path))
            else:
                self.filesystem().delete_file(path)
        except FileNotFoundError:
            return

    def discard(self, path: str) -> None:
        """Deletes a file that no commit was to name, if the store lets us now; else vacuum does it."""
        with suppress(OSError):
            self.delete(path)

    def size_bytes(self, path: str) -> int:
        """How large a file is that was written and closed."""
        if self.is_local:
            return os.path.getsize(os.path.join(self.uri, path))
        return int(self.filesystem().get_file_info(path).size)

    def list(self, directory: str) -> Sequence[Listed]:
        """All files below a directory, sorted by path; none if it does not exist."""
        import pyarrow.fs as pafs

        selector = pafs.FileSelector(directory, recursive=True, allow_not_found=True)
        found = [info for info in self.filesystem().get_file_info(selector) if info.type == pafs.FileType.File]
        return sorted(
            (Listed(info.path, int(info.size), int((info.mtime_ns or 0) // 1_000_000)) for info in found),
            key=lambda each: each.path,
        )

    def filesystem(self) -> Any:
        """A pyarrow filesystem whose root is the table's directory."""
        import pyarrow.fs as pafs

        if self.is_local:
            return pafs.SubTreeFileSystem(self.uri, pafs.LocalFileSystem())
        parts = urlsplit(self.uri)
        if parts.scheme in ("s3", "s3a"):
            return pafs.SubTreeFileSystem(parts.netloc + parts.path, s3_of(self.storage_options))
        from penstock.spark.lake.stores import filesystem_of

        return filesystem_of(self.uri, self.storage_options)


def s3_of(options: Mapping[str, str]) -> Any:
    """Arrow's own S3 client by delta-rs's options; what they leave out comes from the environment, as usual."""
    import pyarrow.fs as pafs

    given = {name.upper(): value for name, value in options.items()}
    endpoint = urlsplit(given.get("AWS_ENDPOINT_URL", os.environ.get("AWS_ENDPOINT_URL", "")))
    chosen = {
        "access_key": given.get("AWS_ACCESS_KEY_ID"),
        "secret_key": given.get("AWS_SECRET_ACCESS_KEY"),
        "session_token": given.get("AWS_SESSION_TOKEN"),
        "region": given.get("AWS_REGION", given.get("AWS_DEFAULT_REGION")),
        "endpoint_override": endpoint.netloc,
        "scheme": endpoint.scheme,
    }
    return pafs.S3FileSystem(allow_delayed_open=True, **{name: value for name, value in chosen.items() if value})


@dataclass(frozen=True, slots=True)
class Listed:
    """A file that a listing found: its path relative to the table, its size, when it was written."""

    path: str
    size_bytes: int
    modified_ms: int


def table_uri(text: str) -> str:
    """A table's location as the tables take it: a URI of a store as it is, a path made absolute.

    Raises ConfigError for a scheme that no store here has, and for a path on HDFS that clients take otherwise: Hadoop
    has a space as it is, delta-rs's client as `%20`.
    """
    if "://" not in text:
        return os.path.abspath(os.path.expanduser(text))
    scheme = urlsplit(text).scheme
    if scheme == "file":
        return os.path.abspath(unquote(urlsplit(text).path))
    if scheme not in STORES:
        raise ConfigError(f"a table cannot be at {text}: use a path, or a URI of {', '.join(STORES)}")
    if scheme == "hdfs" and (odd := HDFS_ODD.search(text)):
        raise ConfigError(
            f"a path on HDFS cannot have {odd[0]!r} in it here: to Hadoop {text} is another place than to us"
        )
    return text.rstrip("/")


NOTHING = "__HIVE_DEFAULT_PARTITION__"
"""Stands for null in the name of a partition's directory."""


def partition_directory(values: Mapping[str, str | None]) -> str:
    """`name=value/...`, as Hive, Delta and Iceberg lay out partitions; empty without partition columns."""
    return "".join(f"{name}={NOTHING if value is None else quote(value, safe='')}/" for name, value in values.items())


def text_of(value: Any) -> str | None:
    """A partition value as tables write it."""
    if value is None or isinstance(value, str):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)


def values_in(path: str, partition_by: Sequence[str]) -> dict[str, str | None]:
    """The partition values that a path says, which `partition_directory` begins."""
    parts = dict(part.split("=", 1) for part in path.split("/")[:-1] if "=" in part)
    return {name: None if parts[name] == NOTHING else unquote(parts[name]) for name in partition_by if name in parts}
