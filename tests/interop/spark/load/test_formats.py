"""JSON and Avro into columns, what does not fit into the quarantine, each offset in exactly one of both."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from interop.spark.load.support import caught_up, options, proof, publish_values, rows

from penstock.errors import ConfigError
from penstock.spark.lake.table import LakeTable
from penstock.spark.lake.verify import verify
from penstock.spark.load.load import Load
from penstock.spark.load.registry import RegistryError
from penstock.testing.broker import LocalBroker

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.spark


class Crash(BaseException):
    """In the place of a kill."""


def crash(table: LakeTable, *, after: bool) -> None:
    """Lets the next commit of a table be the load's last deed, or the first that it does not do."""
    commit = table.commit

    def crashing(*arguments: Any, **more: Any) -> int:
        if after:
            commit(*arguments, **more)
        raise Crash

    table.commit = crashing  # type: ignore[method-assign]


def quarantined(load: Load) -> list[tuple[bytes | None, str]]:
    table = load.quarantines[load.lake.uri]
    found = [row for batch in table.batches(["value", "reason", "offset"]) for row in batch.to_pylist()]
    return [(row["value"], row["reason"]) for row in sorted(found, key=lambda row: row["offset"])]


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_json_columns_are_found_grow_and_what_does_not_fit_is_quarantined(
    broker: LocalBroker, topic: str, tmp_path: Path, table_format: str
) -> None:
    publish_values(broker, topic, b'{"page":"/","ms":1}', b'{"page":"/b","ms":2,"key":"mine"}', None)
    with Load(None, options(broker, topic, tmp_path / "t", format="json", table_format=table_format)) as load:
        caught_up(load)
        publish_values(broker, topic, b'{"ms":"much"}', b'{"ms":3,"user":{"id":7}}', b"no JSON", b'{"ms":4}')
        caught_up(load)
        assert rows(load, "page", "ms", "value_key", "user") == [
            {"page": "/", "ms": 1}, {"page": "/b", "ms": 2, "value_key": "mine"}, {},
            {"ms": 3, "user": '{"id":7}'}, {"ms": 4},
        ]  # fmt: skip
        assert quarantined(load) == [
            (b'{"ms":"much"}', 'ms: "much" is a string, the column is bigint'),
            (b"no JSON", "no valid JSON: Expecting value: line 1 column 1 (char 0)"),
        ]
        assert proof(load).rows == 7
        assert [verdict.gaps for verdict in verify(load.lake)] == [{"quarantined": 2}]


def test_a_declared_schema_is_the_tables_from_the_start_and_may_be_all_of_it(
    broker: LocalBroker, topic: str, tmp_path: Path
) -> None:
    publish_values(broker, topic, b'{"at":"2026-01-31T08:00:00Z","tags":["a"]}', b'{"more":1}')
    declared = {"format": "json", "schema": "at timestamp, tags array<string>", "new_fields": "quarantine"}
    with Load(None, options(broker, topic, tmp_path, **declared)) as load:
        assert load.lake.columns.names[-2:] == ["at", "tags"]
        caught_up(load)
        assert quarantined(load) == [(b'{"more":1}', "more: the table has no such column")]
        assert proof(load).rows == 2
    with pytest.raises(ConfigError, match="it is not of format raw"):
        Load(None, options(broker, topic, tmp_path))


@pytest.mark.parametrize("where", ["before_table", "after_table", "after_quarantine"])
def test_a_crash_around_either_commit_leaves_each_offset_in_exactly_one_table(
    broker: LocalBroker, topic: str, tmp_path: Path, where: str
) -> None:
    """Even if the schema is another one after the crash: what was decided stays decided."""
    first = options(broker, topic, tmp_path, format="json", schema="ms bigint", new_fields="quarantine")
    publish_values(broker, topic, b'{"ms":1}', b'{"page":"/"}', b'{"ms":"x"}', b'{"ms":2}')
    with Load(None, first) as load:
        table = load.quarantines[load.lake.uri] if where == "after_quarantine" else load.lake
        crash(table, after=where != "before_table")
        with pytest.raises(Crash):
            load.run_job()
    publish_values(broker, topic, b'{"page":"/later"}', b"broken")
    with Load(None, options(broker, topic, tmp_path, format="json", schema="ms bigint, page string")) as load:
        caught_up(load)
        assert proof(load).rows == 6
        fits = 2 if where != "before_table" else 1
        assert len(quarantined(load)) == fits + 1
        assert caught_up(load) == 0


