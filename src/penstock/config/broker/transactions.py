"""Settings of the transaction coordinator: time-outs, the ids that it keeps, and the topic that it keeps them in."""

from __future__ import annotations

from penstock.config.setting import Group, Setting
from penstock.config.values import DAY_MS, HOUR_MS, INT, MINUTE_MS, SECOND_MS, SHORT, MiB


class TransactionSettings(Group):
    """Transactional ids, and `__transaction_state`."""

    transaction_max_timeout_ms = Setting(
        "transaction.max.timeout.ms", INT, default=15 * MINUTE_MS, at_least=1
    ).documented("Longest time-out that a producer may ask for its transactions.")
    transactional_id_expiration_ms = Setting(
        "transactional.id.expiration.ms", INT, default=7 * DAY_MS, at_least=1
    ).documented("After this long without a transaction a transactional id is forgotten.")
    transaction_abort_timed_out_transaction_cleanup_interval_ms = Setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, default=10 * SECOND_MS, at_least=1
    ).documented("Time between two looks for transactions whose time is over; these are aborted.")
    transaction_remove_expired_transaction_cleanup_interval_ms = Setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms", INT, default=1 * HOUR_MS, at_least=1
    ).documented("Time between two looks for transactional ids that have expired.")
    transaction_state_log_num_partitions = Setting(
        "transaction.state.log.num.partitions", INT, default=50, at_least=1
    ).documented("Partitions of __transaction_state. Not to be changed once the topic is there.")
    transaction_state_log_replication_factor = Setting(
        "transaction.state.log.replication.factor", SHORT, default=3, at_least=1
    ).documented("Replicas of __transaction_state. With fewer brokers than that, transactions are refused.")
    transaction_state_log_min_isr = Setting("transaction.state.log.min.isr", INT, default=2, at_least=1).documented(
        "min.insync.replicas of __transaction_state."
    )
    transaction_state_log_segment_bytes = Setting(
        "transaction.state.log.segment.bytes", INT, default=100 * MiB, at_least=1
    ).documented("Size of a segment of __transaction_state.")
