"""What the clients know of one consumer group, and what may therefore never be seen.

An *ownership* is the time in which a process has a partition: from the answer that gave it until the process gives it
up, loses it, or dies. When a later process is given the same partition, the earlier one has been removed by the
coordinator though it may not know: from then on whatever it asks must be refused.

The committed offset of a partition goes on only. While the outcome of a commit is unknown, either may be the case.
Every commit carries the number of its ownership in its metadata, so that the log can be held against all this at the
end.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from simulator.world.checks import check

Place = tuple[str, int]
"""Topic and partition index."""
NOTHING = -1

ONE_OWNER = "a partition has one owner in a generation"
FENCED = "who has lost a partition is fenced"
STALE = "stale commits are fenced"
SURVIVES = "an acknowledged commit survives"
DELIVERED = "committed is not ahead of delivered"
WRITTEN = "nothing is committed that nobody committed"
STAYS = "who is heard of in time stays a member"
EPOCHS = "generations and epochs go on only"


@dataclass(eq=False, slots=True)
class Ownership:
    """See the module's head.

    Attributes:
        owner: the process. generation: in which it was given the partition.
        ousted_us: when a later process was given it; None: not that we know.
        over: it is not used any more.
    """

    number: int
    owner: str
    place: Place
    generation: int
    ousted_us: int | None = None
    over: bool = False


@dataclass(slots=True)
class Progress:
    """One partition.

    Attributes:
        delivered: every record below was given to a member.
        floor: the committed offset is not below, but for what is `unsure`: offsets of commits of the present ownership
            whose outcome nobody knows.
        attempts: the offset of each commit, by its metadata. acknowledged: the metadata of those that were.
        ownerships: those that are not over.
        last_ownership, last_generation, last_us: number, generation and beginning of the latest.
    """

    delivered: int = 0
    floor: int = NOTHING
    unsure: list[int] = field(default_factory=list)
    attempts: dict[str, int] = field(default_factory=dict)
    acknowledged: set[str] = field(default_factory=set)
    ownerships: list[Ownership] = field(default_factory=list)
    last_ownership: int = 0
    last_generation: int = -1
    last_us: int = 0


class GroupHistory:
    """The model of one group.

    Args:
        one_protocol: the group keeps its protocol. One that does not begins anew when it is empty and the other
            protocol comes: then its generations are given again, and say nothing of owners.

    Attributes:
        commits: how many partitions' commits were acknowledged. acquired: how many ownerships there were. fenced: how
            often a process was told that it is no member any more, or is late.
    """

    def __init__(self, group_id: str, *, one_protocol: bool = True) -> None:
        self.group_id = group_id
        self.one_protocol = one_protocol
        self.progress: dict[Place, Progress] = {}
        self.commits = 0
        self.acquired = 0
        self.fenced = 0
        self._owners: dict[tuple[Place, int], str] = {}

    def of(self, place: Place) -> Progress:
        """What is known of a partition."""
        return self.progress.setdefault(place, Progress())

    # Owners

    def share(self, place: Place, owner: str, generation: int) -> None:
        """A member was told, in an answer that the coordinator gave in this generation, that a partition is its own.

        Args:
            owner: the instance id of a static member, else the process.
        """
        if not self.one_protocol:
            return
        first = self._owners.setdefault((place, generation), owner)
        check(first == owner, ONE_OWNER, f"{self.group_id}: {first} and {owner} have {place} in {generation}")

    def acquire(
        self, place: Place, owner: str, generation: int, now_us: int, *, stale: bool, asked_us: int
    ) -> Ownership:
        """A process was given a partition that it did not have.

        The answer may have been on its way, or the process may have stood still, for so long that another has had the
        partition since. Then this one begins as lost.

        Args:
            stale: the answer is of a coordinator that had been deposed. asked_us: when it was asked.
        """
        progress = self.of(place)
        self.acquired += 1
        ownership = Ownership(self.acquired, owner, place, generation)
        if generation < progress.last_generation and (stale or asked_us < progress.last_us):
            ownership.ousted_us = now_us
        else:
            for other in progress.ownerships:
                if other.ousted_us is None:
                    other.ousted_us = now_us
            progress.last_ownership = ownership.number
            progress.last_generation = generation
            progress.last_us = now_us
        progress.ownerships.append(ownership)
        return ownership

    def end(self, ownership: Ownership) -> None:
        """The process does not use the partition any more."""
        ownership.over = True
        self.of(ownership.place).ownerships.remove(ownership)

    def check_member(self, ownership: Ownership, asked_us: int, what: str) -> None:
        """The coordinator has taken an owner for a member, as of a question asked then."""
        late = ownership.ousted_us is not None and asked_us > ownership.ousted_us
        check(not late, FENCED, f"{self.group_id}: {what} of {ownership.owner}, which has lost {ownership.place}")

    # Records and offsets

    def deliver(self, place: Place, first: int, last: int) -> None:
        """A member was given these records, both included."""
        progress = self.of(place)
        check(first <= progress.delivered, DELIVERED, f"{self.group_id}: {place} at {first}, not {progress.delivered}")
        progress.delivered = max(progress.delivered, last + 1)

    def attempt(self, ownership: Ownership, offset: int) -> str:
        """A commit goes out; gives its metadata."""
        progress = self.of(ownership.place)
        check(offset <= progress.delivered, DELIVERED, f"{self.group_id}: {ownership.place} {offset}")
        text = f"{ownership.number} {len(progress.attempts)}"
        progress.attempts[text] = offset
        if ownership.number == progress.last_ownership:
            progress.unsure.append(offset)
        return text

    def refused(self, ownership: Ownership, offset: int) -> None:
        """A commit was certainly not taken."""
        self._ended(ownership, offset)

    def acknowledge(self, ownership: Ownership, offset: int, text: str, asked_us: int) -> None:
        """A commit was taken."""
        late = ownership.ousted_us is not None and asked_us > ownership.ousted_us
        check(not late, STALE, f"{self.group_id}: {ownership.owner} has lost {ownership.place}, and commits {offset}")
        self.commits += 1
        self.of(ownership.place).acknowledged.add(text)
        if self._ended(ownership, offset):
            progress = self.of(ownership.place)
            progress.floor = min([offset, *progress.unsure])

    def _ended(self, ownership: Ownership, offset: int) -> bool:
        progress = self.of(ownership.place)
        if ownership.number != progress.last_ownership or offset not in progress.unsure:
            return False
        progress.unsure.remove(offset)
        return True

    def start(self, ownership: Ownership, offset: int) -> None:
        """A new owner is told where to begin; NOTHING when there is no committed offset."""
        progress = self.of(ownership.place)
        if ownership.number != progress.last_ownership:
            return  # there is a later one already
        self.check_committed(ownership.place, offset)
        progress.floor = offset
        progress.unsure.clear()

    def check_committed(self, place: Place, offset: int) -> None:
        """The coordinator says that this is committed now."""
        progress = self.of(place)
        where = f"{self.group_id}: {place} {offset}, after {progress.floor} (perhaps {progress.unsure})"
        check(offset >= min([progress.floor, *progress.unsure]), SURVIVES, where)
        check(offset <= progress.delivered, DELIVERED, where)
        known = offset == NOTHING or offset in progress.attempts.values()
        check(known, WRITTEN, where)
