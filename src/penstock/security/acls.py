"""ACLs by principal: what a principal's ACLs say about a name, at a cost of the name's length, whatever their number.

For a principal and a type of resource there is one table of literal names, and one of prefixes with the lengths that
occur among them: so a name is looked up whole, as `*`, and once for each length of a prefix that somebody has used and
that is not longer than the name. What stands at an entry is two bit masks, of operations that are allowed and denied,
for all hosts, and for single hosts where an ACL names one. Kafka walks through the ACLs of all principals instead.

An allowing ACL for READ, WRITE, DELETE or ALTER also allows DESCRIBE, one for ALTER_CONFIGS also DESCRIBE_CONFIGS, and
ALL allows everything. A denying one denies just its operation, or with ALL all of them.

ACLs are counted: of two records of one ACL, the removal of one leaves the other.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Collection, Iterator
from itertools import chain
from typing import TypeVar

from penstock.protocol.acls import EVERYBODY, WILDCARD, Acl, AclOperation, PatternType, PermissionType

EVERYTHING = -1
"""The mask of ALL."""
DESCRIBE_BIT = 1 << AclOperation.DESCRIBE
DESCRIBE_CONFIGS_BIT = 1 << AclOperation.DESCRIBE_CONFIGS
IMPLIED = {
    AclOperation.READ: DESCRIBE_BIT,
    AclOperation.WRITE: DESCRIBE_BIT,
    AclOperation.DELETE: DESCRIBE_BIT,
    AclOperation.ALTER: DESCRIBE_BIT,
    AclOperation.ALTER_CONFIGS: DESCRIBE_CONFIGS_BIT,
}
"""What else an allowing ACL for an operation allows, as bits."""

KINDS = tuple(
    (operation, permission)
    for operation in AclOperation
    if operation >= AclOperation.ALL
    for permission in (PermissionType.ALLOW, PermissionType.DENY)
)
"""What an ACL can say: its operation and permission."""

Masks = tuple[int, int]
"""Operations that are allowed, and operations that are denied: bit n is the operation with code n."""
NOTHING: Masks = (0, 0)


def masks_of(operation: int, permission: int) -> Masks:
    """What one ACL allows and denies."""
    mask = EVERYTHING if operation == AclOperation.ALL else 1 << operation
    if permission == PermissionType.ALLOW:
        return mask | IMPLIED.get(AclOperation(operation), 0), 0
    return 0, mask


class Entry:
    """All ACLs of a principal for one pattern: for all hosts (`everywhere`), and by host."""

    __slots__ = ("_counts", "by_host", "everywhere")

    def __init__(self) -> None:
        self.everywhere = NOTHING
        self.by_host: dict[str, Masks] = {}
        self._counts: dict[tuple[str, int, int], int] = {}

    def add(self, host: str, operation: int, permission: int, count: int) -> bool:
        """Adds an ACL (`count` 1) or removes one (-1). Returns whether any is left."""
        key = (host, operation, permission)
        now = self._counts.get(key, 0) + count
        assert now >= 0, "only an ACL that was added is removed"
        if now:
            self._counts[key] = now
            allowed, denied = self.everywhere if host == WILDCARD else self.by_host.get(host, NOTHING)
            allows, denies = masks_of(operation, permission)
            allowed, denied = allowed | allows, denied | denies
        else:
            del self._counts[key]
            allowed, denied = self._counted(host)
        if host == WILDCARD:
            self.everywhere = (allowed, denied)
        elif allowed or denied:
            self.by_host[host] = (allowed, denied)
        else:
            self.by_host.pop(host, None)
        return bool(self._counts)

    def _counted(self, host: str) -> Masks:
        """The masks of a host, made anew: what is asked is what there may be, and not each of the pattern's hosts."""
        allowed = denied = 0
        for operation, permission in KINDS:
            if (host, operation, permission) in self._counts:
                allows, denies = masks_of(operation, permission)
                allowed |= allows
                denied |= denies
        return allowed, denied

    def masks(self, host: str) -> Masks:
        """What holds for requests from a host."""
        own = self.by_host.get(host) if self.by_host else None
        if own is None:
            return self.everywhere
        return own[0] | self.everywhere[0], own[1] | self.everywhere[1]


class Patterns:
    """The ACLs of one principal, or of all, for one type of resource: entries of literal names, and of prefixes."""

    __slots__ = ("_lengths", "lengths", "literals", "prefixes")

    def __init__(self) -> None:
        self.literals: dict[str, Entry] = {}
        self.prefixes: dict[str, Entry] = {}
        self.lengths: list[int] = []
        self._lengths: dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self.literals or self.prefixes)

    def add(self, acl: Acl, count: int) -> None:
        """Adds an ACL (`count` 1) or removes one (-1)."""
        prefixed = acl.pattern_type == PatternType.PREFIXED
        entries = self.prefixes if prefixed else self.literals
        entry = entries.get(acl.name)
        if entry is None:
            entry = entries[acl.name] = Entry()
            if prefixed:
                self._count_length(len(acl.name), 1)
        if not entry.add(acl.host, acl.operation, acl.permission, count):
            del entries[acl.name]
            if prefixed:
                self._count_length(len(acl.name), -1)

    def _count_length(self, length: int, count: int) -> None:
        now = self._lengths.get(length, 0) + count
        if now == 1 and count == 1:
            insort(self.lengths, length)
        self._lengths[length] = now
        if not now:
            del self._lengths[length]
            self.lengths.remove(length)

    def masks(self, name: str, host: str) -> Masks:
        """What the ACLs for a name allow and deny a request from a host."""
        allowed = denied = 0
        literals = self.literals
        if literals:
            entry = literals.get(name)
            if entry is not None:
                allowed, denied = entry.masks(host)
            entry = literals.get(WILDCARD)
            if entry is not None:
                allows, denies = entry.masks(host)
                allowed |= allows
                denied |= denies
        size = len(name)
        for length in self.lengths:
            if length > size:
                break
            entry = self.prefixes.get(name[:length])
            if entry is not None:
                allows, denies = entry.masks(host)
                allowed |= allows
                denied |= denies
        return allowed, denied

    def names(self, name: str) -> bool:
        """Whether any ACL is about a resource of this name."""
        if name in self.literals or WILDCARD in self.literals:
            return True
        size = len(name)
        return any(name[:length] in self.prefixes for length in self.lengths if length <= size)


