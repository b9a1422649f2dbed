"""Settings of client quotas. The quotas themselves are metadata: see docs/how-to/limit-clients.md."""

from __future__ import annotations

from penstock.config.setting import Group, Setting
from penstock.config.values import INT


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
    penstock_quota_entities_max = Setting(
        "penstock.quota.entities.max", INT, default=100_000, at_least=1, at_most=10_000_000
    ).documented(
        "How many users and client ids with quotas are measured apart, for each kind of quota together; those beyond "
        "share one measure for each limit."
    )
