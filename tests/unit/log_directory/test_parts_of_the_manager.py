"""What a log manager is made of does not know it."""

from __future__ import annotations

import gc
from weakref import ref

from penstock.log.log import Log

from .test_log_manager import World


def test_a_manager_is_gone_when_whoever_made_it_lets_go() -> None:
    """Were a part, an operation under way or an open log to hold it, only a collection would find that out."""
    world = World()
    world.create("clicks", partitions=2)
    world.append("clicks")
    logs: list[Log] = []
    world.node.use("clicks", 1, logs.append)
    manager = ref(world.node.manager)
    gc.disable()
    try:
        del world.node.manager
        assert manager() is None
    finally:
        gc.enable()
    assert logs, "what is left are the parts"
