"""The `penstock` command: one file a subcommand, imported only when it is used.

`COMMANDS` names the modules. Each has `SUMMARY` (one line), `register(parser)` which adds its arguments to the parser
it is given, and `run(arguments) -> int`, the exit code: 0 done, 1 it did not work, 2 asked wrongly. The module's
docstring is the command's help, with examples. A `PenstockError` becomes one line on stderr (with indented lines that
say what to do); whatever else escapes is a bug and shows its traceback.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

from penstock import __version__
from penstock.cli.parser import Parser
from penstock.config.nearest import did_you_mean
from penstock.errors import ConfigErrors, PenstockError

COMMANDS = {
    "dev": "penstock.cli.dev",
    "server": "penstock.cli.server",
    "storage": "penstock.cli.storage",
    "topics": "penstock.cli.topics",
    "configs": "penstock.cli.configs",
    "acls": "penstock.cli.acls",
    "cluster": "penstock.cli.cluster.command",
    "guardian": "penstock.cli.guardian.command",
    "disks": "penstock.cli.disks",
    "groups": "penstock.cli.groups",
    "transactions": "penstock.cli.transactions",
    "users": "penstock.cli.users",
    "quotas": "penstock.cli.quotas",
    "tokens": "penstock.cli.tokens",
    "produce": "penstock.cli.produce",
    "consume": "penstock.cli.consume",
    "generate": "penstock.cli.generate",
    "import": "penstock.cli.importing",
    "load": "penstock.cli.load",
    "verify": "penstock.cli.verify",
    "sql": "penstock.cli.sql",
    "lake": "penstock.cli.lake",
    "pipeline": "penstock.cli.pipeline",
    "spark": "penstock.cli.spark",
    "demo": "penstock.cli.demo",
    "log": "penstock.cli.log",
    "config": "penstock.cli.config",
    "doctor": "penstock.cli.doctor",
    "completion": "penstock.cli.completion",
}
INTERRUPTED_EXIT_CODE = 130
PIPE_CLOSED_EXIT_CODE = 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and not words[0].startswith("-") and words[0] not in COMMANDS:
        say_error(f"unknown command {words[0]}{did_you_mean(words[0], COMMANDS)}\n  `penstock --help` lists them")
        return 2
    parser = make_parser(words[0] if words and words[0] in COMMANDS else None)
    try:
        parsed = parser.parse_args(words)
        if parsed.command is None:
            parser.print_help()
            return 2
        code = int(module_of(parsed.command).run(parsed))
        sys.stdout.flush()
    except PenstockError as error:
        return failed(error)
    except UnicodeEncodeError as error:
        if not any(error.object in word for word in words):
            raise
        say_error(f"{os.fsencode(error.object)!r} is not UTF-8 text")
        return 2
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that the flush at exit is quiet too
        return PIPE_CLOSED_EXIT_CODE
    except OSError as error:
        say_error(f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error))
        return 1
    except KeyboardInterrupt:
        if sys.stderr.isatty():
            print(file=sys.stderr)  # after the ^C that the terminal shows
        return INTERRUPTED_EXIT_CODE
    return code


def failed(error: PenstockError) -> int:
    """Prints the error; returns the exit code."""
    from penstock.errors import UsageError

    for each in error.problems if isinstance(error, ConfigErrors) else [error]:
        say_error("\n  ".join([str(each), *getattr(each, "__notes__", ())]))
    return 2 if isinstance(error, UsageError) else 1


def say_error(text: str) -> None:
    """One line on stderr, `error:` in red on a terminal."""
    from penstock.cli.output import RED, paint

    print(f"{paint('error:', RED, sys.stderr)} {text}", file=sys.stderr)


def make_parser(only: str | None = None) -> argparse.ArgumentParser:
    """The parser; with `only`, just that command's arguments are filled in, so that no other module is imported."""
    parser = Parser(
        prog="penstock",
        description="A Kafka-compatible event-streaming platform: broker, cluster tools, and loads into a lake.",
        epilog="`penstock COMMAND --help` shows a command's arguments and examples. Start with `penstock dev`.",
    )
    parser.add_argument("--version", action="version", version=f"penstock {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name in COMMANDS if only is None else [only]:
        module = module_of(name)
        module.register(commands.add_parser(name, help=module.SUMMARY, description=module.__doc__))
    return parser


def module_of(name: str) -> ModuleType:
    return import_module(COMMANDS[name])