def test_a_quarantine_that_was_lost_is_made_again_from_the_brokers(
    broker: LocalBroker, topic: str, tmp_path: Path
) -> None:
    import shutil

    publish_values(broker, topic, b'{"ms":1}', b"broken")
    with Load(None, options(broker, topic, tmp_path / "t", format="json")) as load:
        caught_up(load)
    shutil.rmtree(tmp_path / "t_quarantine")
    with Load(None, options(broker, topic, tmp_path / "t", format="json")) as load:
        caught_up(load)
        assert proof(load).rows == 2


class Registry:
    """A schema registry that speaks the real paths, for what a load asks."""

    def __init__(self) -> None:
        self.schemas: list[Any] = []
        self.subjects: dict[str, list[int]] = {}
        self.up = True
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, answer = registry.answer(self.path.partition("?")[0].strip("/").split("/"))
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, path: list[str]) -> tuple[int, Any]:
        if not self.up:
            return 401, {"error_code": 401, "message": "not today"}
        match path:
            case ["schemas", "ids", number] if 0 < int(number) <= len(self.schemas):
                return 200, {"schema": json.dumps(self.schemas[int(number) - 1])}
            case ["subjects", subject, "versions", "latest"] if subject in self.subjects:
                ids = self.subjects[subject]
                told = {"subject": subject, "version": len(ids), "id": ids[-1]}
                return 200, told | {"schema": json.dumps(self.schemas[ids[-1] - 1])}
            case _:
                return 404, {"error_code": 40403, "message": "not found"}

    def register(self, topic: str, schema: Any) -> int:
        self.schemas.append(schema)
        self.subjects.setdefault(f"{topic}-value", []).append(len(self.schemas))
        return len(self.schemas)

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def registry() -> Iterator[Registry]:
    made = Registry()
    yield made
    made.stop()


def click(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Click", "fields": [{"name": n, "type": t, "default": None} for n, t in fields]}


def avro(schema: Any, schema_id: int, given: Any) -> bytes:
    import fastavro

    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema, named_schemas={}), given)
    return b"\0" + schema_id.to_bytes(4, "big") + stream.getvalue()


def test_avro_follows_its_registry_and_quarantines_what_it_does_not_know(
    broker: LocalBroker, topic: str, tmp_path: Path, registry: Registry
) -> None:
    old, new = click(("page", ["null", "string"])), click(("page", ["null", "string"]), ("ms", ["null", "long"]))
    one = registry.register(topic, old)
    publish_values(broker, topic, avro(old, one, {"page": "/"}), None)
    made = options(broker, topic, tmp_path, format="avro", schema_registry=registry.url)
    with Load(None, made) as load:
        caught_up(load)
        two = registry.register(topic, new)
        publish_values(broker, topic, avro(new, two, {"page": "/b", "ms": 5}), avro(old, 99, {"page": "/"}), b"{}")
        registry.up = False
        with pytest.raises(RegistryError, match="not today"):
            load.run_job()
        assert len(rows(load, "page")) == 2, "a registry that is away commits nothing"
        registry.up = True
        caught_up(load)
        assert rows(load, "page", "ms") == [{"page": "/"}, {}, {"page": "/b", "ms": 5}]
        assert [reason for _, reason in quarantined(load)] == [
            "the registry knows no schema 99",
            "no schema id: the value does not begin with a zero byte and four more",
        ]
        assert proof(load).rows == 5
