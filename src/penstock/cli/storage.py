"""Format the log directories of a node, and inspect them.

The result is the same as that of Kafka's own storage tool: either can start on what the other has formatted.

examples:
  penstock storage format --cluster-id $(penstock storage random-uuid) --config conf/server.properties --standalone
  penstock storage info --config conf/server.properties
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.cli.common import add_action, add_actions, add_json, new_random, read_properties, run_action
from penstock.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from penstock.config.server import Settings
    from penstock.log.meta_properties import MetaProperties

SUMMARY = "format the log directories of a node, and inspect them"

run = run_action


def register(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    format_ = add_action(actions, "format", format_action, "format the log directories of a node").examples(
        "penstock storage format -t XQ3xXQ3xRfWTb1cQ8RBv5A -c conf/server.properties --standalone",
        "penstock storage format -t XQ3xXQ3xRfWTb1cQ8RBv5A -c conf/server.properties --release-version 4.2",
    )
    format_.add_argument(
        "-t", "--cluster-id", required=True, metavar="ID", help="id of the cluster; random-uuid makes one"
    )
    add_config(format_)
    format_.add_argument(
        "-s", "--standalone", action="store_true", help="start a dynamic quorum with this node as its only voter"
    )
    format_.add_argument(
        "-N", "--no-initial-controllers", action="store_true", help="this controller will join a dynamic quorum later"
    )
    format_.add_argument(
        "-f", "--feature", action="append", default=[], metavar="NAME=LEVEL", help="feature level; repeatable"
    )
    format_.add_argument("-r", "--release-version", metavar="VERSION", help="metadata version, such as 4.2 or 4.3-IV0")
    format_.add_argument(
        "-g", "--ignore-formatted", action="store_true", help="leave formatted directories as they are"
    )
    format_.add_argument(
        "-S",
        "--add-scram",
        action="append",
        default=[],
        metavar="USER",
        help="a user from the first start on, as SCRAM-SHA-256=[name=alice,password=...]; repeatable",
    )
    info = add_action(actions, "info", info_action, "show the log directories and the cluster they belong to").examples(
        "penstock storage info -c conf/server.properties"
    )
    add_config(info)
    add_json(info)
    add_action(actions, "random-uuid", random_uuid, "print a random id for a new cluster").examples(
        "penstock storage random-uuid"
    )


def add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-c", "--config", required=True, metavar="FILE", help="the node's server.properties")


def format_action(arguments: argparse.Namespace) -> int:
    """Formats, and prints what was formatted as Kafka's tool does."""
    import time

    from penstock.cli.add_scram import scram_record
    from penstock.config.server import Settings
    from penstock.metadata.format import FormatRequest
    from penstock.server.directories import controller_endpoint, format_for

    settings = Settings.from_properties(read_properties(arguments.config))
    check_quorum(settings, standalone=arguments.standalone, joins=arguments.no_initial_controllers)
    request = FormatRequest(
        cluster_id=arguments.cluster_id,
        node_id=settings.node_id,
        metadata_directory=settings.metadata_directory,
        release_version=arguments.release_version,
        feature_levels=dict(feature(text) for text in arguments.feature),
        standalone=arguments.standalone,
        controller=controller_endpoint(settings) if arguments.standalone else None,
        ignore_formatted=arguments.ignore_formatted,
        users=[scram_record(text, new_random()) for text in arguments.add_scram],
    )
    formatted = format_for(settings, request, new_random(), time.time_ns() // 1_000_000)
    for each in formatted:
        print(f"Formatting {each.kind} {each.path} with metadata.version {each.metadata_version}.")
    if not formatted:
        print("All of the log directories are already formatted.")
    return 0


def check_quorum(settings: Settings, *, standalone: bool, joins: bool = False) -> None:
    """Raises ConfigError when it is not clear who the first voters are, or the options contradict the settings."""
    if joins and (standalone or settings.voters):
        raise ConfigError(
            "--no-initial-controllers is for a controller that joins a dynamic quorum: leave --standalone and "
            "controller.quorum.voters out"
        )
    if standalone and not settings.is_controller:
        raise ConfigError("--standalone is for a controller: process.roles has no controller")
    if standalone and settings.voters:
        raise ConfigError("--standalone makes a dynamic quorum: leave controller.quorum.voters out of the settings")
    if settings.is_controller and not standalone and not settings.voters and not joins:
        raise ConfigError(
            "controller.quorum.voters is not set, so the first voters are not known\n"
            "  --standalone makes this node the first voter of a dynamic quorum\n"
            "  --no-initial-controllers is for one that joins such a quorum and is added to it later"
        )


def feature(text: str) -> tuple[str, int]:
    """NAME=LEVEL as a pair. Raises UsageError."""
    name, equals, level = text.partition("=")
    if not equals or not name or not level.isdecimal():
        raise UsageError(f"--feature {text}: it must be NAME=LEVEL, such as metadata.version=30")
    return name, int(level)


def random_uuid(arguments: argparse.Namespace) -> int:
    """Prints a new id."""
    from penstock.log.meta_properties import new_directory_id, uuid_text

    print(uuid_text(new_directory_id(new_random())))
    return 0


@dataclass(frozen=True, slots=True)
class Found:
    """A log directory: its meta.properties, or what is wrong with it."""

    path: str
    meta: MetaProperties | None
    problem: str = ""


def info_action(arguments: argparse.Namespace) -> int:
    """Prints the log directories; returns 1 if something is wrong with one of them."""
    from penstock.config.server import Settings

    settings = Settings.from_properties(read_properties(arguments.config))
    paths = dict.fromkeys((*settings.directories, settings.metadata_directory))
    found = [look_into(path) for path in sorted(paths)]
    problems = [f"{each.path} {each.problem}" for each in found if each.problem]
    known = [each.meta for each in found if each.meta is not None]
    problems += mismatches(known)
    if arguments.json:
        print_info_json(found, problems)
    else:
        print_info(found, problems)
    return 1 if problems else 0


def look_into(path: str) -> Found:
    """Describes one log directory."""
    import os

    from penstock.log.meta_properties import FILE, parse_meta_properties

    if not os.path.isdir(path):
        return Found(path, None, "is not a directory" if os.path.exists(path) else "does not exist")
    try:
        with open(f"{path}/{FILE}", "rb") as file:
            return Found(path, parse_meta_properties(file.read(), f"{path}/{FILE}"))
    except FileNotFoundError:
        return Found(path, None, "is not formatted")
    except (OSError, ConfigError) as error:
        return Found(path, None, f"cannot be read: {error}")


def mismatches(known: list[MetaProperties]) -> list[str]:
    """In what directories that one node uses disagree."""
    problems = []
    if len({each.cluster_id for each in known}) > 1:
        problems.append("the directories belong to different clusters")
    if len({each.node_id for each in known}) > 1:
        problems.append("the directories belong to different nodes")
    return problems


def described(meta: MetaProperties) -> dict[str, object]:
    from penstock.log.meta_properties import VERSION, uuid_text

    entries: dict[str, object] = {"cluster.id": meta.cluster_id}
    if meta.directory_id is not None:
        entries["directory.id"] = uuid_text(meta.directory_id)
    return {**entries, "node.id": meta.node_id, "version": VERSION}


def print_info_json(found: list[Found], problems: list[str]) -> None:
    from penstock.cli.output import print_json

    directories = [
        {"path": each.path, "problem": each.problem or None, **(described(each.meta) if each.meta else {})}
        for each in found
    ]
    print_json({"directories": directories, "problems": problems})


def print_info(found: list[Found], problems: list[str]) -> None:
    readable = [each for each in found if each.meta is not None]
    if readable:
        print("Found log directory:" if len(readable) == 1 else "Found log directories:")
    for each in readable:
        assert each.meta is not None
        entries = ", ".join(f"{name}={value}" for name, value in described(each.meta).items())
        print(f"  {each.path}  {{{entries}}}")
    if problems:
        print("Found problem:" if len(problems) == 1 else "Found problems:")
    for problem in problems:
        print(f"  {problem}")
