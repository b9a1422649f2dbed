"""Check a configuration file without starting anything.

examples:
  penstock config check conf/server.properties
  penstock config check conf/server.properties --json
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from penstock.cli.common import add_action, add_actions, add_flag, add_json, add_pairs, read_properties, run_action
from penstock.errors import ConfigError, ConfigErrors

if TYPE_CHECKING:
    from penstock.config.server import Settings

SUMMARY = "check a configuration file without starting anything"

run = run_action


def register(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    check = add_action(
        actions, "check", check_action, "check a server.properties: errors, warnings and the effective settings"
    ).examples("penstock config check conf/server.properties --override log.retention.hours=24")
    check.add_argument("file", metavar="FILE", help="the node's server.properties")
    add_pairs(check, "--override", "setting that replaces the file's")
    add_flag(check, "--strict", "treat unknown settings as errors")
    add_flag(check, "--no-stores", "do not look into key and trust stores, as where the node does not run")
    add_json(check)


def check_action(arguments: argparse.Namespace) -> int:
    """Prints what the file comes to. Raises ConfigError, with file and line, for all that is wrong; as JSON it is
    printed.
    """
    from penstock.cli.output import YELLOW, paint, print_json
    from penstock.config.server import Settings

    try:
        properties = read_properties(arguments.file, arguments.override)
        settings = Settings.from_properties(properties, strict=arguments.strict)
        expiring = [] if arguments.no_stores else check_stores(settings)
    except ConfigError as error:
        if not arguments.json:
            raise
        problems = error.problems if isinstance(error, ConfigErrors) else [error]
        print_json({"errors": [str(each).replace("\n  ", ", ") for each in problems]})
        return 1
    values = effective(settings)
    warnings = [*settings.warnings, *expiring]
    if arguments.json:
        print_json({"errors": [], "settings": values, "warnings": warnings, "ignored": settings.ignored})
        return 0
    for warning in warnings:
        print(f"{paint('warning:', YELLOW)} {warning}")
    if settings.ignored:
        print(f"ignored, as they mean nothing here: {', '.join(settings.ignored)}")
    roles = " and ".join(settings.process_roles)
    print(f"{arguments.file} is right: node {settings.node_id}, {roles}")
    for name, value in values.items():
        print(f"  {name} = {value}")
    return 0


def check_stores(settings: Settings) -> list[str]:
    """Looks into the key and trust stores of all listeners, as the node would at its start; returns warnings.

    Raises ConfigError, or ConfigErrors with all of them, for what cannot be used.
    """
    from penstock.cli.doctor_certificates import found_in_stores

    listeners, problems = found_in_stores(settings)
    if problems:
        raise problems[0] if len(problems) == 1 else ConfigErrors(problems)
    return [
        f"listener {tls.name}: its certificate expires in {days:.0f} days"
        for tls in listeners
        if (days := tls.days_left()) is not None and tls.expires_soon
    ]


def effective(settings: Settings) -> dict[str, str | None]:
    """The settings that differ from their defaults, as they are printed; secrets hidden."""
    return {
        setting.name: setting.type.redacted(getattr(settings, setting.attribute))
        for setting in sorted(settings.declared(), key=lambda setting: setting.name)
        if getattr(settings, setting.attribute) != setting.default
    }
