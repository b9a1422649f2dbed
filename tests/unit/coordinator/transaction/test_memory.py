"""What the coordinator keeps in memory of ids without end, and of transactions over very many partitions."""

from __future__ import annotations

import gc
import sys
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType

from unit.coordinator.transaction.transaction_world import World

from penstock.coordinator.transaction.partitions import add_partitions

IDS = 2_000
BYTES_AN_ID_MAX = 2_000
PARTITIONS = [("wide", index) for index in range(10_000)]
TRANSACTIONS = 4
SHARED = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)


def kept_bytes(world: World) -> int:
    """Bytes of all objects that the state of the coordinator holds, of which it shares some with others."""
    state = world.state
    seen: dict[int, object] = {}
    waiting: list[object] = [state.ids, state.writing, state.endings, state.found, state.unexpired, state.timers]
    total = 0
    while waiting:
        found = waiting.pop()
        if id(found) in seen or isinstance(found, SHARED):
            continue
        seen[id(found)] = found
        total += sys.getsizeof(found)
        waiting += gc.get_referents(found)
    return total


def test_a_client_that_makes_ids_without_end_costs_little_an_id_and_nothing_once_they_expire() -> None:
    world = World()
    before = kept_bytes(world)
    for number in range(IDS):
        world.begin(f"a-transactional-id-of-an-ordinary-length-{number}")
    assert len(world.state.ids) == IDS
    assert kept_bytes(world) - before <= IDS * BYTES_AN_ID_MAX
    assert not world.state.writing
    assert not world.state.endings
    once = kept_bytes(world)
    for number in range(IDS):
        world.begin(f"a-transactional-id-of-an-ordinary-length-{number}")
    assert kept_bytes(world) <= once + IDS, "the same ids again cost nothing more"
    hour_ms = world.settings.transaction_remove_expired_transaction_cleanup_interval_ms
    world.advance(world.settings.transactional_id_expiration_ms + 2 * hour_ms)
    assert not len(world.state.ids)
    assert kept_bytes(world) - before <= IDS * BYTES_AN_ID_MAX // 10


def test_a_transaction_over_very_many_partitions_keeps_nothing_of_its_requests() -> None:
    world = World()
    producer = world.begin()
    before = kept_bytes(world)
    open_bytes = []
    for _ in range(TRANSACTIONS):
        for _ in range(3):
            wanted = by_topic_at_once(PARTITIONS)
            answer = world.write(
                lambda state: add_partitions(state, "t", producer, wanted, world.now_ms, client_version=2)  # noqa: B023
            )
            assert answer.done, answer
            assert not answer.code, answer
        assert len(world.transaction().partitions["wide"]) == len(PARTITIONS)
        open_bytes.append(kept_bytes(world))
        ended = world.end(producer)
        assert not ended.code, ended
        producer = ended.value
        world.endings.clear()
        assert kept_bytes(world) <= before + 10_000, "what is over keeps no partitions"
    assert max(open_bytes) <= min(open_bytes) + 10_000


def by_topic_at_once(partitions: list[tuple[str, int]]) -> dict[str, frozenset[int]]:
    """Partitions of one topic as the coordinator has them, new objects each time."""
    return {partitions[0][0]: frozenset(index for _, index in partitions)}
