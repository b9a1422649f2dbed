"""When a node wakes: all are asked after events that may have moved a deadline; otherwise they say so themselves."""

from __future__ import annotations

from random import Random

from support.broker import Node

from penstock.errors import ErrorCode
from penstock.node.duties import Duty
from penstock.node.scheduler import Scheduler
from penstock.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from penstock.records.wall import WallTime


class Asked:
    """A duty that counts how often its deadline is asked."""

    def __init__(self, scheduler: Scheduler, deadline_ms: int | None) -> None:
        self.deadline_ms = deadline_ms
        self.asked = 0
        self.ticks: list[int] = []
        scheduler.duties += (Duty("a duty", self.ticks.append, self.next_deadline_ms, scheduler.bugs),)

    def next_deadline_ms(self) -> int | None:
        self.asked += 1
        return self.deadline_ms


def test_duties_are_asked_after_an_event_that_stirs_and_after_a_tick() -> None:
    scheduler = Scheduler(Random(1), WallTime())
    quorum, controller = Asked(scheduler, 70), Asked(scheduler, 50)
    assert [scheduler.next_deadline_ms() for _ in range(3)] == [50, 50, 50]
    assert (quorum.asked, controller.asked) == (1, 1)
    controller.deadline_ms = 40
    scheduler.stirred = True
    assert scheduler.next_deadline_ms() == 40
    scheduler.tick(40)
    assert quorum.ticks == controller.ticks == [40]
    controller.deadline_ms = None
    assert scheduler.next_deadline_ms() == 70


def test_what_says_when_it_is_due_need_not_be_asked() -> None:
    scheduler = Scheduler(Random(1), WallTime())
    duty = Asked(scheduler, None)
    assert scheduler.next_deadline_ms() is None
    scheduler.wake_by(60)
    scheduler.wake_by(65)
    assert scheduler.next_deadline_ms() == 60
    timer = scheduler.timers.at(33, lambda now_ms: None)
    assert scheduler.next_deadline_ms() == 35
    scheduler.timers.cancel(timer)
    assert scheduler.next_deadline_ms() == 35, "it wakes once for nothing"
    assert duty.asked == 1
    scheduler.tick(35)
    assert scheduler.next_deadline_ms() is None


def test_what_an_event_has_the_metadata_log_write_is_taken_even_if_the_deadline_was_asked_meanwhile() -> None:
    """A shell whose timer fires asks it again, between the events of a turn and their effects."""
    node = Node()
    client = node.connect()
    wanted = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])
    node.broker.received(client.number, memoryview(client.frame(wanted, 7)), node.now_ms)
    for _ in range(20):
        node.broker.next_deadline_ms()
        for effect in node.broker.take_effects():
            node.carry_out(effect)
    assert client.receive().topics[0].error_code == ErrorCode.NONE
