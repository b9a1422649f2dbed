"""A synthetic clickstream: people in sessions on pages of Zipf's popularity, a day's curve, and planted crawlers.

Everything comes from the seed and from event time, second by second; how fast it is taken changes nothing. A second's
new sessions are drawn at once with numpy and their requests put into the seconds where they belong; a second is then
taken out, in order of time, and encoded to JSON by Arrow. No Python object is made a record.

    clicks = Clicks(Mix(rate=1000, seed=7), start_ms=1_800_000_000_000)
    for second in itertools.islice(clicks.seconds(), 60):
        keys, values = clicks.encode(second)
    clicks.truth()      # who the crawlers were
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.pipelines.generate.crawlers import PERIOD_S, Campaign, Crawlers
from penstock.pipelines.generate.population import (
    CLICK,
    EXTERNAL,
    EXTERNAL_SHARES,
    FAILED,
    LOGIN,
    LOGIN_PAGE,
    LOGIN_REFUSED,
    NOT_FOUND,
    SEARCH,
    VIEW,
    Population,
)  # fmt: skip

Array = np.ndarray[Any, Any]

COLUMNS = ("time_ms", "visitor", "user", "page", "referrer", "action")
"""Columns of a request, all int64: numbers of the fragments in `population`."""
TIME, VISITOR, USER, PAGE, REFERRER, ACTION = range(len(COLUMNS))
SECOND_MS = 1000
WARM_UP_S = 300
"""Sessions begin so long before the stream, so that it does not begin with everybody's first page."""
PAGES_PER_SESSION = 6
SESSION_PAGES_MAX = 200
PAUSE_MEDIAN_MS = 8_000
PAUSE_SIGMA = 1.0
PAUSE_MAX_MS = 20 * 60 * 1000
ACTION_SHARES = {VIEW: 0.785, CLICK: 0.16, SEARCH: 0.05, NOT_FOUND: 0.004, FAILED: 0.001}
LOGINS = 0.15
"""Share of the sessions of people with an account that begin with a login."""
LOGINS_REFUSED = 0.1
DIRECT = 0.06
"""Share of the further requests of a session that have no referrer: reloads, bookmarks, careful browsers."""
TREND_S, TREND_SHARE = 600, 0.04
"""So long one page is talked about, and gets this share of the views."""
DAY_S, PEAK_HOUR, SWING = 86_400, 19, 0.6


@dataclass(frozen=True, slots=True)
class Mix:
    """The composition of the stream.

    `rate` is people's requests a second of event time, in a day's mean; `crawlers` how many campaigns of each kind
    begin in ten minutes, on top; `malformed` the share of values that are cut short.
    """

    rate: float = 100.0
    seed: int = 0
    users: int = 20_000
    pages: int = 1_000
    exponent: float = 1.1
    crawlers: int = 1
    malformed: float = 0.0


@dataclass(frozen=True, slots=True)
class Planted:
    """The known facts about the address of a crawler."""

    client: str
    kind: str
    agent: str
    first_ms: int
    last_ms: int
    requests: int


