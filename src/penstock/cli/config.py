"""Check a configuration file without starting anything.

examples:
  penstock config check conf/server.properties
  penstock config check conf/server.properties --json
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from penstock.cli.common import add_action, add_actions, add_json, read_properties, run_action

if TYPE_CHECKING:
    from penstock.config.server import Settings

SUMMARY = "check a configuration file without starting anything"

run = run_action


def register(parser: argparse.ArgumentParser) -> None:
    """Adds the command's actions."""
    actions = add_actions(parser)
    check = add_action(
        actions,
        "check",
        check_action,
        "say whether a server.properties is right, what is odd in it, and what it comes to",
        "  penstock config check conf/server.properties --override log.retention.hours=24",
    )
    check.add_argument("file", metavar="FILE", help="the node's server.properties")
    check.add_argument(
        "--override", action="append", default=[], metavar="NAME=VALUE", help="a setting over the file's; repeatable"
    )
    check.add_argument("--strict", action="store_true", help="unknown settings are errors")
    add_json(check)


def check_action(arguments: argparse.Namespace) -> int:
    """Prints what the file comes to. Raises ConfigError, with file and line, for what is wrong."""
    from penstock.cli.output import YELLOW, paint, print_json
    from penstock.config.server import Settings

    settings = Settings.from_properties(read_properties(arguments.file, arguments.override), strict=arguments.strict)
    values = effective(settings)
    if arguments.json:
        print_json({"settings": values, "warnings": settings.warnings, "ignored": settings.ignored})
        return 0
    for warning in settings.warnings:
        print(f"{paint('warning:', YELLOW)} {warning}")
    if settings.ignored:
        print(f"ignored, as they mean nothing here: {', '.join(settings.ignored)}")
    roles = " and ".join(settings.process_roles)
    print(f"{arguments.file} is right: node {settings.node_id}, {roles}")
    for name, value in values.items():
        print(f"  {name} = {value}")
    return 0


def effective(settings: Settings) -> dict[str, str | None]:
    """The settings that differ from their defaults, as they are printed; secrets hidden."""
    return {
        setting.name: setting.type.redacted(getattr(settings, setting.attribute))
        for setting in sorted(settings.declared(), key=lambda setting: setting.name)
        if getattr(settings, setting.attribute) != setting.default
    }
