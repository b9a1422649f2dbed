"""What clients use of their quotas: one usage for each entity that a quota holds for, shared by all its connections.

Which quota holds for a client is found in eight levels (`penstock.quota.levels`), for each of the kinds apart. The
level also says who shares it: under a quota of user and client id, also a default one, all connections of that pair;
under a user's, all of the user; under a client id's, all with that id. What nobody has limited is not measured.

Usages are bounded in number, and so are the names that they are kept by. One that is again as a new one would be is
forgotten, by `look_through`; when there are too many all the same, entities that have none yet share one for each
limit, and so do those of a default quota whose names are longer than anybody needs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from penstock.quota.defaults import NoQuotas, Quotas, WithDefaults
from penstock.quota.levels import CLIENT_KEYS, CONTROLLER_MUTATION_RATE, Limit, QuotaValues, group_of, resolve
from penstock.quota.limits import EXPIRES_AFTER_MS, NAMES_MAX, SLOWED_PAUSE_MS, TOLD_AFTER_MS, USAGES_PER_STEP
from penstock.quota.rate import Rate
from penstock.quota.token_bucket import TokenBucket

Name = tuple[str, str, str]
"""Of a usage: the key of its quota, and the user and the client id that it is for; empty for any."""


class Windows(NamedTuple):
    """How many windows a rate is measured over, and how long each is."""

    number: int
    width_ms: int


DEFAULT_WINDOWS = Windows(11, 1_000)
MS_PER_PERCENT = 10.0
"""One percent of a second."""


class Usage:
    """What one entity uses of one quota.

    Attributes:
        key, user, client_id: for what and whom; an empty name stands for any.
        limit: the quota, in units of its key a second. level: which of the levels it was found at; 0 for what is shared
            by those beyond the bound.
        rate: what has passed. tokens: for mutations, what may still pass at once; else None.
        spent_ms: time of the loop that is not in the rate yet.
        delays: the times for which its clients were told to wait lately, and how many; None if nobody was yet.
        delayed_ms: how long its clients were told to wait, in all. delayed_since_ms, delayed_until_ms: since when they
            have been held back without a pause, and until when. told: whether the log says so.
        idle_since_ms: since when it is known that nothing passes.
    """

    __slots__ = (
        "client_id",
        "delayed_ms",
        "delayed_since_ms",
        "delayed_until_ms",
        "delays",
        "idle_since_ms",
        "key",
        "level",
        "limit",
        "rate",
        "spent_ms",
        "tokens",
        "told",
        "user",
    )

    def __init__(self, name: Name, limit: float, windows: Windows, now_ms: int) -> None:
        self.key, self.user, self.client_id = name
        self.limit = limit
        self.level = 0
        self.rate = Rate(windows.number, windows.width_ms)
        self.tokens = (
            TokenBucket(limit, windows.number, windows.width_ms, now_ms)
            if self.key == CONTROLLER_MUTATION_RATE
            else None
        )
        self.spent_ms = 0.0
        self.delays: tuple[Rate, Rate] | None = None
        self.delayed_ms = 0
        self.delayed_since_ms = self.delayed_until_ms = 0
        self.told = False
        self.idle_since_ms: int | None = None

    def set_limit(self, limit: float) -> None:
        """Changes the quota; what was used counts under the new one."""
        self.limit = limit
        if self.tokens is not None:
            self.tokens.rate = limit

    def count_time(self, now_ms: int) -> None:
        """Counts the time of the loop that was spent until now."""
        percent, self.spent_ms = self.spent_ms / MS_PER_PERCENT, 0.0
        self.rate.record(percent, now_ms)

    def is_as_new(self, now_ms: int) -> bool:
        """Whether nothing would change if it were made anew; or nothing has passed for EXPIRES_AFTER_MS, as with
        Kafka's sensors: under a quota of 0 a debt of tokens is never paid.
        """
        if self.spent_ms:
            self.count_time(now_ms)
        self.rate.forget(now_ms)
        if not self.rate.is_empty:
            self.idle_since_ms = None
            return False
        if self.tokens is None or self.tokens.is_full(now_ms):
            return True
        if self.idle_since_ms is None:
            self.idle_since_ms = now_ms
        return now_ms - self.idle_since_ms >= EXPIRES_AFTER_MS

    def count(self, amount: float, now_ms: int) -> int:
        """Counts what has passed. For how many ms nothing more may."""
        self.rate.record(amount, now_ms)
        return self.delayed(self.rate.delay_ms(self.limit, now_ms), now_ms)

    def held_back_ms(self, now_ms: int) -> int:
        """For how long its clients have been held back without a pause; 0 if they are not."""
        return 0 if self._goes_freely(now_ms) else max(1, now_ms - self.delayed_since_ms)

    def _goes_freely(self, now_ms: int) -> bool:
        """Whether nobody has been held back for a while."""
        return not self.delayed_ms or now_ms > self.delayed_until_ms + SLOWED_PAUSE_MS

    def is_slowed_for_long(self, now_ms: int) -> bool:
        """Whether its clients are held back for TOLD_AFTER_MS, and nobody has been told of that yet."""
        long = now_ms < self.delayed_until_ms and self.delayed_until_ms - self.delayed_since_ms >= TOLD_AFTER_MS
        return long and not self.told

    def delayed(self, delay_ms: int, now_ms: int, *, told_ms: int = 0) -> int:
        """Notes that a client is held back for so long; returns that. `told_ms`: as much of it is noted already."""
        if delay_ms:
            self._note(delay_ms, now_ms)
            if self._goes_freely(now_ms):
                self.delayed_since_ms, self.told = now_ms, False
            self.delayed_until_ms = max(self.delayed_until_ms, now_ms + delay_ms)
            self.delayed_ms += delay_ms - told_ms
        return delay_ms

    def _note(self, delay_ms: int, now_ms: int) -> None:
        if self.delays is None:
            self.delays = self.rate.empty(), self.rate.empty()
        times, count = self.delays
        times.record(delay_ms, now_ms)
        count.record(1, now_ms)

    def mean_delay_ms(self, now_ms: int) -> float:
        """How long its clients were told to wait, the mean of those times in the windows when they were; 0 if none."""
        if self.delays is None:
            return 0.0
        times, count = self.delays
        number = count.per_second(now_ms)
        return times.per_second(now_ms) / number if number else 0.0


class ClientUsages(NamedTuple):
    """The usages that hold for one client; None where it has no quota."""

    produce: Usage | None
    fetch: Usage | None
    request: Usage | None
    mutations: Usage | None


UNLIMITED = ClientUsages(None, None, None, None)


class Usages:
    """See the module's head.

    Args:
        windows: for bytes and time. mutation_windows: for partition mutations.
        usages_max: bound on the usages that are kept apart.
        defaults: limits that each client id has which no quota holds for, by key.

    Attributes:
        active: whether there is any quota; nobody need be looked up otherwise.
        kept: all usages by name. shared: those that what is beyond the bound shares, by key and limit.
        crowded: how often one of these was given to somebody, in which those with long names come each time.
    """

    def __init__(
        self, windows: Windows, mutation_windows: Windows, usages_max: int, defaults: QuotaValues | None = None
    ) -> None:
        self._windows = windows
        self._mutation_windows = mutation_windows
        self._usages_max = usages_max
        self._quotas = WithDefaults(NoQuotas(), defaults or {})
        self._known: dict[tuple[str, str], ClientUsages] = {}
        self.active = bool(defaults)
        self.kept: dict[Name, Usage] = {}
        self.shared: dict[tuple[str, float], Usage] = {}
        self.crowded = 0

    def configure(self, quotas: Quotas) -> None:
        """Puts quotas into force. What was used stays, and counts under the new limits; of what is shared for a limit,
        as long as that limit is anybody's.
        """
        self._quotas = WithDefaults(quotas, self._quotas.defaults)
        self._known.clear()
        limits = {item for values in self._quotas.values() for item in values.items() if item[0] in CLIENT_KEYS}
        self.shared = {item: usage for item, usage in self.shared.items() if item in limits}
        self.active = bool(limits)
        if not self.active:
            self.kept.clear()

    def of(self, user: str, client_id: str, now_ms: int) -> ClientUsages:
        """What holds for the requests of a client."""
        known = self._known.get((user, client_id))
        if known is None:
            found = ClientUsages(*(self._find(key, user, client_id, now_ms) for key in CLIENT_KEYS))
            known = UNLIMITED if found == UNLIMITED else found
            if len(user) + len(client_id) > NAMES_MAX:
                return known
            if len(self._known) >= self._usages_max:
                self._known.clear()
            self._known[user, client_id] = known
        return known

    def standing(self, usage: Usage) -> Limit | None:
        """The limit of a usage that is kept, as it is now; None if there is none any more."""
        return self._quotas.standing(usage.key, usage.user, usage.client_id, usage.level)

    def look_through(self, now_ms: int, slowed: Callable[[Usage], None]) -> Iterator[None]:
        """Forgets usages that are as new ones, and calls `slowed` with those whose clients have been held back for
        TOLD_AFTER_MS without a pause, once for each such time. Looks at some in each step.
        """
        before = len(self.kept)
        names = iter(list(self.kept))
        while some := list(islice(names, USAGES_PER_STEP)):
            for usage in filter(None, map(self.kept.get, some)):
                if usage.is_slowed_for_long(now_ms):
                    usage.told = True
                    slowed(usage)
            idle = [name for name in some if name in self.kept and self.kept[name].is_as_new(now_ms)]
            if idle:
                for name in idle:
                    del self.kept[name]
                self._known.clear()
            yield
        if len(self.kept) < before // 2:
            self.kept = dict(self.kept)  # a dict from which much was deleted keeps its size
        self._known.clear()  # of those, too, who have no quota and do not come again

    def _find(self, key: str, user: str, client_id: str, now_ms: int) -> Usage | None:
        found = resolve(self._quotas, user, client_id, key)
        if found is None:
            return None
        limit = found.value
        if not limit < math.inf:  # or it is NaN: nothing is above that, in Kafka, too
            return None
        name = key, *group_of(found.entity, user, client_id)
        usage = self.kept.get(name)
        if usage is None:
            made_up = len(name[1]) + len(name[2]) > NAMES_MAX and any(each is None for _, each in found.entity)
            if made_up or len(self.kept) >= self._usages_max:
                return self._shared_by_all(key, limit, now_ms)
            usage = self.kept[name] = self._new(name, limit, now_ms)
        elif usage.limit != limit:
            usage.set_limit(limit)
        usage.level = found.level
        return usage

    def _shared_by_all(self, key: str, limit: float, now_ms: int) -> Usage:
        self.crowded += 1
        usage = self.shared.get((key, limit))
        if usage is None:
            usage = self.shared[key, limit] = self._new((key, "", ""), limit, now_ms)
        return usage

    def _new(self, name: Name, limit: float, now_ms: int) -> Usage:
        return Usage(
            name, limit, self._mutation_windows if name[0] == CONTROLLER_MUTATION_RATE else self._windows, now_ms
        )
