"""The results of the controller's state machines: the answer, and the records that make it true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from penstock.errors import ErrorCode, RequestError

Response = TypeVar("Response")

MetadataMessage = Any
"""A metadata record: one of the classes of `penstock.protocol.messages.metadata`."""


@dataclass(slots=True)
class Result(Generic[Response]):
    """Records to append, and the response that may leave when they are committed.

    Nothing has happened yet: the caller appends `records` through `node.controller.ControllerNode.append`, or drops
    them (validate only). Without records the response may leave at once. Records are appended all or none of them,
    unless `atomic` is false: then each stands for itself, and they may go into several batches when they are many.
    """

    response: Response
    records: Sequence[MetadataMessage] = field(default_factory=list)
    atomic: bool = True


@dataclass(frozen=True, slots=True)
class ApiError:
    """An error code and its sentence, as they stand in responses. `message` None is what Kafka sends with NONE."""

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None

    @staticmethod
    def of(error: RequestError) -> ApiError:
        return ApiError(error.code, error.message)

    @property
    def failed(self) -> bool:
        return self.code is not ErrorCode.NONE


OK = ApiError()
