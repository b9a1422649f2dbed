"""Format and run the nodes of Guardian."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from penstock.cli.common import Actions, add_action, add_json, add_option, new_random, read_properties
from penstock.cli.server import add_logging

if TYPE_CHECKING:
    from penstock.guardian.service import GuardianServer


def register(actions: Actions[argparse.ArgumentParser]) -> None:
    """Adds the actions on nodes."""
    formatting = add_action(actions, "format", format_action, "format the directory of a Guardian node").examples(
        "penstock guardian format conf/guardian-1.properties --guardian-id $(penstock storage random-uuid)"
    )
    formatting.add_argument("file", metavar="FILE", help="the node's properties")
    add_option(formatting, "--guardian-id", "ID", "id of this Guardian, the same for all of its nodes; one alone has a "
               "new one without it")  # fmt: skip
    add_json(formatting)
    starting = add_action(actions, "start", start, "run a Guardian node until Ctrl-C or SIGTERM").examples(
        "penstock guardian start conf/guardian-1.properties"
    )
    starting.add_argument("file", metavar="FILE", help="the node's properties")
    add_logging(starting)


def format_action(arguments: argparse.Namespace) -> int:
    """Formats, and prints what the directory is now."""
    from penstock.cli.output import print_json
    from penstock.config.guardian import GuardianSettings
    from penstock.guardian.service import format_node

    settings = GuardianSettings.from_properties(read_properties(arguments.file))
    identity = format_node(settings, arguments.guardian_id, new_random())
    path = settings.penstock_guardian_data_dir
    if arguments.json:
        print_json({"guardian_id": identity.guardian_id, "node_id": identity.node_id, "directory": path})
    else:
        print(f"Formatted {path} for node {identity.node_id} of Guardian {identity.guardian_id}.")
    return 0


def start(arguments: argparse.Namespace) -> int:
    """Runs the node; returns the exit code."""
    from penstock import __version__
    from penstock.config.guardian import GuardianSettings
    from penstock.events import events
    from penstock.guardian.service import GuardianServer
    from penstock.server.logs import configure
    from penstock.server.process import run_server

    configure(json_lines=arguments.log_format == "json", level=arguments.log_level)
    settings = GuardianSettings.from_properties(read_properties(arguments.file))
    logger = events("guardian")
    node_id = settings.penstock_guardian_node_id
    logger.info(f"Penstock {__version__} Guardian starts", node_id=node_id, settings=arguments.file, pid=os.getpid())

    def ready(server: GuardianServer) -> None:
        metrics, rest = server.http_address or "none", server.rest_address or "none"
        logger.info("ready", address=server.address, metrics=metrics, rest=rest)

    return run_server(settings.node, lambda: GuardianServer(settings), ready)
