"""Crawlers and abusers that are planted in the clickstream, of four kinds, each known by something else:

- `scraper`: one address that asks for page after page, several a second.
- `regular`: one address, slow, but at intervals that no person keeps.
- `distributed`: dozens of addresses, each slow and irregular, which share one agent and go over the whole site.
- `login`: one address that tries user after user at the login page.

Each campaign is made whole when its period begins: which visitors, and all of their requests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.pipelines.generate.population import (
    COUNTRIES,
    EXTERNAL,
    LIBRARIES,
    LOGIN,
    LOGIN_PAGE,
    LOGIN_REFUSED,
    VIEW,
    Population,
    address,
)  # fmt: skip

Array = np.ndarray[Any, Any]

PERIOD_S = 600
"""A campaign of each kind begins in the first half of each period of event time."""


@dataclass(frozen=True, slots=True)
class Campaign:
    """A planted abuse: its visitors, and its requests as rows of `clicks.COLUMNS` in order of time."""

    kind: str
    visitors: tuple[int, ...]
    agent: str
    requests: Array


@dataclass(slots=True)
class Crawlers:
    """Makes campaigns. The same seed makes the same ones, whatever people do."""

    population: Population
    seed: int
    each: int
    made: int = 0

    def campaigns(self, period: int, start_ms: int) -> list[Campaign]:
        """The campaigns that begin in a period, which itself begins at `start_ms`."""
        random = np.random.default_rng([self.seed, 1, period])
        return [
            kind(self, random, start_ms + int(random.integers(0, PERIOD_S * 1000 // 2)))
            for kind in KINDS.values()
            for _ in range(self.each)
        ]

    def visitor(self, random: np.random.Generator, agent: str) -> int:
        """A new address with an agent, somewhere."""
        number = self.population.users + self.made
        self.made += 1
        return self.population.add(address(10 << 24 | number), str(random.choice(list(COUNTRIES))), agent)

    def agent(self, random: np.random.Generator) -> str:
        """A usual browser's name, or a library's that does not hide."""
        if random.random() < 0.3:
            return str(random.choice(LIBRARIES))
        return self.population.agents[int(random.integers(0, 40))]


def scraper(crawlers: Crawlers, random: np.random.Generator, start_ms: int) -> Campaign:
    agent = crawlers.agent(random)
    who = crawlers.visitor(random, agent)
    times = poisson(random, start_ms, random.uniform(5, 15), random.uniform(180, 420))
    first = random.integers(0, crawlers.population.pages)
    pages = 1 + (first + np.arange(len(times))) % crawlers.population.pages
    return Campaign("scraper", (who,), agent, rows(times, who, pages))


def regular(crawlers: Crawlers, random: np.random.Generator, start_ms: int) -> Campaign:
    agent = crawlers.agent(random)
    who = crawlers.visitor(random, agent)
    interval_ms = random.uniform(8_000, 20_000)
    count = int(random.uniform(480, 600) * 1000 / interval_ms)
    times = start_ms + (np.arange(count) * interval_ms + random.normal(0, 0.02 * interval_ms, count)).astype(np.int64)
    pages = random.integers(1, crawlers.population.pages + 1, count)
    referrers = np.where(random.random(count) < 0.5, 0, len(EXTERNAL) + np.roll(pages, 1))
    return Campaign("regular", (who,), agent, rows(np.maximum(times, start_ms), who, pages, referrers=referrers))


def distributed(crawlers: Crawlers, random: np.random.Generator, start_ms: int) -> Campaign:
    agent = f"Mozilla/5.0 (Windows NT 6.1; rv:52.{random.integers(1, 999)}) Gecko/20100101 Firefox/52.0"
    visitors = tuple(crawlers.visitor(random, agent) for _ in range(random.integers(30, 60)))
    seconds, per_second = random.uniform(300, 540), 1 / random.uniform(6, 10)
    parts = []
    for who in visitors:
        times = poisson(random, start_ms + int(random.integers(0, 5_000)), per_second, seconds)
        pages = random.integers(1, crawlers.population.pages + 1, len(times))
        referrers = np.where(random.random(len(times)) < 0.7, 0, len(EXTERNAL) + np.roll(pages, 1))
        parts.append(rows(times, who, pages, referrers=referrers))
    requests = np.concatenate(parts)
    return Campaign("distributed", visitors, agent, requests[np.argsort(requests[:, 0], kind="stable")])


def login(crawlers: Crawlers, random: np.random.Generator, start_ms: int) -> Campaign:
    agent = crawlers.agent(random)
    who = crawlers.visitor(random, agent)
    times = poisson(random, start_ms, random.uniform(0.5, 2), random.uniform(120, 400))
    users = random.integers(1, crawlers.population.users + 1, len(times))
    actions = np.where(random.random(len(times)) < 0.01, LOGIN, LOGIN_REFUSED)
    pages = np.full(len(times), LOGIN_PAGE)
    return Campaign("login", (who,), agent, rows(times, who, pages, users=users, actions=actions))


KINDS: dict[str, Callable[[Crawlers, np.random.Generator, int], Campaign]] = {
    "scraper": scraper,
    "regular": regular,
    "distributed": distributed,
    "login": login,
}


def poisson(random: np.random.Generator, start_ms: int, per_second: float, seconds: float) -> Array:
    """Times of requests that come at random; at least two."""
    count = max(2, int(per_second * seconds))
    gaps_ms = random.exponential(1000 / per_second, count)
    return start_ms + np.cumsum(gaps_ms).astype(np.int64)


def rows(
    times: Array,
    visitor: int,
    pages: Array,
    *,
    referrers: Array | int = 0,
    users: Array | int = 0,
    actions: Array | int = VIEW,
) -> Array:
    """Requests as rows of `clicks.COLUMNS`."""
    columns = np.broadcast_arrays(times, visitor, users, pages, referrers, actions)
    return np.stack(columns, axis=1).astype(np.int64)
