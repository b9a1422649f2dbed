"""A schema registry that speaks the real paths, for loads and proofs, and values as its producers send them."""

from __future__ import annotations

import io
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Registry:
    """A schema registry that speaks the real paths, for what a load asks."""

    def __init__(self) -> None:
        self.schemas: list[Any] = []
        self.kinds: dict[int, str | None] = {}
        self.subjects: dict[str, list[int]] = {}
        self.up = True
        self.only_by_id_down = False
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path, _, query = self.path.partition("?")
                status, answer = registry.answer(path.strip("/").split("/"))
                protobuf = isinstance(answer, dict) and answer.get("schemaType") == "PROTOBUF"
                if protobuf and "format=serialized" not in query:
                    answer["schema"] = 'syntax = "proto3";'
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
        if self.only_by_id_down and path[0] == "schemas":
            return 401, {"error_code": 401, "message": "no ids today"}
        match path:
            case ["schemas", "ids", number] if 0 < int(number) <= len(self.schemas):
                return 200, self.told(int(number))
            case ["subjects", subject, "versions", "latest"] if subject in self.subjects:
                ids = self.subjects[subject]
                told = {"subject": subject, "version": len(ids), "id": ids[-1]}
                return 200, told | self.told(ids[-1])
            case ["subjects", subject, "versions"] if subject in self.subjects:
                return 200, list(range(1, len(self.subjects[subject]) + 1))
            case ["subjects", subject, "versions", number] if subject in self.subjects:
                found = self.subjects[subject][int(number) - 1]
                told = {"subject": subject, "version": int(number), "id": found}
                return 200, told | self.told(found)
            case _:
                return 404, {"error_code": 40403, "message": "not found"}

    def told(self, number: int) -> dict[str, Any]:
        if self.kinds[number] == "PROTOBUF":
            return {"schema": self.schemas[number - 1], "schemaType": "PROTOBUF"}
        kind = {} if (given := self.kinds.get(number)) is None else {"schemaType": given}
        return {"schema": json.dumps(self.schemas[number - 1]), **kind}

    def register(self, topic: str, schema: Any, kind: str | None = None) -> int:
        self.schemas.append(schema)
        self.kinds[len(self.schemas)] = kind
        self.subjects.setdefault(f"{topic}-value", []).append(len(self.schemas))
        return len(self.schemas)

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def click(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Click", "fields": [{"name": n, "type": t, "default": None} for n, t in fields]}


def avro(schema: Any, schema_id: int, given: Any) -> bytes:
    import fastavro

    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema, named_schemas={}), given)
    return b"\0" + schema_id.to_bytes(4, "big") + stream.getvalue()
