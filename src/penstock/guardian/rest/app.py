"""The ASGI application: a route for each operation that a resource describes, and what OpenAPI says of them.

All routes lead to the desk, and so does what has no route: whether it is there, and may be asked, is decided where
calls are answered. A resource that describes nothing has its GET in the description, and is served like the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from penstock import __version__
from penstock.guardian.core.calls import OK, Resource
from penstock.guardian.core.described import Operation, Schema, shape, text
from penstock.guardian.core.roles import need_of
from penstock.guardian.rest.desk import Desk

DESCRIPTION = """Guardian looks after many clusters. Log in with `Authorization: Bearer TOKEN`.

Any node answers; `penstock-age-ms` says how old at most what it knows is. A change has an id, `Idempotency-Key`: asked
for again with the same key, it is made once. What a user may not see is answered like what is not there."""
ERRORS = {
    400: "It is asked wrongly; the error says what would be right.",
    401: "The token is missing, not known, expired or revoked.",
    403: "No role of the user suffices.",
    404: "It is not there, or the user may not see it.",
    405: "There is no such method here; see `Allow`.",
    409: "It does not go with what is there.",
    413: "The body is too large.",
    429: "Too much waits; ask again soon, with the same `Idempotency-Key`.",
    503: "It cannot be answered now; ask again, with the same `Idempotency-Key`.",
    507: "The disk of the leader is full.",
}
ERROR = shape("Error", {"error": text("What is wrong, in a sentence.")})
KEY = {
    "name": "Idempotency-Key", "in": "header", "required": False, "schema": {"type": "string", "format": "uuid"},
    "description": "The id of the change. Without it the node makes one, and answers with it.",
}  # fmt: skip
ANYTHING: Schema = {"type": "object"}


class Everything:
    """An ASGI endpoint that takes every method."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._desk.answer(Request(scope, receive))
        await response(scope, receive, send)


def app_of(desk: Desk, resources: Iterable[Resource]) -> FastAPI:
    """The application."""
    app = FastAPI(
        title="Penstock Guardian",
        version=__version__,
        description=DESCRIPTION,
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )

    async def answer(request: Request) -> Any:
        return await desk.answer(request)

    for resource in resources:
        tag = resource.path.rpartition("/")[2]
        for each in resource.operations or (undescribed(tag),):
            app.add_api_route(
                resource.path + ("/{name}" if each.named else ""),
                answer,
                methods=[each.method],
                tags=[tag],
                summary=each.summary,
                description=f"Needs the role {need_of(resource.path, each.method)}.",
                operation_id=f"{each.method.lower()}_{tag}" + ("_by_name" if each.named else ""),
                status_code=201 if each.method == "POST" else OK,
                response_model=None,
                responses=responses_of(each),
                openapi_extra=extra_of(each),
            )
    everything = Everything(desk)
    app.router.routes.append(Route("/{anything:path}", everything, include_in_schema=False))
    app.router.default = everything  # no pattern fits what is no path
    described: dict[str, Any] = {}

    def openapi() -> dict[str, Any]:
        if not described:
            described.update(document(app))
        return described

    app.openapi = openapi  # type: ignore[method-assign]  # as FastAPI has it changed
    return app


def undescribed(tag: str) -> Operation:
    return Operation("GET", f"What there is of {tag}", ANYTHING)


def responses_of(each: Operation) -> dict[int | str, dict[str, Any]]:
    """The responses of an operation: the good one, and all errors."""
    good = 201 if each.method == "POST" else OK
    example = {} if each.example is None else {"example": each.example}
    found: dict[int | str, dict[str, Any]] = {
        good: {"description": each.summary, "content": {"application/json": {"schema": each.answer, **example}}}
    }
    for status, said in ERRORS.items():
        if each.method != "GET" or status not in (409, 413, 507):
            example = {"example": {"error": said}}
            found[status] = {"description": said, "content": {"application/json": {"schema": ERROR, **example}}}
    return found


def extra_of(each: Operation) -> dict[str, Any]:
    """What FastAPI cannot see of an operation in its handler: the name, the query, the key and the body."""
    parameters: list[Mapping[str, Any]] = [
        {"name": name, "in": "query", "required": False, "description": said, "schema": {"type": "string"}}
        for name, said in each.query.items()
    ]
    if each.named:
        parameters.insert(0, {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}})
    if each.method != "GET":
        parameters.append(KEY)
    extra: dict[str, Any] = {"parameters": parameters} if parameters else {}
    if each.body is not None:
        example = {} if each.body_example is None else {"example": each.body_example}
        content = {"application/json": {"schema": each.body, **example}}
        extra["requestBody"] = {"required": True, "content": content}
    return extra


def document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document: each titled shape stands once, under its title."""
    found = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    shapes: dict[str, Any] = {}
    found["paths"] = referred(found["paths"], shapes)
    components = found.setdefault("components", {})
    components["schemas"] = {name: shapes[name] for name in sorted(shapes)}
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    found["security"] = [{"token": []}]
    return found


def referred(value: Any, shapes: dict[str, Any]) -> Any:
    """A part of the document in which titled shapes are references; the shapes are put into `shapes`."""
    if isinstance(value, Mapping):
        inner = {name: referred(each, shapes) for name, each in value.items()}
        title = inner.get("title")
        if inner.get("type") != "object" or not isinstance(title, str):
            return inner
        if shapes.setdefault(title, inner) != inner:
            raise ValueError(f"two shapes are called {title}")
        return {"$ref": f"#/components/schemas/{title}"}
    if isinstance(value, list | tuple):
        return [referred(each, shapes) for each in value]
    return value
