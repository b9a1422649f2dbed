"""Bounds for arrays in a request about things of which a node or a cluster has few."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.errors import ErrorCode, RequestError
from penstock.node.limits import REGISTERED_PER_NODE_MAX


def check_few(*arrays: Sequence[Any]) -> None:
    """Raises RequestError INVALID_REQUEST if an array has more than REGISTERED_PER_NODE_MAX elements."""
    most = max(map(len, arrays))
    if most > REGISTERED_PER_NODE_MAX:
        sentence = f"{most} of what a node has few of: at most {REGISTERED_PER_NODE_MAX} are looked at."
        raise RequestError(ErrorCode.INVALID_REQUEST, sentence)
