"""What a wide request leaves behind is freed in steps, and what somebody has after all stays."""

from __future__ import annotations

from typing import Any

from support.broker import Node

from penstock.node.steps import lazily, let_go
from penstock.protocol.limits import ELEMENTS_PER_STEP
from penstock.protocol.message import ABSENT, Struct
from penstock.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic

COUNT = 5 * ELEMENTS_PER_STEP


class Counted(Struct):
    """Says when it is gone."""

    elements: list[Any] = ABSENT
    gone = 0

    def __del__(self) -> None:
        Counted.gone += 1


def freed_by_step(message: Struct) -> list[int]:
    """How many were freed in each step; the caller has no name for the message."""
    kept: list[Any] = [message]
    del message
    freed, steps = [], let_go(kept)
    while True:
        before = Counted.gone
        ended = next(steps, "over")
        freed.append(Counted.gone - before)
        if ended == "over":
            assert not kept
            return freed


def test_so_many_are_freed_in_a_step() -> None:
    for made in (
        lambda: Counted(elements=[Counted(elements=[]) for _ in range(COUNT)]),
        lambda: Counted(elements=[Counted(elements=[Counted(elements=[])]) for _ in range(COUNT)]),
        lambda: Counted(elements=[Counted(elements=[Counted(elements=[]) for _ in range(COUNT)])]),
        lambda: Counted(elements=lazily(str, [Counted(elements=[]) for _ in range(COUNT)])),
    ):
        before = Counted.gone
        freed = freed_by_step(made())
        assert sum(freed) == Counted.gone - before > COUNT
        assert max(freed) <= ELEMENTS_PER_STEP


def test_what_somebody_has_stays_as_it_is() -> None:
    kept = [Counted(elements=[]) for _ in range(COUNT)]
    freed = freed_by_step(Counted(elements=kept))
    assert sum(freed) == 1
    assert len(kept) == COUNT


def test_requests_and_answers_in_steps_are_let_go(monkeypatch: Any) -> None:
    seen: list[str] = []

    def noted(messages: list[Any]) -> Any:
        seen.extend(type(each).__name__ for each in messages)
        return let_go(messages)

    for module in ("dispatcher", "exit"):
        monkeypatch.setattr(f"penstock.node.{module}.let_go", noted)
    topics = [MetadataRequestTopic(name=f"n{number}" * 9) for number in range(COUNT)]
    assert len(Node().connect().ask(MetadataRequest(topics=topics), 12).topics) == COUNT
    assert seen == ["MetadataRequest", "MetadataResponse"]
