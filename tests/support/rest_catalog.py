"""An Iceberg REST catalog for tests: as much of the protocol as pyiceberg's client needs, on pyiceberg's SQL catalog.

It reads and writes metadata files itself, as a catalog service does, and so never sees the faults of a store that its
clients see.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote

from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import CommitTableRequest, Table

TABLE = re.compile(r"/v1/namespaces/([^/]+)/tables/([^/]+)")
STATUS = {
    NoSuchTableError: 404,
    NoSuchNamespaceError: 404,
    CommitFailedException: 409,
    TableAlreadyExistsError: 409,
    NamespaceAlreadyExistsError: 409,
}


class RestCatalogServer:
    """The server, on threads of this process. A context manager.

    Args:
        database: SQLAlchemy's URL of the database.
        properties: of the object store, as pyiceberg names them.
    """

    def __init__(self, database: str, properties: Mapping[str, str]) -> None:
        self.catalog = SqlCatalog("rest", uri=database, **properties)
        self.lock = threading.Lock()
        server = self

        class Handler(_Handler):
            rest = server

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self.catalog.engine.dispose()

    def answer(self, method: str, path: str, body: bytes) -> Any:
        """What the catalog says. Raises pyiceberg's errors."""
        if path == "/v1/config":
            return {"defaults": {}, "overrides": {}}
        if method == "POST" and path == "/v1/namespaces":
            namespace = json.loads(body)["namespace"]
            self.catalog.create_namespace(tuple(namespace))
            return {"namespace": namespace, "properties": {}}
        if method == "POST" and path.endswith("/tables"):
            return _told(self._create(unquote(path.split("/")[3]), CreateTableRequest.model_validate_json(body)))
        found = TABLE.fullmatch(path)
        if found is None:
            raise NoSuchTableError(path)
        name = tuple(map(unquote, found.groups()))
        if method == "POST":
            request = CommitTableRequest.model_validate_json(body)
            self.catalog.commit_table(self.catalog.load_table(name), request.requirements, request.updates)
        return _told(self.catalog.load_table(name))

    def _create(self, namespace: str, request: CreateTableRequest) -> Table:
        return self.catalog.create_table(
            (namespace, request.name),
            request.table_schema,
            request.location,
            request.partition_spec or UNPARTITIONED_PARTITION_SPEC,
            properties=request.properties,
        )


def _told(table: Table) -> Any:
    metadata = json.loads(table.metadata.model_dump_json())
    return {"metadata-location": table.metadata_location, "metadata": metadata, "config": {}}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    rest: RestCatalogServer

    def any_method(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        status = 200
        try:
            with self.rest.lock:
                told = self.rest.answer(self.command, self.path.split("?")[0], body)
        except tuple(STATUS) as error:
            status = STATUS[type(error)]
            told = {"error": {"message": str(error), "type": type(error).__name__, "code": status}}
        text = json.dumps(told).encode()
        self.send_response_only(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    do_GET = do_HEAD = do_POST = do_DELETE = any_method  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Silent."""
