"""Show the users that log in with SCRAM, add them, change their passwords, remove them.

A password comes from a file or is asked for, never from the command line, where others could read it.

examples:
  penstock users list
  penstock users add alice --password-file alice.password
  penstock users remove alice
"""

from __future__ import annotations

import argparse
from secrets import randbits
from typing import TYPE_CHECKING

from penstock.cli.common import add_action, add_actions, add_bootstrap, add_json, add_option, run_action, with_client
from penstock.cli.output import print_json, print_table
from penstock.errors import UsageError
from penstock.metadata.limits import SCRAM_ITERATIONS_MAX, SCRAM_ITERATIONS_MIN
from penstock.metadata.scram import ScramMechanism

if TYPE_CHECKING:
    from penstock.client.client import Client
    from penstock.client.users import UserCredential

SUMMARY = "show, add and remove users that log in with SCRAM"
NAMES = [each.sasl_name for each in ScramMechanism]

run = run_action


def register(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    list_ = add_action(actions, "list", list_action, "show users and their mechanisms").examples("penstock users list")
    add = add_action(actions, "add", add_user_action, "add a user, or change the password of one").examples(
        "penstock users add alice",
        "penstock users add alice --password-file alice.password --mechanism SCRAM-SHA-512",
    )
    add.add_argument("user", metavar="USER", help="name of the user")
    add_option(add, "--password-file", "FILE", "file with the password; without it the password is asked for")
    add_mechanism(add, "mechanism to set the password for; repeatable (default: both)")
    add_option(
        add, "--iterations", "N", "rounds of key derivation, 4096 to 16384", default=SCRAM_ITERATIONS_MIN, type=int
    )
    remove = add_action(actions, "remove", remove_action, "remove a user").examples("penstock users remove alice")
    remove.add_argument("user", metavar="USER", help="name of the user")
    add_mechanism(remove, "mechanism to remove; repeatable (default: those that the user has)")
    for action in (list_, add, remove):
        add_bootstrap(action)
        add_json(action)


def add_mechanism(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--mechanism", action="append", default=[], choices=NAMES, help=what)


def chosen(arguments: argparse.Namespace) -> list[ScramMechanism]:
    """The mechanisms that were named."""
    return [each for each in ScramMechanism if each.sasl_name in arguments.mechanism]


def list_action(arguments: argparse.Namespace) -> int:
    """Prints all users."""

    async def job(client: Client) -> int:
        from penstock.client.users import describe_users

        found = await describe_users(client)
        rows = [(each.user, name_of(each), each.iterations) for each in sorted(found, key=order)]
        if arguments.json:
            print_json([{"user": user, "mechanism": name, "iterations": rounds} for user, name, rounds in rows])
        elif rows:
            print_table(["user", "mechanism", "iterations"], [[user, name, str(rounds)] for user, name, rounds in rows])
        else:
            print("no user has a SCRAM password")
        return 0

    return with_client(arguments, job)


def order(credential: UserCredential) -> tuple[str, int]:
    return credential.user, credential.mechanism


def name_of(credential: UserCredential) -> str:
    """The mechanism of a credential by its name."""
    return next((each.sasl_name for each in ScramMechanism if each == credential.mechanism), str(credential.mechanism))


def add_user_action(arguments: argparse.Namespace) -> int:
    """Sets a user's password."""
    if not arguments.user:
        raise UsageError("a user has a name")
    if not SCRAM_ITERATIONS_MIN <= arguments.iterations <= SCRAM_ITERATIONS_MAX:
        raise UsageError(f"--iterations must be {SCRAM_ITERATIONS_MIN} to {SCRAM_ITERATIONS_MAX}")
    password = read_password(arguments.password_file)
    mechanisms = chosen(arguments) or list(ScramMechanism)

    async def job(client: Client) -> int:
        from penstock.client.users import SaltedPassword, set_password
        from penstock.security.sasl import Derivation
        from penstock.security.scram import SALT_BITS, salt_of

        for mechanism in mechanisms:
            salt = salt_of(randbits(SALT_BITS))
            salted = Derivation(mechanism.hash_name, password.encode(), salt, arguments.iterations).derive()
            await set_password(client, arguments.user, mechanism, SaltedPassword(arguments.iterations, salt, salted))
        tell(arguments, "set", mechanisms)
        return 0

    return with_client(arguments, job)


def read_password(path: str | None) -> str:
    """The password in a file, without the end of its line, or as somebody types it. Raises UsageError."""
    if path is None:
        from getpass import getpass

        password = getpass("password: ")
        if password != getpass("again: "):
            raise UsageError("the two passwords differ")
    else:
        try:
            with open(path, encoding="utf-8") as file:
                password = file.read().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read {path}: {error}") from None
    if not password:
        raise UsageError("the password is empty")
    return password


def remove_action(arguments: argparse.Namespace) -> int:
    """Deletes a user's passwords."""

    async def job(client: Client) -> int:
        from penstock.client.users import delete_password, describe_users

        mechanisms = chosen(arguments)
        if not mechanisms:
            found = {each.mechanism for each in await describe_users(client, [arguments.user])}
            mechanisms = [each for each in ScramMechanism if each in found]
        for mechanism in mechanisms:
            await delete_password(client, arguments.user, mechanism)
        tell(arguments, "removed", mechanisms)
        return 0

    return with_client(arguments, job)


def tell(arguments: argparse.Namespace, what: str, mechanisms: list[ScramMechanism]) -> None:
    """Says what was done."""
    names = [each.sasl_name for each in mechanisms]
    if arguments.json:
        print_json({"user": arguments.user, what: names})
    else:
        print(f"password of {arguments.user} {what} for {' and '.join(names)}")
