"""Requests of every API in every version, as long, as short, as wide and as many as they may be, to a real node.

The node lives, each request is answered or costs its own connection, memory stays within the limits below, and no error
was met that should never happen. How fast others are served meanwhile is measured by `bench/hostile.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support import hostile
from support.hostile import LONGEST_TEXT
from support.hostile_node import HANDLERS, HostileNode, framed, hostile_node

from penstock.node.request import Handler
from penstock.protocol.api import ApiKey

MIB = 1 << 20
RESIDENT_MAX_BYTES = 700 * MIB
"""At the most, with LONG_REQUESTS_MAX messages of 200,000 elements in memory at once."""
MANY = 200_000
WIDE = {
    ApiKey.FETCH: ("topics", "partitions"),
    ApiKey.PRODUCE: ("topic_data", "partition_data"),
    ApiKey.LIST_OFFSETS: ("topics", "partitions"),
    ApiKey.OFFSET_FETCH: ("groups", "topics", "partition_indexes"),
    ApiKey.OFFSET_COMMIT: ("topics", "partitions"),
    ApiKey.METADATA: ("topics",),
}
"""Arrays that are asked for in full; the others have FEWER elements here and as many in the benchmark."""
FEWER = 5_000
PIPELINED = 300
APIS = pytest.mark.parametrize("handler", HANDLERS.values(), ids=[key.name for key in HANDLERS])


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostileNode]:
    with hostile_node(tmp_path_factory.mktemp("hostile")) as node:
        yield node


@pytest.fixture(autouse=True)
def lives(node: HostileNode) -> Iterator[None]:
    before = node.bugs()
    yield
    assert node.serves()
    assert node.bugs() == before, node.cluster.log(1)[-8000:]
    assert node.most_resident_bytes < RESIDENT_MAX_BYTES, f"{node.most_resident_bytes // MIB} MiB"


@APIS
def test_the_longest_and_the_shortest_request_of_each_version(node: HostileNode, handler: Handler) -> None:
    name = handler.api.request_class.__name__
    for version in range(handler.min_version, handler.max_version + 1):
        node.ask(handler, version, hostile.longest(name, version))
        node.ask(handler, version, hostile.longest(name, version), client_id=LONGEST_TEXT)
        node.ask(handler, version, hostile.shortest(name, version), client_id=None)


@APIS
def test_who_leaves_before_an_answer_that_takes_for_ever(node: HostileNode, handler: Handler) -> None:
    name, version = handler.api.request_class.__name__, handler.max_version
    message = hostile.longest(name, version, wait_ms=None)
    with node.connect("broker" if "broker" in handler.api.listeners else "controller") as client:
        client.socket.sendall(framed(handler, version, message, 1))


@pytest.mark.slow
@APIS
def test_as_many_elements_as_anybody_sends(node: HostileNode, handler: Handler) -> None:
    name, version = handler.api.request_class.__name__, handler.max_version
    for path in hostile.arrays(name, version):
        count = MANY if WIDE.get(handler.key) == path else FEWER
        node.ask(handler, version, hostile.wide(name, version, path, count))


@APIS
def test_a_flood_of_requests_from_one_connection(node: HostileNode, handler: Handler) -> None:
    name, version = handler.api.request_class.__name__, handler.max_version
    requests = [framed(handler, version, hostile.shortest(name, version), number) for number in range(1, PIPELINED + 1)]
    with node.connect("broker" if "broker" in handler.api.listeners else "controller") as flood:
        answers = flood.answers(b"".join(requests), len(requests))
        next(answers, None)
        assert node.serves(), "meanwhile"
        for number, answer in enumerate(answers, start=2):
            assert int.from_bytes(answer[:4], "big") == number, "in the order of the requests"


def test_the_arrays_that_are_asked_for_in_full_are_there() -> None:
    for key, path in WIDE.items():
        handler = HANDLERS[key]
        assert path in hostile.arrays(handler.api.request_class.__name__, handler.max_version)
