"""What several commands share: arguments, ways to fail, and running a client."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from penstock.cli.parser import Parser
from penstock.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from penstock.client.client import Client
    from penstock.client.security import ClientSecurity
    from penstock.config.properties import Properties

CLIENT_ID = "penstock"
"""What commands call themselves unless told otherwise."""
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"


def add_bootstrap(parser: argparse.ArgumentParser) -> None:
    """Adds --bootstrap and --command-config, which PENSTOCK_BOOTSTRAP and PENSTOCK_COMMAND_CONFIG set for a whole
    shell."""
    parser.add_argument(
        "--bootstrap",
        metavar="HOST:PORT",
        default=os.environ.get("PENSTOCK_BOOTSTRAP", DEFAULT_BOOTSTRAP),
        help=f"brokers to connect to first, separated by commas (default: $PENSTOCK_BOOTSTRAP or {DEFAULT_BOOTSTRAP})",
    )
    add_command_config(parser)


def add_client_id(arguments: Arguments) -> None:
    """Adds --client-id, for commands whose use of the cluster quotas may bound."""
    add_option(
        arguments, "--client-id", "NAME", "what it calls itself, for quotas and logs", default=CLIENT_ID, dest="called"
    )


def add_command_config(arguments: Arguments) -> None:
    """Adds --command-config, as Kafka's tools have it; `security_of` reads it."""
    arguments.add_argument(
        "--command-config",
        metavar="FILE",
        default=os.environ.get("PENSTOCK_COMMAND_CONFIG"),
        help="client properties for a secured cluster: security.protocol, ssl.*, sasl.* (default: "
        "$PENSTOCK_COMMAND_CONFIG)",
    )


def security_of(arguments: argparse.Namespace) -> ClientSecurity:
    """What the file of --command-config says about security; other properties of it are warned about, once.

    Raises ConfigError.
    """
    return security_in(arguments.command_config)


def security_in(path: str | None, *, quiet: bool = False) -> ClientSecurity:
    """What a file of client properties says about security; None: nothing. `quiet`: without warnings.

    Raises ConfigError.
    """
    from penstock.client.property_files import client_properties
    from penstock.client.security import UNSECURED

    if path is None:
        return UNSECURED
    properties, security = client_properties(path)
    if not quiet:
        warn_unused(path, properties, security)
    return security


def warn_unused(path: str, properties: Properties, security: ClientSecurity) -> None:
    """Says on stderr which properties mean nothing, as Kafka's tools do."""
    from penstock.client.security import NAMES
    from penstock.config.nearest import did_you_mean

    if security.unused:
        names = ", ".join(security.unused)
        warn(f"{path}: no effect with security.protocol={security.protocol}: {names}")
    known = {*NAMES, "bootstrap.servers"}
    for name in properties:
        if name in security.unknown or not name.startswith(("ssl.", "sasl.", "security.", "bootstrap.servers")):
            warn(f"{path}: {name} is not used by this command{did_you_mean(name, known)}")


def warn(text: str) -> None:
    """One line on stderr."""
    from penstock.cli.output import YELLOW, paint

    print(f"{paint('warning:', YELLOW, sys.stderr)} {text}", file=sys.stderr)


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


Arguments = argparse._ActionsContainer  # a parser, or a group of its arguments


def add_flag(arguments: Arguments, option: str, what: str) -> None:
    """Adds an option without a value."""
    arguments.add_argument(option, action="store_true", help=what)


def add_option(
    arguments: Arguments, option: str, metavar: str, what: str, *, default: Any = None, **further: Any
) -> None:
    """Adds an option with a value. Its help ends with the default, unless `what` contains it."""
    if default not in (None, "", []) and "(default" not in what:
        number_format = {float: "g", int: ","}.get(type(default), "")
        what = f"{what} (default: {default:{number_format}})"
    arguments.add_argument(option, metavar=metavar, help=what, default=default, **further)


def add_pairs(arguments: Arguments, option: str, what: str) -> None:
    """Adds an option that takes NAME=VALUE and may be given several times; `pairs` reads it."""
    arguments.add_argument(option, action="append", default=[], metavar="NAME=VALUE", help=f"{what}; repeatable")


def add_log_dirs(arguments: Arguments) -> None:
    """Adds --log-dir, for reading closed segments from files."""
    text = "where a broker's log directory is mounted; repeatable"
    arguments.add_argument("--log-dir", action="append", default=[], metavar="DIR", help=text)