class OwnPatterns(Patterns):
    """The ACLs of one principal for one type of resource; also by what they say, to find any that says something."""

    __slots__ = ("_saying",)

    def __init__(self) -> None:
        super().__init__()
        self._saying: dict[tuple[str, int, int, int], dict[str, int]] = {}

    def add(self, acl: Acl, count: int) -> None:
        super().add(acl, count)
        key = (acl.host, acl.operation, acl.permission, acl.pattern_type)
        names = self._saying.setdefault(key, {})
        now = names.get(acl.name, 0) + count
        if now:
            names[acl.name] = now
            return
        del names[acl.name]
        if not names:
            del self._saying[key]

    def saying(self, host: str, operation: int, permission: int, pattern_type: int) -> Iterator[Collection[str]]:
        """The names in ACLs for this operation itself, or for ALL, that count at a host: not what others imply."""
        for of_host in (host, WILDCARD):
            for of_operation in (operation, AclOperation.ALL):
                names = self._saying.get((of_host, of_operation, permission, pattern_type))
                if names:
                    yield names


class AclIndex:
    """The ACLs of a cluster. `add` and `remove` cost as little as a look-up."""

    __slots__ = ("_all", "_everybody", "_principals", "count")

    def __init__(self) -> None:
        self.count = 0
        self._principals: dict[str, dict[int, OwnPatterns]] = {}
        self._everybody: dict[int, OwnPatterns] = {}
        self._all: dict[int, Patterns] = {}

    def add(self, acl: Acl) -> None:
        """Adds an ACL."""
        self._change(acl, 1)

    def remove(self, acl: Acl) -> None:
        """Removes an ACL that was added, once."""
        self._change(acl, -1)

    def _change(self, acl: Acl, count: int) -> None:
        everybody = acl.principal == EVERYBODY
        of_principal = self._everybody if everybody else self._principals.setdefault(acl.principal, {})
        change(of_principal, OwnPatterns, acl, count)
        change(self._all, Patterns, acl, count)
        if not of_principal and not everybody:
            del self._principals[acl.principal]
        self.count += count

    def masks(self, principal: str, host: str, resource_type: int, name: str) -> Masks:
        """The operations that ACLs allow, and those that they deny, a principal at a host on one resource."""
        everybody = self._everybody.get(resource_type)
        allowed, denied = NOTHING if everybody is None else everybody.masks(name, host)
        own = self._principals.get(principal)
        if own is not None:
            patterns = own.get(resource_type)
            if patterns is not None:
                allows, denies = patterns.masks(name, host)
                return allowed | allows, denied | denies
        return allowed, denied

    def names(self, resource_type: int, name: str) -> bool:
        """Whether any ACL, of whichever principal, operation and host, is about this resource."""
        patterns = self._all.get(resource_type)
        return patterns is not None and patterns.names(name)

    def allows_any(self, principal: str, host: str, resource_type: int, operation: int) -> bool:
        """Whether there may be a resource of this type on which a principal may do something (KIP-679).

        A `*` that is denied denies all, a `*` that is allowed allows; otherwise there must be an allowed pattern that
        no denied one covers. The first such ends the search, so it is long only where many allowed ones are covered.
        """
        of_principal = self._everybody.get(resource_type), self._principals.get(principal, {}).get(resource_type)
        tables = [each for each in of_principal if each is not None]

        def saying(permission: int, pattern_type: int) -> list[Collection[str]]:
            return [names for each in tables for names in each.saying(host, operation, permission, pattern_type)]

        denied = saying(PermissionType.DENY, PatternType.LITERAL)
        allowed = saying(PermissionType.ALLOW, PatternType.LITERAL)
        if any(WILDCARD in names for names in denied):
            return False
        if any(WILDCARD in names for names in allowed):
            return True
        denied_prefixes = saying(PermissionType.DENY, PatternType.PREFIXED)
        lengths = {length for each in tables for length in each.lengths} if denied_prefixes else ()

        def covered(name: str) -> bool:
            starts = (name[:length] for length in lengths if length <= len(name))
            return any(start in names for start in starts for names in denied_prefixes)

        literals, prefixes = chain(*allowed), chain(*saying(PermissionType.ALLOW, PatternType.PREFIXED))
        return any(not covered(name) and not any(name in names for names in denied) for name in literals) or any(
            not covered(name) for name in prefixes
        )


P = TypeVar("P", bound=Patterns)


def change(tables: dict[int, P], make: Callable[[], P], acl: Acl, count: int) -> None:
    """Adds an ACL to the table of its type of resource, or removes it; an empty table goes."""
    patterns = tables.get(acl.resource_type)
    if patterns is None:
        patterns = tables[acl.resource_type] = make()
    patterns.add(acl, count)
    if not patterns:
        del tables[acl.resource_type]
