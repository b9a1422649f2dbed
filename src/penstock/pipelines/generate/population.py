"""The visitors, pages and agents of the synthetic clickstream, as tables of JSON fragments.

A record's value is joined from a few fragments, each looked up by a number, so that no Python object is made a record:

    {"time_ms":1800000000000,"client":"10.3.7.1","country":"DE","agent":"…","user":"u17","page":"/p/4",
     "referrer":"https://shop.example/p/9","action":"view","status":200}

`user` is null for visitors who are not logged in, `referrer` for requests without one.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

Array = np.ndarray[Any, Any]

SITE = "https://shop.example"
LOGIN_PAGE = 0
"""Number of the page `/login`; the others are `/p/1` and so on."""
COUNTRIES = {
    "US": 24, "IN": 14, "DE": 9, "BR": 8, "GB": 7, "FR": 6, "JP": 6, "MX": 4, "IT": 4, "ES": 4, "NL": 3, "PL": 3,
    "CA": 3, "KR": 2, "SE": 2, "CH": 1, "AT": 1, "PT": 1, "NO": 1, "NZ": 1,
}  # fmt: skip
EXTERNAL = (
    None,
    "https://search.example/",
    "https://social.example/feed",
    "https://news.example/",
    "https://mail.example/",
)
EXTERNAL_SHARES = (0.35, 0.35, 0.15, 0.1, 0.05)
"""Where sessions come from; None is a visit without a referrer."""
ACTIONS = (
    ("view", 200), ("click", 200), ("search", 200), ("view", 404), ("view", 500), ("login", 200), ("login", 401),
)  # fmt: skip
VIEW, CLICK, SEARCH, NOT_FOUND, FAILED, LOGIN, LOGIN_REFUSED = range(len(ACTIONS))
SYSTEMS = (
    "Windows NT 10.0; Win64; x64",
    "Macintosh; Intel Mac OS X 10_15_7",
    "X11; Linux x86_64",
    "iPhone",
    "Android 15",
)
BROWSERS = tuple(f"{name}/{version}.0" for version in range(140, 128, -1) for name in ("Chrome", "Firefox", "Safari"))
LIBRARIES = ("python-requests/2.32.3", "Go-http-client/2.0", "curl/8.9.1", "Scrapy/2.12")
OFFICE_CLIENTS = 20
OFFICE_SHARE = 0.03
"""Share of the users who sit behind one of the few addresses of offices: busy clients that are no crawlers."""
USERS_LOGGED_IN = 0.7


class Population:
    """The visitors, and the fragments of the records they send.

    Args:
        random: drawn from once, at the start.
        users: how many people there are.
        pages: how many pages the site has, `/login` not counted.
    """

    def __init__(self, random: np.random.Generator, users: int, pages: int) -> None:
        self.users, self.pages = users, pages
        agents = agent_names()
        popularity = 1 / np.arange(1, len(agents) + 1) ** 1.2
        self.agents = agents
        agent = random.choice(len(agents), users, p=popularity / popularity.sum())
        weights = np.array(list(COUNTRIES.values()), float)
        country = random.choice(len(COUNTRIES), users, p=weights / weights.sum())
        self.clients = self._addresses(random)
        names = list(COUNTRIES)
        self._visitors = [
            visitor(self.clients[user], names[country[user]], agents[agent[user]]) for user in range(users)
        ]
        self.logged_in = random.random(users) < USERS_LOGGED_IN
        activity = random.lognormal(0.0, 1.0, users)
        self.activity = np.cumsum(activity) / activity.sum()
        self._table: pa.Array | None = None
        self.user_fragments = pa.array([',"user":null', *(f',"user":"u{user}"' for user in range(users))])
        paths = ["/login", *(f"/p/{page}" for page in range(1, pages + 1))]
        self.page_fragments = pa.array([f',"page":"{path}"' for path in paths])
        referrers = [*EXTERNAL, *(SITE + path for path in paths)]
        self.referrer_fragments = pa.array([f',"referrer":{json.dumps(referrer)}' for referrer in referrers])
        self.action_fragments = pa.array([f',"action":"{action}","status":{status}}}' for action, status in ACTIONS])

    @property
    def visitors(self) -> int:
        """How many visitors there are: people, then crawlers."""
        return len(self._visitors)

    def visitor_fragments(self) -> pa.Array:
        """Address, country and agent of each visitor."""
        if self._table is None:
            self._table = pa.array(self._visitors)
        return self._table

    def add(self, client: str, country: str, agent: str) -> int:
        """Adds a visitor who is not one of the people; returns its number."""
        self._visitors.append(visitor(client, country, agent))
        self.clients.append(client)
        self._table = None
        return len(self._visitors) - 1

    def _addresses(self, random: np.random.Generator) -> list[str]:
        own = random.permutation(self.users)
        office = np.where(random.random(self.users) < OFFICE_SHARE, random.integers(0, OFFICE_CLIENTS, self.users), -1)
        return [
            f"192.0.2.{office[user]}" if office[user] >= 0 else address(10 << 24 | int(own[user]))
            for user in range(self.users)
        ]


def visitor(client: str, country: str, agent: str) -> str:
    return f',"client":"{client}","country":"{country}","agent":"{agent}"'


def address(number: int) -> str:
    """An IPv4 address as text."""
    return ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))


def agent_names() -> list[str]:
    """The agents that people use, the usual ones first."""
    return [f"Mozilla/5.0 ({system}) {browser}" for browser in BROWSERS for system in SYSTEMS]
