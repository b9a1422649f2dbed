"""What the clients know of one consumer group, and what may therefore never be seen.

A *tenure* is the time in which a process has a partition: from the answer that gave it until the process gives it up,
loses it, or dies. When a later process is given the same partition, the earlier one has been removed by the coordinator
though it may not know: from then on whatever it asks must be refused.

The committed offset of a partition goes on only. While the outcome of a commit is unknown, either may be the case.
Every commit carries the number of its tenure in its metadata, so that the log can be held against all this at the end.
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
class Tenure:
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
        floor: the committed offset is not below, but for what is `unsure`: offsets of commits of the present tenure
            whose outcome nobody knows.
        attempts: the offset of each commit, by its metadata. acknowledged: the metadata of those that were.
        tenures: those that are not over.
        last_tenure, last_generation, last_us: number, generation and beginning of the latest.
    """

    delivered: int = 0
    floor: int = NOTHING
    unsure: list[int] = field(default_factory=list)
    attempts: dict[str, int] = field(default_factory=dict)
    acknowledged: set[str] = field(default_factory=set)
    tenures: list[Tenure] = field(default_factory=list)
    last_tenure: int = 0
    last_generation: int = -1
    last_us: int = 0


class GroupHistory:
    """The model of one group.

    Args:
        one_protocol: the group keeps its protocol. One that does not begins anew when it is empty and the other
            protocol comes: then its generations are given again, and say nothing of owners.

    Attributes:
        commits: how many partitions' commits were acknowledged. acquired: how many tenures there were. fenced: how
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

    def acquire(self, place: Place, owner: str, generation: int, now_us: int, *, stale: bool, asked_us: int) -> Tenure:
        """A process was given a partition that it did not have.

        The answer may have been on its way, or the process may have stood still, for so long that another has had the
        partition since. Then this one begins as lost.

        Args:
            stale: the answer is of a coordinator that had been deposed. asked_us: when it was asked.
        """
        progress = self.of(place)
        self.acquired += 1
        tenure = Tenure(self.acquired, owner, place, generation)
        if generation < progress.last_generation and (stale or asked_us < progress.last_us):
            tenure.ousted_us = now_us
        else:
            for other in progress.tenures:
                if other.ousted_us is None:
                    other.ousted_us = now_us
            progress.last_tenure, progress.last_generation, progress.last_us = tenure.number, generation, now_us
        progress.tenures.append(tenure)
        return tenure

    def end(self, tenure: Tenure) -> None:
        """The process does not use the partition any more."""
        tenure.over = True
        self.of(tenure.place).tenures.remove(tenure)

    def check_member(self, tenure: Tenure, asked_us: int, what: str) -> None:
        """The coordinator has taken the owner of a tenure for a member, as of a question asked then."""
        late = tenure.ousted_us is not None and asked_us > tenure.ousted_us
        check(not late, FENCED, f"{self.group_id}: {what} of {tenure.owner}, which has lost {tenure.place}")

    # Records and offsets

    def deliver(self, place: Place, first: int, last: int) -> None:
        """A member was given these records, both included."""
        progress = self.of(place)
        check(first <= progress.delivered, DELIVERED, f"{self.group_id}: {place} at {first}, not {progress.delivered}")
        progress.delivered = max(progress.delivered, last + 1)

    def attempt(self, tenure: Tenure, offset: int) -> str:
        """A commit goes out; gives its metadata."""
        progress = self.of(tenure.place)
        check(offset <= progress.delivered, DELIVERED, f"{self.group_id}: {tenure.place} {offset}")
        text = f"{tenure.number} {len(progress.attempts)}"
        progress.attempts[text] = offset
        if tenure.number == progress.last_tenure:
            progress.unsure.append(offset)
        return text

    def refused(self, tenure: Tenure, offset: int) -> None:
        """A commit was certainly not taken."""
        self._ended(tenure, offset)

    def acknowledge(self, tenure: Tenure, offset: int, text: str, asked_us: int) -> None:
        """A commit was taken."""
        late = tenure.ousted_us is not None and asked_us > tenure.ousted_us
        check(not late, STALE, f"{self.group_id}: {tenure.owner} has lost {tenure.place}, and commits {offset}")
        self.commits += 1
        self.of(tenure.place).acknowledged.add(text)
        if self._ended(tenure, offset):
            progress = self.of(tenure.place)
            progress.floor = min([offset, *progress.unsure])

    def _ended(self, tenure: Tenure, offset: int) -> bool:
        progress = self.of(tenure.place)
        if tenure.number != progress.last_tenure or offset not in progress.unsure:
            return False
        progress.unsure.remove(offset)
        return True

    def start(self, tenure: Tenure, offset: int) -> None:
        """A new owner is told where to begin; NOTHING when there is no committed offset."""
        progress = self.of(tenure.place)
        if tenure.number != progress.last_tenure:
            return  # there is a later one already
        self.check_committed(tenure.place, offset)
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
