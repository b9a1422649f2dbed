"""A chain that shares its work with others by a group (KIP-447): who has which partition, the group says.

Each process has a transactional id of its own, so nobody fences another by it. A process that stands still, or is not
heard of, loses its partitions to the next member. When it wakes it can still write, but it cannot bring an offset into
its transaction any more, since it is no member, and so has to abort. Whoever gets a partition waits for what is pending
there. So each record is taken once, by whomever.

It heartbeats between its transactions, as a member of a consumer group (KIP-848): it gives up partitions when it has
none under way.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from penstock.client.membership import Heard, Membership
from penstock.errors import ErrorCode
from simulator.cluster.load import AGAIN, RETRY_MS
from simulator.transactions.chain import IDLE_MS, TAKEN_MAX, Chain
from simulator.transactions.client import GROUP, MOVED, Aborts, Fenced
from simulator.transactions.history import Place
from simulator.transactions.load import INBOX, TransactionLoad
from simulator.transactions.process import Steps
from simulator.world.checks import check

HEARTBEAT_VERSION = 1
SESSION_MS, HEARTBEAT_MS, REBALANCE_MS = 900, 200, 900
NO_MEMBER = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.STALE_MEMBER_EPOCH}
    | {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND}
)
"""A group that does not take a commit: of one that is no member any more, or in an epoch in which it was that."""


class MemberChain(Chain):
    """See the module's head.

    Attributes:
        owned: the partitions that it has, with the ids of their topics. positions: next offsets, where it knows them.
    """

    def __init__(self, load: TransactionLoad, name: str, group_id: str) -> None:
        super().__init__(load, name, name, 0)
        self.group_id = group_id
        self.owned: dict[Place, UUID] = {}
        self.positions: dict[Place, int] = {}
        self._membership = Membership(
            group_id,
            str(UUID(int=self.random.getrandbits(128), version=4)),
            [INBOX],
            rebalance_timeout_ms=REBALANCE_MS,
        )
        self._beats_ms = 0

    @property
    def reached(self) -> dict[Place, int]:
        return self.positions

    def member(self) -> dict[str, Any]:
        return {"member_id": self._membership.member_id, "generation_id": self._membership.epoch}

    def run(self) -> Steps[None]:
        try:
            yield from self.initialise()
            while not self.load.over:
                if self.load.now_ms >= self._beats_ms:
                    yield from self._heartbeat()
                busy = False
                for place in list(self.owned):
                    busy |= place in self.owned and (yield from self._take(place))
                if not busy:
                    yield self.sleep(self.random.randrange(1, IDLE_MS))
                elif self.load.clients.going_on:
                    yield self.sleep(self.load.clients.think())
        except Fenced as fenced:
            self.is_fenced(str(fenced))

    def _heartbeat(self) -> Steps[None]:
        """Is heard of, and told what it has."""
        membership = self._membership
        address = yield from self.coordinator(GROUP, self.group_id)
        response = yield self.ask(address, membership.request(dict(self.owned)), HEARTBEAT_VERSION)
        match membership.heard(response):
            case Heard.STAYS:
                self._beats_ms = self.load.now_ms + membership.interval_ms
            case Heard.GIVEN:
                ids = {name: topic.id for name, topic in self.load.image.topics_by_name.items()}
                self._own(membership.assigned(ids))
            case Heard.LOST:
                self.load.count("members lost")
                self._own({})
            case Heard.UNSERVED:
                self._coordinators.pop((GROUP, self.group_id), None)
                self._beats_ms = self.load.now_ms + RETRY_MS
            case _:
                code = ErrorCode(response.error_code)
                check(code in AGAIN or code in MOVED, "a member is served", f"{self.name}: {code.name}")
                self._beats_ms = self.load.now_ms + RETRY_MS

    def _own(self, owned: dict[Place, UUID]) -> None:
        """Has these partitions from now on, and says so at once."""
        if owned.keys() != self.owned.keys():
            self.trace(f"has {sorted(owned)}")
        self.owned = owned
        self.positions = {place: offset for place, offset in self.positions.items() if place in owned}
        self._beats_ms = self.load.now_ms

    def _take(self, place: Place) -> Steps[bool]:
        """One transaction, if there is anything to be taken of a partition; whether there was."""
        if place not in self.positions:
            found = yield from self.committed_now(place)
            if found is not None:
                self.positions[place] = found
            return False
        self.source = self.load.ledgers[place]
        position = self.positions[place]
        values, end = yield from self.fetch(position)
        if not values:
            self.positions[place] = max(position, end)
            return False
        taken = dict(list(values.items())[: self.random.randint(1, TAKEN_MAX)])
        transaction = yield from self.begin()
        if (yield from self.one(transaction, taken, max(taken) + 1)):
            self.positions[place] = max(taken) + 1
            self.taken += len(taken)
        return True

    def _expect(self, code: ErrorCode, what: str) -> None:
        if code in NO_MEMBER:
            self.load.count("commits of no member")
            self._beats_ms = self.load.now_ms
            raise Aborts(f"{what}: {code.name}")
        super()._expect(code, what)
