"""Generated visitors of a site, in a hurry: the demo's stream of clicks, with crawlers planted in it.

Twenty minutes of event time, until the demo's start, pass within it; so windows of minutes close within its minute.
"""

from __future__ import annotations

import time

import numpy as np

from penstock.client.client import Client
from penstock.pipelines.demo.publisher import Publishing
from penstock.pipelines.generate.clicks import Array, Clicks, Mix, Planted
from penstock.pipelines.generate.sending import Sending

EVENT_SECONDS = 1200
RATE = 20.0
SEED = 7
USERS, PAGES = 5_000, 400
PERIOD_S = 0.5
SECONDS_PER_SEND = 10


class Visitors(Publishing):
    """Publishes clicks, at a pace that ends the twenty minutes of event time after `seconds`."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, seconds: float) -> None:
        super().__init__(bootstrap, topic, partitions)
        self.speed = max(1.0, EVENT_SECONDS / seconds)
        start_ms = int(time.time() * 1000) - EVENT_SECONDS * 1000
        self.clicks = Clicks(Mix(rate=RATE, seed=SEED, users=USERS, pages=PAGES), start_ms)

    def planted(self) -> list[Planted]:
        """The crawlers among them so far."""
        return self.clicks.truth()

    async def _publish(self, client: Client) -> None:
        sending = Sending(client, self.clicks, self.topic, self._partitions)
        seconds = self.clicks.seconds()
        began, taken = time.monotonic(), 0
        while not await self._stopped_after(PERIOD_S):
            passed = time.monotonic() - began
            due = int(min(passed * self.speed, max(passed, EVENT_SECONDS)))  # none is of a time to come
            while taken < due:
                some: list[Array] = [next(seconds) for _ in range(min(SECONDS_PER_SEND, due - taken))]
                taken += len(some)
                await sending.send(np.concatenate(some))
                self.published = sending.sent
