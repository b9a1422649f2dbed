"""Run one node of a cluster with a configuration file.

The file is Kafka's server.properties. Format its directories first: penstock storage format.

examples:
  penstock server start conf/server.properties
  penstock server start conf/server.properties --override log.retention.hours=24 --log-format json
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from penstock.cli.common import add_action, add_actions, read_properties, run_action

if TYPE_CHECKING:
    from penstock.server.server import Server

SUMMARY = "run one node of a cluster with a configuration file"
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")

run = run_action


def register(parser: argparse.ArgumentParser) -> None:
    """Adds the command's actions."""
    actions = add_actions(parser)
    start_ = add_action(
        actions,
        "start",
        start,
        "run a node until Ctrl-C or SIGTERM, which stop it cleanly",
        "  penstock server start conf/server.properties",
    )
    start_.add_argument("file", metavar="FILE", help="the node's server.properties")
    start_.add_argument(
        "--override", action="append", default=[], metavar="NAME=VALUE", help="a setting over the file's; repeatable"
    )
    start_.add_argument("--strict", action="store_true", help="refuse unknown settings instead of warning")
    add_logging(start_)


def add_logging(parser: argparse.ArgumentParser, level: str = "INFO") -> None:
    """Adds --log-format and --log-level."""
    parser.add_argument("--log-format", choices=("text", "json"), default="text", help="of the log on stderr (text)")
    parser.add_argument("--log-level", choices=LEVELS, default=level, help=f"least level that is logged ({level})")


def start(arguments: argparse.Namespace) -> int:
    """Runs the node; returns the exit code."""
    import os

    from penstock import __version__
    from penstock.config.server import Settings
    from penstock.server.logs import configure, events
    from penstock.server.process import run as run_node

    configure(json_lines=arguments.log_format == "json", level=arguments.log_level)
    properties = read_properties(arguments.file, arguments.override)
    settings = Settings.from_properties(properties, strict=arguments.strict)
    logger = events("server")
    logger.info(f"Penstock {__version__} starts", node_id=settings.node_id, settings=arguments.file, pid=os.getpid())

    def ready(server: Server) -> None:
        logger.info("ready", metrics=server.http_address or "none")

    return run_node(settings, on_ready=ready)
