"""Settings of who may do what: the authorizer and the users that it lets do everything."""

from __future__ import annotations

from penstock.config.checks import distinct, principals
from penstock.config.setting import Group, Setting
from penstock.config.values import BOOLEAN, LIST, STRING


class AccessSettings(Group):
    """The authorizer. Kafka's StandardAuthorizer reads the last three itself, so they are in none of its tables."""

    authorizer_class_name = Setting("authorizer.class.name", STRING, default="").documented(
        "Who decides what a principal may do: org.apache.kafka.metadata.authorizer.StandardAuthorizer goes by ACLs; "
        "empty allows everything to everybody."
    )
    early_start_listeners = Setting[tuple[str, ...] | None](
        "early.start.listeners", LIST, default=None, check=distinct
    ).documented(
        "Listeners that serve before the ACLs are loaded, when only super users may do anything. Unset: those of the "
        "controllers. On all others requests wait."
    )
    super_users = Setting("super.users", STRING, default="", check=principals).documented(
        "Principals that may do everything, such as User:admin, with semicolons between. Brokers and controllers must "
        "be among them, or have ACLs for CLUSTER_ACTION."
    )
    allow_everyone_if_no_acl_found = Setting("allow.everyone.if.no.acl.found", BOOLEAN, default=False).documented(
        "Whether a resource that no ACL names at all is open to everybody."
    )
