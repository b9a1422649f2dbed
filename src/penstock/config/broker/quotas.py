"""Settings of client quotas. The quotas themselves are metadata: see docs/how-to/limit-clients.md."""

from __future__ import annotations

from penstock.config.setting import Group, Setting
from penstock.config.values import INT, LONG, LONG_MAX

DROPPED = {
    name: f"{name}: Kafka 4 dropped this setting; here it still holds for client ids that no quota holds for. "
    f"`penstock quotas set --client-id-default {limit}=...` does the same on all brokers, without a restart"
    for name, limit in (
        ("quota.producer.default", "producer_byte_rate"),
        ("quota.consumer.default", "consumer_byte_rate"),
    )
}
"""What is said at start of settings that Kafka does not have any more. They are internal, so not
described unless they are given."""


class QuotaSettings(Group):
    """How the rates of clients are measured."""

    quota_window_num = Setting("quota.window.num", INT, default=11, at_least=1).documented(
        "Windows over which the bytes and the request time of clients are measured."
    )
    quota_window_size_seconds = Setting("quota.window.size.seconds", INT, default=1, at_least=1).documented(
        "Length of each of those windows."
    )
    controller_quota_window_num = Setting("controller.quota.window.num", INT, default=11, at_least=1).documented(
        "Windows over which the partitions that a client creates and deletes are measured: what its quota allows in "
        "all of them it may do at once."
    )
    controller_quota_window_size_seconds = Setting(
        "controller.quota.window.size.seconds", INT, default=1, at_least=1
    ).documented("Length of each of those windows.")
    quota_producer_default = Setting(
        "quota.producer.default", LONG, default=LONG_MAX, at_least=1, internal=True
    ).documented(
        "Bytes a second that each client id may produce on this broker for which no quota says it. Kafka had this "
        "until version 4: a quota of the default client id holds on all brokers, and changes without a restart."
    )
    quota_consumer_default = Setting(
        "quota.consumer.default", LONG, default=LONG_MAX, at_least=1, internal=True
    ).documented(
        "Bytes a second that each client id may fetch from this broker for which no quota says it; see "
        "`quota.producer.default`."
    )
    penstock_quota_entities_max = Setting(
        "penstock.quota.entities.max", INT, default=100_000, at_least=1, at_most=10_000_000
    ).documented(
        "How many users and client ids with quotas are measured apart, for each kind of quota together; those beyond "
        "share one measure for each limit."
    )
