"""Heartbeat: what members hear when the coordinator cannot say."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import ErrorCode
from penstock.node.handlers import heartbeat
from penstock.protocol.messages.heartbeat_response import HeartbeatResponse


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_all_is_well_while_the_coordinator_reads_its_log(code: ErrorCode, told: ErrorCode) -> None:
    request: Any = None
    answer = heartbeat.refuse(request, code, "")
    assert answer == HeartbeatResponse(error_code=told)
