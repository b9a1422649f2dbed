"""The requester: what a group keeps of the request by which a member came."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


def everything(topic: str) -> bool:
    """Allows every topic, where no permissions apply."""
    return True


@dataclass(slots=True)
class Context:
    """Of one request.

    Attributes:
        api_version: of the request.
        client_id: as the client calls itself; empty when it does not say.
        client_host: its address as Kafka writes it, with a slash: `/127.0.0.1`.
        principal: its name, empty for none.
        sees: whether it may describe a topic: a pattern matches no others.
    """

    api_version: int
    client_id: str = ""
    client_host: str = ""
    principal: str = ""
    sees: Callable[[str], bool] = everything
