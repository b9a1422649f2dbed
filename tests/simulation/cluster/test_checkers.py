"""Who may be elected, as the rules see it."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from penstock.metadata.image import PartitionRegistration
from penstock.metadata.partition_change import RECOVERED, RECOVERING
from simulator.cluster.checkers import ELECTED, ClusterChecker
from simulator.world.checks import Violation

TOPIC_ID = UUID(int=7)


def state(
    epoch: int,
    leader: int,
    recovery: int = RECOVERED,
    registered: Mapping[int, int] | None = None,
    **replicas: tuple[int, ...],
) -> Any:
    """The metadata with one partition. `registered` has epochs of brokers."""
    known = {"isr": (), "elr": (), "last_known_elr": (), **replicas}
    partition = PartitionRegistration(
        (1, 2, 3), leader=leader, leader_recovery_state=recovery, leader_epoch=epoch, partition_epoch=epoch, **known
    )
    topic = SimpleNamespace(id=TOPIC_ID, name="clicks", partitions=(partition,))
    brokers = {broker: SimpleNamespace(epoch=epoch) for broker, epoch in (registered or {}).items()}
    return SimpleNamespace(topics_by_id={TOPIC_ID: topic}, topic_configs=lambda name: {}, brokers=brokers)


def look(before: Any, after: Any) -> None:
    checker = ClusterChecker([])
    checker.image = after
    checker._look_at(after.topics_by_id[TOPIC_ID], before)


def test_who_is_in_sync_is_elected_also_while_it_recovers() -> None:
    look(state(1, -1, RECOVERING, isr=(1,)), state(2, 1, RECOVERING, isr=(1,)))


def test_the_last_known_leader_is_elected_where_nobody_else_may_be() -> None:
    look(state(1, -1, last_known_elr=(1,)), state(2, 1, RECOVERING, isr=(1,)))


def test_the_last_known_leader_is_elected_when_who_was_eligible_comes_back_after_an_unclean_stop() -> None:
    before = state(1, -1, registered={2: 50}, elr=(2,), last_known_elr=(1,))
    look(before, state(2, 1, RECOVERING, registered={2: 60}, isr=(1,)))
    with pytest.raises(Violation, match=ELECTED):
        look(before, state(2, 1, RECOVERED, registered={2: 60}, isr=(1,)))
    with pytest.raises(Violation, match=ELECTED):
        look(before, state(2, 1, RECOVERING, registered={2: 50}, isr=(1,)))


@pytest.mark.parametrize(
    ("before", "recovery"),
    [
        ({"isr": (2,)}, RECOVERED),
        ({"elr": (2,), "last_known_elr": (1,)}, RECOVERING),
        ({"last_known_elr": (2,)}, RECOVERING),
        ({"last_known_elr": (1,)}, RECOVERED),
    ],
)
def test_nobody_else_is_elected(before: dict[str, tuple[int, ...]], recovery: int) -> None:
    with pytest.raises(Violation, match=ELECTED):
        look(state(1, -1, **before), state(2, 1, recovery, isr=(1,)))
