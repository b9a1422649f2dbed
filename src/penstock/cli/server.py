"""Run one node of a cluster with a configuration file.

The file is Kafka's server.properties. Format its directories first: penstock storage format.

examples:
  penstock server start conf/server.properties
  penstock server start conf/server.properties --override log.retention.hours=24 --log-format json
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from penstock.cli.common import add_action, add_actions, add_flag, add_pairs, read_properties, run_action

if TYPE_CHECKING:
    from penstock.config.server import Settings
    from penstock.server.server import Server

SUMMARY = "run one node of a cluster with a configuration file"
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")

run = run_action


def register(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    start_ = add_action(actions, "start", start, "run a node until Ctrl-C or SIGTERM, which stop it cleanly").examples(
        "penstock server start conf/server.properties"
    )
    start_.add_argument("file", metavar="FILE", help="the node's server.properties")
    add_pairs(start_, "--override", "setting that replaces the file's")
    add_flag(start_, "--strict", "refuse unknown settings instead of warning")
    add_logging(start_)
    container = add_action(
        actions,
        "container",
        start_container,
        "run a node with settings from the environment (KAFKA_*), formatting new directories",
    ).examples("KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://broker:9092 penstock server container conf/server.properties")
    container.add_argument("file", metavar="FILE", help="settings for what the environment does not set")
    add_logging(container)


def add_logging(parser: argparse.ArgumentParser, level: str = "INFO") -> None:
    """Adds --log-format and --log-level."""
    parser.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="format of the log on stderr (default: text)"
    )
    parser.add_argument(
        "--log-level", choices=LEVELS, default=level, help=f"least severe level to log (default: {level})"
    )


def start(arguments: argparse.Namespace) -> int:
    """Runs the node; returns the exit code."""
    from penstock.config.server import Settings
    from penstock.server.logs import configure

    configure(json_lines=arguments.log_format == "json", level=arguments.log_level)
    properties = read_properties(arguments.file, arguments.override)
    return run_with(Settings.from_properties(properties, strict=arguments.strict), arguments.file)


def start_container(arguments: argparse.Namespace) -> int:
    """Formats what is new, and runs the node; returns the exit code."""
    import os

    from penstock.cli.container import prepare, properties_of
    from penstock.client.property_files import provided
    from penstock.config.server import Settings
    from penstock.server.logs import configure

    configure(json_lines=arguments.log_format == "json", level=arguments.log_level)
    settings = Settings.from_properties(provided(properties_of(os.environ, read_properties(arguments.file))))
    prepare(settings, os.environ)
    return run_with(settings, "the environment")


def run_with(settings: Settings, source: str) -> int:
    """Runs the node; returns the exit code. `source` is where its settings come from."""
    import os

    from penstock import __version__
    from penstock.events import events
    from penstock.server.process import run as run_node

    logger = events("server")
    logger.info(f"Penstock {__version__} starts", node_id=settings.node_id, settings=source, pid=os.getpid())

    def ready(server: Server) -> None:
        logger.info("ready", metrics=server.http_address or "none")
        if settings.is_broker:
            logger.info("Transitioning from RECOVERY to RUNNING.")  # what those who start containers of Kafka wait for

    return run_node(settings, on_ready=ready)
