"""Show, add and remove ACLs: who may do what with topics, groups, transactional ids and the cluster.

A principal is written as User:alice; User:* is everybody. A resource is named by --topic, --group, --transactional-id
or --cluster, which may be repeated; '*' is every one of its kind, and with --pattern prefixed a name stands for all
that begin so. --producer and --consumer stand for the operations that such a client needs. An ACL that denies wins over
all that allow. The brokers must have an authorizer: see docs/how-to/authorize-clients.md.

examples:
  penstock acls list --topic clicks
  penstock acls add --allow User:web --producer --topic clicks
  penstock acls add --allow User:etl --consumer --topic clicks --group 'etl-' --pattern prefixed
  penstock acls add --deny User:guest --host 10.0.0.7 --operation read --topic '*'
  penstock acls remove --principal User:web --topic clicks
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.cli.common import (
    add_action,
    add_actions,
    add_bootstrap,
    add_flag,
    add_json,
    add_option,
    run_action,
    with_client,
)
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.cli.parser import Parser
    from penstock.client.client import Client
    from penstock.protocol.acls import Acl, AclFilter, AclOperation, ResourceType

SUMMARY = "show, add and remove ACLs: who may do what"
LITERAL, PREFIXED, MATCH, ANY = "literal", "prefixed", "match", "any"
KINDS = {"topic": "TOPIC", "group": "GROUP", "transactional_id": "TRANSACTIONAL_ID", "user": "USER"}
"""The kinds of resources by the options that name them."""
SEVERAL_MAX = 10
"""ACLs of a removal that are listed; of more, the number is told."""

run = run_action


def register(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    listing = add_action(actions, "list", list_action, "show ACLs").examples(
        "penstock acls list", "penstock acls list --topic clicks --pattern match"
    )
    adding = add_action(actions, "add", add_action_of, "add ACLs").examples(
        "penstock acls add --allow User:web --producer --topic clicks"
    )
    removing = add_action(actions, "remove", remove_action, "remove ACLs").examples(
        "penstock acls remove --principal User:web --topic clicks"
    )
    for action in (listing, adding, removing):
        add_resources(action)
        add_option(
            action, "--operation", "NAME", "such as read or alter-configs; repeatable", action="append", default=[]
        )
    for action in (listing, removing):
        add_option(action, "--principal", "TYPE:NAME", "only ACLs of this principal")
        add_option(action, "--host", "ADDRESS", "only ACLs for this host")
        add_flag(action, "--allowing", "only ACLs that allow")
        add_flag(action, "--denying", "only ACLs that deny")
        patterns = (LITERAL, PREFIXED, MATCH, ANY)
        text = "match finds all ACLs that apply to a name"
        action.add_argument("--pattern", choices=patterns, default=ANY, help=f"{text} (default: {ANY})")
    add_json(listing)
    add_flag(removing, "--all", "remove all ACLs, where neither a resource nor a principal is given")
    add_option(adding, "--allow", "TYPE:NAME", "whom to allow it; repeatable", action="append", default=[])
    add_option(adding, "--deny", "TYPE:NAME", "whom to deny it; repeatable", action="append", default=[])
    text = "address that requests come from, or * for all; repeatable (default: *)"
    add_option(adding, "--host", "ADDRESS", text, action="append", default=[])
    adding.add_argument(
        "--pattern", choices=(LITERAL, PREFIXED), default=LITERAL, help=f"how names are meant (default: {LITERAL})"
    )
    add_flag(adding, "--producer", "what a producer needs on --topic, and on --transactional-id if given")
    add_flag(adding, "--idempotent", "with --producer: let it be idempotent without WRITE on any topic (before 2.8)")
    add_flag(adding, "--consumer", "what a consumer needs on --topic and --group")
    for action in (listing, adding, removing):
        add_bootstrap(action)


def add_resources(action: Parser) -> None:
    """The options that name resources."""
    for option, what in (
        ("--topic", "topic"),
        ("--group", "consumer group"),
        ("--transactional-id", "transactional id"),
        ("--user", "user whose delegation tokens are meant, as User:alice"),
    ):
        add_option(action, option, "NAME", f"{what}; repeatable", action="append", default=[])
    add_flag(action, "--cluster", "the cluster")


Resource = tuple["ResourceType", str]


def resources_of(arguments: argparse.Namespace) -> list[Resource]:
    """The resources that were named."""
    from penstock.protocol.acls import CLUSTER_NAME, ResourceType

    found = [(ResourceType[kind], name) for option, kind in KINDS.items() for name in getattr(arguments, option)]
    return [*found, (ResourceType.CLUSTER, CLUSTER_NAME)] if arguments.cluster else found


def operation_of(text: str) -> AclOperation:
    """The operation of a name in any of its usual forms: read, ALTER_CONFIGS, AlterConfigs, alter-configs."""
    from penstock.config.nearest import did_you_mean
    from penstock.protocol.acls import AclOperation

    plain = text.replace("_", "").replace("-", "").lower()
    found = {each.name.replace("_", "").lower(): each for each in AclOperation if each >= AclOperation.ALL}
    if plain not in found:
        names = [each.name.lower() for each in found.values()]
        raise UsageError(f"unknown operation {text}{did_you_mean(text.lower(), names)}\n  one of {', '.join(names)}")
    return found[plain]


def filters_of(arguments: argparse.Namespace) -> list[AclFilter]:
    """The ACLs that are meant by the options of `list` and `remove`. Raises UsageError."""
    from penstock.client.acls import FILTER_PATTERNS
    from penstock.protocol.acls import AclFilter, AclOperation, PermissionType, ResourceType

    if arguments.allowing and arguments.denying:
        raise UsageError("--allowing and --denying: one of them, or neither for both")
    permission = PermissionType.ANY
    if arguments.allowing or arguments.denying:
        permission = PermissionType.ALLOW if arguments.allowing else PermissionType.DENY
    resources: Sequence[tuple[ResourceType, str | None]] = resources_of(arguments) or [(ResourceType.ANY, None)]
    operations = [operation_of(text) for text in arguments.operation] or [AclOperation.ANY]
    pattern, principal = FILTER_PATTERNS[arguments.pattern], checked(arguments.principal)
    return [
        AclFilter(kind, name, pattern, principal, arguments.host, operation, permission)
        for kind, name in resources
        for operation in operations
    ]


def checked(principal: str | None) -> str | None:
    """A principal, if it is written as one. Raises UsageError."""
    if principal is not None and not all(principal.partition(":")):
        raise UsageError(f"{principal} is no principal: it must be such as User:alice")
    return principal


def list_action(arguments: argparse.Namespace) -> int:
    filters = filters_of(arguments)

    async def job(client: Client) -> int:
        from penstock.client.acls import list_acls

        found: dict[Acl, None] = {}
        for wanted in filters:
            found.update(dict.fromkeys(await list_acls(client, wanted)))
        print_acls(sorted(found), as_json=arguments.json)
        return 0

    return with_client(arguments, job)


def print_acls(acls: Sequence[Acl], *, as_json: bool) -> None:
    from penstock.cli.output import print_json, print_table

    if as_json:
        print_json([fields_of(acl) for acl in acls])
    elif not acls:
        print("there are no such ACLs")
    else:
        print_table(
            ("resource", "name", "pattern", "principal", "host", "operation", "permission"),
            [tuple(fields_of(acl).values()) for acl in acls],
        )


def fields_of(acl: Acl) -> dict[str, str]:
    from penstock.protocol.acls import AclOperation, PatternType, PermissionType, ResourceType

    return {
        "resource": ResourceType(acl.resource_type).name.lower(),
        "name": acl.name,
        "pattern": PatternType(acl.pattern_type).name.lower(),
        "principal": acl.principal,
        "host": acl.host,
        "operation": AclOperation(acl.operation).name.lower(),
        "permission": PermissionType(acl.permission).name.lower(),
    }


def add_action_of(arguments: argparse.Namespace) -> int:
    acls = new_acls(arguments)

    async def job(client: Client) -> int:
        from penstock.client.acls import create_acls

        await create_acls(client, acls)
        print_acls(acls, as_json=False)
        return 0

    return with_client(arguments, job)


def new_acls(arguments: argparse.Namespace) -> list[Acl]:
    """The ACLs that `add` is to make. Raises UsageError."""
    from penstock.client.acls import PATTERNS
    from penstock.protocol.acls import EVERYBODY, WILDCARD, Acl, PatternType, PermissionType, ResourceType

    whom = [(checked(each) or EVERYBODY, PermissionType.ALLOW) for each in arguments.allow]
    whom += [(checked(each) or EVERYBODY, PermissionType.DENY) for each in arguments.deny]
    if not whom:
        raise UsageError("whom? --allow User:alice, or --deny User:alice")
    pattern, hosts = PATTERNS[arguments.pattern], arguments.host or [WILDCARD]
    acls: dict[Acl, None] = {}
    for kind, name, operation in wanted_rights(arguments):
        of_kind = PatternType.LITERAL if kind is ResourceType.CLUSTER else pattern
        for principal, permission in whom:
            for host in hosts:
                acls[Acl(kind, name, of_kind, principal, host, operation, permission)] = None
    return sorted(acls)


def wanted_rights(arguments: argparse.Namespace) -> Iterator[tuple[ResourceType, str, AclOperation]]:
    """Resources with the operations that are meant. Raises UsageError."""
    from penstock.client.acls import CONSUMER_RIGHTS, IDEMPOTENT_RIGHTS, producer_rights
    from penstock.protocol.acls import CLUSTER_NAME, AclOperation, ResourceType

    resources = resources_of(arguments)
    if not (arguments.producer or arguments.consumer):
        if not resources:
            raise UsageError("on what? --topic, --group, --transactional-id or --cluster")
        operations = [operation_of(text) for text in arguments.operation] or [AclOperation.ALL]
        yield from ((kind, name, operation) for kind, name in resources for operation in operations)
        return
    check_convenience(arguments)
    rights: list[Mapping[ResourceType, tuple[AclOperation, ...]]] = []
    if arguments.producer:
        rights.append(producer_rights(transactional=bool(arguments.transactional_id)))
    if arguments.consumer:
        rights.append(CONSUMER_RIGHTS)
    if arguments.idempotent:
        rights.append(IDEMPOTENT_RIGHTS)
        resources.append((ResourceType.CLUSTER, CLUSTER_NAME))
    yield from ((kind, name, operation) for of in rights for kind, name in resources for operation in of.get(kind, ()))


def check_convenience(arguments: argparse.Namespace) -> None:
    """Raises UsageError for options that do not go with --producer and --consumer, or are missing."""
    if arguments.operation or arguments.cluster or arguments.deny:
        raise UsageError("--producer and --consumer say what is allowed: leave out --operation, --cluster and --deny")
    if not arguments.topic:
        raise UsageError("--producer and --consumer need --topic")
    if bool(arguments.group) != bool(arguments.consumer):
        raise UsageError("--consumer needs --group" if arguments.consumer else "--group goes with --consumer")
    if not arguments.producer and (arguments.transactional_id or arguments.idempotent):
        raise UsageError("--transactional-id and --idempotent go with --producer")


def remove_action(arguments: argparse.Namespace) -> int:
    filters = filters_of(arguments)
    if not (resources_of(arguments) or arguments.principal or arguments.all):
        raise UsageError("which? a resource such as --topic, or --principal; --all for all of them")

    async def job(client: Client) -> int:
        from penstock.client.acls import delete_acls

        gone = await delete_acls(client, filters)
        print(f"removed {len(gone)} {'ACL' if len(gone) == 1 else 'ACLs'}")
        if gone:
            print_acls(gone[:SEVERAL_MAX], as_json=False)
        return 0

    return with_client(arguments, job)
