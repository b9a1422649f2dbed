"""`/v1/disks?cluster=NAME`: the log directories of a cluster as the leader sees them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from penstock.guardian.core.believing import error_name
from penstock.guardian.core.calls import NOT_FOUND, OK, Call, Known, Refused, Reply, Resource
from penstock.guardian.core.resources.seen import Asked
from penstock.guardian.core.sight import DISKS, SeenDisk, of_broker


class Disks(Resource):
    """See the module's head."""

    path = "/v1/disks"
    live = True

    def read(self, known: Known, call: Call, name: str) -> Reply:
        if name:
            raise Refused(NOT_FOUND, f"{self.path} has no parts")
        asked = Asked(known, call)
        disks = {f"{broker:010d}:{path}": each for (broker, path), each in sorted(asked.seen.disks.items())}

        def rows(names: Iterable[str]) -> list[Any]:
            shown = [disks[each] for each in names]
            used, counts = used_of(asked, shown)
            return [disk_row(asked, each, used, counts) for each in shown]

        page = asked.page(list(disks), rows)
        return Reply(OK, {**asked.head(), "disks": page["rows"], "next": page["next"]})


Place = tuple[int, str]


def used_of(asked: Asked, disks: Iterable[SeenDisk]) -> tuple[Counter[Place], Counter[Place]]:
    """The bytes and the number of replicas in the directories of the brokers that have these disks."""
    used: Counter[Place] = Counter()
    counts: Counter[Place] = Counter()
    for broker in dict.fromkeys(each.broker for each in disks):
        for replica in asked.seen.on_broker.get(broker, {}).values():
            used[broker, replica.path] += replica.size_bytes
            counts[broker, replica.path] += 1
            if replica.future_path is not None:
                used[broker, replica.future_path] += replica.future_size_bytes
    return used, counts


def disk_row(asked: Asked, disk: SeenDisk, used: Counter[Place], counts: Counter[Place]) -> dict[str, Any]:
    """A disk as answers have it; null where its broker does not tell."""
    place = disk.broker, disk.path
    return {
        "broker": disk.broker,
        "path": disk.path,
        "capacity_bytes": disk.capacity_bytes if disk.capacity_bytes >= 0 else None,
        "usable_bytes": disk.usable_bytes if disk.usable_bytes >= 0 else None,
        "error": error_name(disk.error) if disk.error else None,
        "replicas": counts[place],
        "bytes": used[place],
        "age_ms": asked.age_ms(of_broker(DISKS, disk.broker)),
    }
