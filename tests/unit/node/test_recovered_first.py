"""The order in which a node recovers its logs after a crash."""

from __future__ import annotations

from support.broker import Node
from support.requests import batch, produced

METADATA = "__cluster_metadata-0"


def test_the_metadata_log_is_read_to_its_end_before_any_other_log_is_recovered() -> None:
    node = Node()
    node.create_topic("a", partitions=3)
    client = node.connect()
    for partition in range(3):
        assert produced(client, "a", batch(b"v"), partition=partition).error_code == 0
    disk = node.disks[0]
    there_bytes = sum(disk.size(path) for path in disk.paths() if path.startswith(METADATA) and path.endswith(".log"))
    read = disk.read
    order: list[tuple[str, int]] = []

    def noted(path: str, position: int, length: int) -> bytes:
        data = read(path, position, length)
        if path.endswith(".log"):
            order.append((path.partition("/")[0], position + len(data)))
        return data

    disk.read = noted  # type: ignore[method-assign]
    node.crash(power_failed=False)
    node.advance(1000)
    assert {name for name, _ in order} == {METADATA, "a-0", "a-1", "a-2"}
    first_other = next(number for number, (name, _) in enumerate(order) if name != METADATA)
    assert max(end for _, end in order[:first_other]) >= there_bytes > 0
