"""What `penstock dev --guardian` runs as a process beside the brokers.

    python -m penstock.cli.dev_guardian_node guardian.properties WARNING

It says on its standard output, a line of JSON each, when it listens and what has come of a line on its standard input,
which names a cluster to register. At the end of its input it stops.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import Any
from uuid import UUID

from penstock.cli.common import new_random, read_properties
from penstock.config.guardian import GuardianSettings
from penstock.errors import PenstockError
from penstock.guardian.client import GuardianClient
from penstock.guardian.service import GuardianServer
from penstock.server.logs import configure
from penstock.server.process import run_server

CLUSTERS = "/v1/clusters"


def main(path: str, level: str) -> int:
    """Runs the node; returns the exit code."""
    configure(json_lines=False, level=level)
    settings = GuardianSettings.from_properties(read_properties(path))
    tasks: set[asyncio.Task[None]] = set()

    def ready(server: GuardianServer) -> None:
        say({"address": server.address})
        task = asyncio.ensure_future(follow(server.address))
        tasks.add(task)

    try:
        return run_server(settings.node, lambda: GuardianServer(settings), ready)
    except PenstockError as error:
        print(f"Guardian: {error}", file=sys.stderr, flush=True)
        return 1


async def follow(address: str) -> None:
    """Registers the clusters that are named on the standard input; stops this process at its end."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        wanted = json.loads(line)
        try:
            await register(GuardianClient(address), wanted["name"], wanted["bootstrap"])
        except PenstockError as error:
            say({"error": str(error)})
        else:
            say({"registered": wanted["name"]})
    os.kill(os.getpid(), signal.SIGTERM)


async def register(client: GuardianClient, name: str, bootstrap: list[str]) -> None:
    """Registers a cluster, anew if it has been elsewhere before. Raises PenstockError."""
    found = await call(client, "GET", CLUSTERS)
    known = {each["name"]: each["bootstrap"] for each in found["clusters"]}
    if known.get(name) == bootstrap:
        return
    if name in known:
        await call(client, "DELETE", f"{CLUSTERS}/{name}")
    await call(client, "POST", CLUSTERS, {"name": name, "kind": "penstock", "bootstrap": bootstrap})


async def call(client: GuardianClient, method: str, path: str, body: Any = None) -> dict[str, Any]:
    """Makes a call. Raises PenstockError for what is refused."""
    request_id = UUID(int=new_random().getrandbits(128), version=4)
    answer = await client.call(method, path, body, request_id=request_id)
    if answer.status >= 400:
        raise PenstockError(str(answer.body.get("error", f"Guardian answers {answer.status}")))
    return answer.body


def say(what: dict[str, Any]) -> None:
    """A line on the standard output."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
