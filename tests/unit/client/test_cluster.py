"""What only the active controller knows, asked when there is none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.client.cluster import NoControllerError, list_reassignments
from penstock.client.connection import NoAnswer
from penstock.errors import ErrorCode, RequestError, UnreachableError
from penstock.protocol.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse


class Broker:
    """A connection to a broker that answers with an error code, or not at all. It is its own client."""

    address = "n1:9092"

    def __init__(self, answers: ErrorCode | None, *, dies: bool = False) -> None:
        self._answers, self._dies = answers, dies

    async def connection(self, _: int | None) -> Broker:
        return self

    async def send(self, _: Any, *, timeout_ms: int) -> ListPartitionReassignmentsResponse:
        assert 0 < timeout_ms < 30_000
        if self._answers is None:
            raise (UnreachableError if self._dies else NoAnswer)(f"{self.address} did not answer")
        return ListPartitionReassignmentsResponse(error_code=self._answers)


def reassignments(broker: Broker) -> Any:
    return asyncio.run(list_reassignments(broker))  # type: ignore[arg-type]


@pytest.mark.parametrize("answers", [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER])
def test_a_broker_that_finds_no_controller_says_so(answers: ErrorCode) -> None:
    with pytest.raises(NoControllerError, match="no active controller, as n1:9092 sees it: more than half"):
        reassignments(Broker(answers))


def test_a_broker_that_is_silent_for_long_finds_no_controller() -> None:
    with pytest.raises(NoControllerError):
        reassignments(Broker(None))


def test_a_broker_that_dies_or_refuses_is_another_matter() -> None:
    with pytest.raises(UnreachableError) as died:
        reassignments(Broker(None, dies=True))
    assert not isinstance(died.value, NoControllerError)
    with pytest.raises(RequestError):
        reassignments(Broker(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    assert reassignments(Broker(ErrorCode.NONE)) == {}
