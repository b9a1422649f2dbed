"""kcat as a member of a group, with whatever librdkafka the system has; that of Debian is years older than ours."""

from __future__ import annotations

import pytest
from interop.clients.builds import require
from interop.groups.place import Place
from interop.kafka_peer import run


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "cooperative-sticky"])
def test_kcat_goes_on_where_it_ended(place: Place, number: int, assignor: str) -> None:
    require("kcat", "kcat", version="-V")
    topic = f"kcat-{number}"
    place.create(topic, 3)

    def read(count: int) -> list[tuple[str, int, int]]:
        settings = ("-X", "auto.offset.reset=earliest", "-X", f"partition.assignment.strategy={assignor}")
        command = ["kcat", "-b", place.bootstrap, *settings, "-f", r"%t:%p:%o\n", "-c", str(count)]
        done = run([*command, "-G", f"kcat-{number}", topic])
        assert f"{topic} [0], {topic} [1], {topic} [2]" in done.stderr, "all is assigned to it"
        rows = [line.split(":") for line in done.stdout.split()]
        return [(name, int(partition), int(offset)) for name, partition, offset in rows]

    first = place.fill(topic, 3, 4)
    assert sorted(read(12)) == sorted(first)
    everything = place.fill(topic, 3, 2)
    assert sorted(read(6)) == sorted(set(everything) - set(first))
