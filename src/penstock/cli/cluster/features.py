"""`penstock cluster features`: the levels that a cluster works at, and a step up when all nodes are new, or down."""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.cli.cluster.words import ids_text
from penstock.cli.common import with_client
from penstock.cli.output import print_json, print_table
from penstock.errors import UsageError
from penstock.metadata.features import (
    METADATA_VERSION,
    METADATA_VERSIONS,
    UnsupportedFeatureError,
    metadata_version_named,
)

if TYPE_CHECKING:
    from penstock.client.client import Client
    from penstock.client.features import FeatureState, UpgradeType

TOLD_TIMEOUT_S = 10.0
LOOK_EVERY_S = 0.1


def features_action(arguments: argparse.Namespace) -> int:
    wanted = dict(parse_level(text) for text in arguments.levels)
    if not wanted and (arguments.dry_run or arguments.unsafe):
        raise UsageError("say which level to set: NAME=LEVEL, such as metadata.version=4.3")

    async def job(client: Client) -> int:
        from penstock.client.cluster import describe_cluster
        from penstock.client.features import describe_features, update_features

        brokers = (await describe_cluster(client)).brokers
        live = [broker.id for broker in brokers if not broker.fenced]
        states = await describe_features(client, live)
        if not wanted:
            tell(arguments, states, [broker.id for broker in brokers if broker.fenced])
            return 0
        updates = steps(states, wanted, unsafe=arguments.unsafe)
        if updates:
            await update_features(client, updates, validate_only=arguments.dry_run)
        if updates and not arguments.dry_run:
            await told_to_all(client, live, {name: level for name, (level, _) in updates.items()})
        tell_steps(arguments, states, updates)
        return 0

    return with_client(arguments, job)


def parse_level(text: str) -> tuple[str, int]:
    """`NAME=LEVEL`; a level of metadata.version may have its name, or be a release. Raises UsageError."""
    name, equals, level = text.partition("=")
    if not equals or not name or not level:
        raise UsageError(f"{text}: it must be NAME=LEVEL, such as metadata.version=4.3")
    if name == METADATA_VERSION and not level.isdecimal():
        try:
            return name, metadata_version_named(level).level
        except UnsupportedFeatureError as error:
            raise UsageError(f"{text}: {error}") from None
    if not level.isdecimal():
        raise UsageError(f"{text}: the level must be a number")
    return name, int(level)


def steps(
    states: Sequence[FeatureState], wanted: dict[str, int], *, unsafe: bool
) -> dict[str, tuple[int, UpgradeType]]:
    """The requested levels that differ from the present ones, as upgrades and downgrades. Raises UsageError for an
    unknown feature."""
    from penstock.client.features import UpgradeType

    current = {state.name: state.level for state in states}
    down = UpgradeType.UNSAFE_DOWNGRADE if unsafe else UpgradeType.SAFE_DOWNGRADE
    found = {}
    for name, level in wanted.items():
        if name not in current:
            raise UsageError(f"there is no feature {name}: the cluster has {', '.join(sorted(current))}")
        if level != current[name]:
            found[name] = (level, UpgradeType.UPGRADE if level > current[name] else down)
    return found


def level_text(name: str, level: int) -> str:
    """A level as people write it."""
    version = METADATA_VERSIONS.get(level) if name == METADATA_VERSION else None
    return str(level) if version is None else f"{level} ({version.name})"


def tell(arguments: argparse.Namespace, states: Sequence[FeatureState], away: Sequence[int]) -> None:
    """The levels, as a table or in JSON."""
    if arguments.json:
        print_json({"features": [state_json(state) for state in states], "fenced": away})
        return
    rows = [(each.name, level_text(each.name, each.level), f"{each.lowest} to {each.highest}") for each in states]
    print_table(("feature", "level", "all brokers support"), rows)
    for state in states:
        if state.name == METADATA_VERSION and state.level < state.highest:
            print(f"{state.name} can go to {level_text(state.name, state.highest)}")
    if away:
        print(f"brokers that are away were not asked: {ids_text(away)}")


def state_json(state: FeatureState) -> dict[str, Any]:
    """One feature in a JSON object."""
    return {"name": state.name, "level": state.level, "lowest": state.lowest, "highest": state.highest}


def tell_steps(
    arguments: argparse.Namespace, states: Sequence[FeatureState], updates: dict[str, tuple[int, UpgradeType]]
) -> None:
    """Prints the changes that were made, or would be."""
    before = {state.name: state.level for state in states}
    if arguments.json:
        changes = [{"name": name, "from": before[name], "to": level} for name, (level, _) in updates.items()]
        print_json({"state": "possible" if arguments.dry_run else "done", "changes": changes})
        return
    for name, (level, _) in updates.items():
        verb = "could go" if arguments.dry_run else "went"
        print(f"{name} {verb} from {level_text(name, before[name])} to {level_text(name, level)}")
    if not updates:
        print("nothing to change")


async def told_to_all(client: Client, node_ids: Sequence[int], levels: dict[str, int]) -> None:
    """Waits until every broker knows the levels, up to TOLD_TIMEOUT_S for a slow one."""
    from penstock.client.features import describe_features

    deadline_s = time.monotonic() + TOLD_TIMEOUT_S
    while time.monotonic() < deadline_s:
        known = [await describe_features(client, [node_id]) for node_id in node_ids]
        found = [{state.name: state.level for state in states} for states in known if states]
        if all(each.get(name, 0) == level for each in found for name, level in levels.items()):
            return
        await asyncio.sleep(LOOK_EVERY_S)
