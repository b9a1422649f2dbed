"""Whether what a pipeline needs from outside is there: its brokers answer, and they have the topics that it reads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from penstock.client.client import Client
from penstock.config.nearest import did_you_mean
from penstock.errors import PenstockError
from penstock.pipelines.declaration import Pipeline, Problem
from penstock.pipelines.job import Option

TIMEOUT_MS = 5_000


def unreachable(pipelines: Sequence[Pipeline]) -> list[Problem]:
    """The brokers and topics named by pipelines that cannot be reached or do not exist."""
    problems = []
    for pipeline in pipelines:
        try:
            there = asyncio.run(_topics(pipeline))
        except (PenstockError, ValueError) as error:
            problems.append(Problem(str(pipeline.file), 0, f"[kafka] bootstrap: {error}"))
            continue
        wanted = list(topics_read(pipeline.job.options, pipeline.options))
        if pipeline.project is not None:
            sources = pipeline.project.sources.values()
            wanted += [(f"topic of source {each.name}", each.topic) for each in sources if each.topic is not None]
        for option, topic in wanted:
            if topic not in there:
                text = f"{option} is {topic}: there is no such topic at {pipeline.bootstrap}"
                problems.append(Problem(str(pipeline.file), 0, text + did_you_mean(topic, there)))
    return problems


async def _topics(pipeline: Pipeline) -> list[str]:
    bootstrap, security = pipeline.bootstrap, pipeline.security
    async with Client(bootstrap, client_id="penstock-validate", timeout_ms=TIMEOUT_MS, security=security) as client:
        return await client.topic_names()


def topics_read(options: Sequence[Option], values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(option, topic) of each topic that must be there."""
    for option in options:
        value = values.get(option.name)
        if value is None:
            continue
        if option.fields:
            for table in value:
                yield from topics_read(option.fields, table)
        elif option.reads:
            for topic in [value] if isinstance(value, str) else value:
                yield option.name, topic