ISOLATIONS = ("read_uncommitted", "read_committed")
"""Isolation levels by their number in Fetch and ListOffsets."""


def add_isolation(arguments: Arguments) -> None:
    """Adds --isolation; `isolation_of` gives its number."""
    arguments.add_argument(
        "--isolation",
        choices=ISOLATIONS,
        default=ISOLATIONS[0],
        help="read_committed skips aborted records and stops before the first open transaction "
        f"(default: {ISOLATIONS[0]})",
    )


def isolation_of(arguments: argparse.Namespace) -> int:
    """The number of the isolation level that was chosen."""
    return ISOLATIONS.index(arguments.isolation)


Actions = argparse._SubParsersAction  # the one name argparse has for it


def add_actions(parser: argparse.ArgumentParser) -> Actions[argparse.ArgumentParser]:
    """Begins the actions of a command such as `topics`; one of them must be given."""
    return parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)


def add_action(
    actions: Actions[argparse.ArgumentParser], name: str, function: Callable[[argparse.Namespace], int], summary: str
) -> Parser:
    """Adds one action, which `run_action` runs; returns its parser."""
    parser = actions.add_parser(name, help=summary, description=capitalised(summary) + ".")
    parser.set_defaults(function=function)
    assert isinstance(parser, Parser)
    return parser


def run_action(arguments: argparse.Namespace) -> int:
    """Runs the action that was chosen."""
    function: Callable[[argparse.Namespace], int] = arguments.function
    return function(arguments)


def check_modules(what: str, modules: Sequence[str], extra: str) -> None:
    """Raises ConfigError that names what is not installed of `modules`, and the extra of penstock that brings it."""
    from importlib.util import find_spec

    if missing := [name for name in modules if find_spec(name) is None]:
        raise ConfigError(f"{what} needs {', '.join(missing)}: pip install 'penstock[{extra}]'")


def capitalised(text: str) -> str:
    """The text with a capital first letter, the others as they are."""
    return text[:1].upper() + text[1:]


def with_client(arguments: argparse.Namespace, job: Callable[[Client], Awaitable[int]]) -> int:
    """Connects as --bootstrap and --command-config say, runs the job in an event loop, disconnects; returns what the
    job returns.

    Raises UsageError for an address that is none, UnreachableError with what to do when nobody answers,
    AuthenticationError.
    """
    called = getattr(arguments, "called", CLIENT_ID)
    return with_client_at(arguments.bootstrap, security_of(arguments), job, called)


def with_client_at(
    bootstrap: str, security: ClientSecurity, job: Callable[[Client], Awaitable[int]], client_id: str = CLIENT_ID
) -> int:
    """`with_client` for who knows already where, how, and what the client is called."""
    import asyncio

    from penstock.client.client import Client
    from penstock.errors import UnreachableError

    async def work() -> int:
        try:
            client = Client(bootstrap, client_id=client_id, security=security)
        except ValueError as error:
            raise UsageError(f"--bootstrap: {error}") from None
        try:
            await client.connection(None)
        except UnreachableError as error:
            if "\n" in str(error):  # it says already what to do
                raise
            raise UnreachableError(
                f"{error}\n  is a broker running there? `penstock dev` starts one; --bootstrap says where to look"
            ) from None
        async with client:
            return await job(client)

    return asyncio.run(work())


def read_properties(path: str, overrides: Sequence[str] = ()) -> Properties:
    """A properties file, with NAME=VALUE `overrides` over it, and what config providers have for it.

    Raises ConfigError in a sentence.
    """
    from penstock.client.property_files import provided, read_file
    from penstock.config.properties import Properties

    properties = read_file(path)
    if overrides:
        lines = {name: line for name in properties if (line := properties.line_of(name)) is not None}
        given = pairs(overrides, "--override")
        kept = {name: line for name, line in lines.items() if name not in given}
        properties = Properties({**properties, **given}, kept, path, "--override")
    return provided(properties)


def names_in(text: str | None) -> tuple[str, ...]:
    """The names in a text that has commas between them; none in None."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """All of an option's NAME=VALUE. Raises UsageError."""
    return dict(pair(text, option) for text in texts)


def pair(text: str, option: str) -> tuple[str, str]:
    """NAME=VALUE as a pair. Raises UsageError."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UsageError(f"{option} {text}: it must be NAME=VALUE")
    return name.strip(), value


def new_random() -> Random:
    """The generator that the pure rooms are given, seeded from the operating system."""
    return Random(os.urandom(16))
