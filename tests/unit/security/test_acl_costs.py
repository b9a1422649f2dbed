"""What the index of ACLs costs with very many of them: time that others wait for, since it is spent on the loop."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from penstock.protocol.acls import Acl, AclOperation, PatternType, PermissionType, ResourceType
from penstock.security.acls import AclIndex

COUNT = 3_000


def acl(name: str, *, host: str = "*", deny: bool = False) -> Acl:
    permission = PermissionType.DENY if deny else PermissionType.ALLOW
    return Acl(ResourceType.TOPIC, name, PatternType.LITERAL, "User:a", host, AclOperation.WRITE, permission)


def lines_run(do: Callable[[], Any]) -> int:
    """How many lines of Python `do` runs: the same on each machine, unlike its time."""
    count = 0

    def trace(frame: Any, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        do()
    finally:
        sys.settrace(before)
    return count


def test_an_acl_of_one_more_host_costs_the_same_whatever_their_number() -> None:
    index = AclIndex()
    one = lines_run(lambda: index.add(acl("t", host="first")))
    for number in range(COUNT):
        index.add(acl("t", host=f"host-{number}"))
    assert lines_run(lambda: index.add(acl("t", host="last"))) <= one
    assert lines_run(lambda: index.remove(acl("t", host="last"))) < 10 * one
    assert index.masks("User:a", "host-7", ResourceType.TOPIC, "t") == ((1 << 4) | (1 << 8), 0)


def test_a_right_on_any_topic_is_found_at_a_cost_that_the_number_of_acls_does_not_change() -> None:
    """Each idempotent producer without a right on the cluster asks for it."""
    index = AclIndex()
    for number in range(COUNT):
        index.add(acl(f"t-{number}"))
    index.add(acl("t-1", deny=True))

    def ask(operation: AclOperation) -> bool:
        return index.allows_any("User:a", "10.0.0.1", ResourceType.TOPIC, operation)

    assert ask(AclOperation.WRITE)
    assert not ask(AclOperation.READ)
    assert lines_run(lambda: ask(AclOperation.WRITE)) < 200
    assert lines_run(lambda: ask(AclOperation.READ)) < 200