class Clicks:
    """The stream of a mix from `start_ms` on."""

    def __init__(self, mix: Mix, start_ms: int) -> None:
        self.mix, self.start_ms = mix, start_ms
        self.population = Population(np.random.default_rng([mix.seed, 0]), mix.users, mix.pages)
        self._crawlers = Crawlers(self.population, mix.seed, mix.crawlers)
        self._random = np.random.default_rng([mix.seed, 2])
        self._broken = np.random.default_rng([mix.seed, 3])
        popularity = 1 / np.arange(1, mix.pages + 1) ** mix.exponent
        self._zipf = np.cumsum(popularity) / popularity.sum()
        self._coming: dict[int, list[Array]] = defaultdict(list)
        self._campaigns: list[Campaign] = []
        self._taken_ms = start_ms

    def seconds(self) -> Iterator[Array]:
        """The requests of one second of event time after the other, without end."""
        for second in range(-WARM_UP_S, 0):
            self._people(second)
        second = 0
        while True:
            if self.mix.crawlers and second % PERIOD_S == 0:
                self._plant(second)
            self._people(second)
            parts = self._coming.pop(second, [])
            rows = np.concatenate(parts) if parts else np.empty((0, len(COLUMNS)), np.int64)
            second += 1
            self._taken_ms = self.start_ms + second * SECOND_MS
            yield rows[np.argsort(rows[:, TIME], kind="stable")]

    def encode(self, rows: Array) -> tuple[pa.Array, pa.Array]:
        """Keys (the client's address) and values (JSON) of requests."""
        people = self.population
        client = pa.array(people.clients).take(pa.array(rows[:, VISITOR]))
        values = pc.binary_join_element_wise(
            pa.repeat('{"time_ms":', len(rows)),
            pc.cast(pa.array(rows[:, TIME]), pa.string()),
            people.visitor_fragments().take(pa.array(rows[:, VISITOR])),
            people.user_fragments.take(pa.array(rows[:, USER])),
            people.page_fragments.take(pa.array(rows[:, PAGE])),
            people.referrer_fragments.take(pa.array(rows[:, REFERRER])),
            people.action_fragments.take(pa.array(rows[:, ACTION])),
            "",
        )
        if self.mix.malformed:
            broken = pa.array(self._broken.random(len(rows)) < self.mix.malformed)
            values = pc.if_else(broken, pc.utf8_slice_codeunits(values, 0, 40), values)
        return client, values

    def truth(self) -> list[Planted]:
        """The crawlers that have shown themselves so far."""
        found = []
        for campaign in self._campaigns:
            seen = campaign.requests[campaign.requests[:, TIME] < self._taken_ms]
            for who in campaign.visitors:
                times = seen[seen[:, VISITOR] == who, TIME]
                if len(times):
                    span = (int(times.min()), int(times.max()), len(times))
                    found.append(Planted(self.population.clients[who], campaign.kind, campaign.agent, *span))
        return found

    def _people(self, second: int) -> None:
        """The sessions that begin in a second."""
        random, people = self._random, self.population
        count = random.poisson(self.mix.rate * curve(self.start_ms / 1000 + second) / PAGES_PER_SESSION)
        if not count:
            return
        user = np.searchsorted(people.activity, random.random(count))
        pages = np.minimum(random.geometric(1 / PAGES_PER_SESSION, count), SESSION_PAGES_MAX)
        total = int(pages.sum())
        first = np.cumsum(pages) - pages
        pauses = np.minimum(random.lognormal(math.log(PAUSE_MEDIAN_MS), PAUSE_SIGMA, total), PAUSE_MAX_MS)
        pauses[first] = random.random(count) * SECOND_MS
        passed = np.cumsum(pauses)
        times = passed - np.repeat(passed[first] - pauses[first], pages)
        rows = np.empty((total, len(COLUMNS)), np.int64)
        rows[:, TIME] = self.start_ms + second * SECOND_MS + times.astype(np.int64)
        rows[:, VISITOR] = np.repeat(user, pages)
        rows[:, USER] = np.repeat(np.where(people.logged_in[user], user + 1, 0), pages)
        rows[:, PAGE] = self._pages(second, total)
        rows[:, ACTION] = random.choice(list(ACTION_SHARES), total, p=list(ACTION_SHARES.values()))
        self._log_in(rows, first, user)
        rows[1:, REFERRER] = np.where(random.random(total - 1) < DIRECT, 0, len(EXTERNAL) + rows[:-1, PAGE])
        rows[first, REFERRER] = random.choice(len(EXTERNAL), count, p=EXTERNAL_SHARES)
        self._place(rows)

    def _pages(self, second: int, count: int) -> Array:
        """Pages by Zipf's popularity, and now and then the one that is talked about."""
        pages = 1 + np.searchsorted(self._zipf, self._random.random(count))
        trend = 1 + (self.mix.seed * 31 + second // TREND_S * 7919) % self.mix.pages
        return np.where(self._random.random(count) < TREND_SHARE, trend, pages)

    def _log_in(self, rows: Array, first: Array, user: Array) -> None:
        """Some sessions begin with a login, which may be refused."""
        logins = first[self.population.logged_in[user] & (self._random.random(len(first)) < LOGINS)]
        rows[logins, PAGE] = LOGIN_PAGE
        rows[logins, ACTION] = np.where(self._random.random(len(logins)) < LOGINS_REFUSED, LOGIN_REFUSED, LOGIN)

    def _plant(self, second: int) -> None:
        campaigns = self._crawlers.campaigns(second // PERIOD_S, self.start_ms + second * SECOND_MS)
        for campaign in campaigns:
            self._place(campaign.requests)
        self._campaigns += campaigns

    def _place(self, rows: Array) -> None:
        """Puts requests into their seconds."""
        seconds = (rows[:, TIME] - self.start_ms) // SECOND_MS
        order = np.argsort(seconds, kind="stable")
        rows, seconds = rows[order], seconds[order]
        begins = np.flatnonzero(np.diff(seconds, prepend=seconds[0] - 1))
        for begin, end in zip(begins, [*begins[1:], len(rows)], strict=True):
            if (second := int(seconds[begin])) >= 0:
                self._coming[second].append(rows[begin:end])


def curve(epoch_s: float) -> float:
    """How busy a moment of the day (UTC) is: 1 in the mean, most in the evening, least before dawn."""
    return 1 + SWING * math.cos((epoch_s - PEAK_HOUR * 3600) / DAY_S * 2 * math.pi)
