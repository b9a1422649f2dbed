"""How long the loop is held up while a consumer group with many members is assigned, without sockets and disk.

    python bench/group_assignment.py [--members 10000] [--partitions 20000] [--step 500]

All members join a group that knows none of its partitions; then one more joins, again and again. Each line has the
longest turn of the loop until the new assignment is there, how many turns that took, and their sum, in CPU time.
A step as large as the group computes all in one turn, as it was once.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from pathlib import Path
from random import Random
from uuid import UUID

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from unit.coordinator.consumers import Consumer, ConsumerWorld, with_topics

from penstock.coordinator.group import records_consumer as records
from penstock.coordinator.group.consumer import target_runs
from penstock.coordinator.group.consumer.member import ConsumerMember
from penstock.coordinator.runtime.result import CoordinatorRecord, Result

JOINS = 5


def crowd(world: ConsumerWorld, member_ids: list[str]) -> None:
    """A group with these members, who have nothing yet."""
    written: list[CoordinatorRecord] = []
    for member_id in member_ids:
        member = ConsumerMember(member_id, 1, client_id="c", subscribed_topic_names=frozenset(["t"]))
        written += records.member_subscription("g", member), records.current_assignment("g", member)
    written.append(records.group_epoch("g", 2, 0))
    world.write(lambda _: Result(True, written, atomic=False), None)


def join(world: ConsumerWorld, member_id: str) -> list[float]:
    """One more joins. Returns what each turn took until all are assigned, in ms."""
    turns = []
    started = time.process_time()
    answer = Consumer(world, member_id).join()
    turns.append((time.process_time() - started) * 1e3)
    if answer.code:
        print(f"refused: {answer.code.name}: {answer.message}")
    while target_runs.is_under_way(world.state, world.group()):
        started = time.process_time()
        world.advance(1)
        turns.append((time.process_time() - started) * 1e3)
    return turns


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--members", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=20_000)
    parser.add_argument("--step", type=int, default=500, help="penstock.group.consumer.assignment.step")
    options = parser.parse_args()
    random = Random(1)
    ids = [str(UUID(int=random.getrandbits(128), version=4)) for _ in range(options.members + JOINS + 1)]
    world = ConsumerWorld(with_topics(t=options.partitions), penstock_group_consumer_assignment_step=options.step)
    crowd(world, ids[: options.members])
    gc.collect()
    gc.freeze()
    for number, member_id in enumerate(ids[options.members :]):
        turns = join(world, member_id)
        what = "one more joins" if number else "all are new"
        print(f"{what:20} longest {max(turns):7.2f} ms, {len(turns):4} turns, {sum(turns):7.1f} ms in all")


if __name__ == "__main__":
    main()
