"""Broker settings that Kafka 4.3 knows and that mean nothing here (yet): accepted, checked, and listed once at start.

Generated from Kafka's own definitions by `tools/known_settings.py`; a setting that gets a meaning is declared under
`config/broker/` and leaves this table. A row is: name, type, bounds or allowed values (`~` when
any case goes) or a check or `-`, update mode (and
`internal`), default (`=text`, or null).
"""

from __future__ import annotations

from penstock.config.checks import NAMED
from penstock.config.setting import Dynamic, Setting
from penstock.config.values import TYPES

TABLE = """\
alter.config.policy.class.name CLASS - read-only null
background.threads INT 1.. cluster-wide =10
client.quota.callback.class CLASS - read-only null
config.providers LIST distinct cluster-wide =
controlled.shutdown.enable BOOLEAN - read-only =true
controller.performance.always.log.threshold.ms LONG 0.. read-only,internal =2000
controller.performance.sample.period.ms LONG 100.. read-only,internal =60000
controller.quorum.append.linger.ms INT 0.. read-only =25
controller.socket.timeout.ms INT - read-only =30000
create.topic.policy.class.name CLASS - read-only null
delete.records.purgatory.purge.interval.requests INT - read-only =1
fetch.purgatory.purge.interval.requests INT - read-only =1000
follower.fetch.last.tiered.offset.enable BOOLEAN - cluster-wide =false
group.coordinator.background.threads INT 1.. read-only =2
group.coordinator.cached.buffer.max.bytes INT 524288.. cluster-wide =1048588
group.coordinator.threads INT 1.. read-only =4
group.share.assignment.interval.ms INT 0.. cluster-wide =1000
group.share.assignors LIST some-distinct read-only =simple
group.share.delivery.count.limit INT 2..10 read-only =5
group.share.heartbeat.interval.ms INT 1.. read-only =5000
group.share.initialize.retry.interval.ms INT 1.. read-only,internal =30000
group.share.max.assignment.interval.ms INT 0.. read-only =15000
group.share.max.delivery.count.limit INT 5..25 read-only =10
group.share.max.heartbeat.interval.ms INT 1.. read-only =15000
group.share.max.partition.max.record.locks INT 2000..10000 read-only =4000
group.share.max.record.lock.duration.ms INT 30000..3600000 read-only =60000
group.share.max.session.timeout.ms INT 1.. read-only =60000
group.share.max.share.sessions INT 1.. read-only =2000
group.share.max.size INT 1..1000 read-only =200
group.share.min.assignment.interval.ms INT 0.. read-only =0
group.share.min.delivery.count.limit INT 2..5 read-only =2
group.share.min.heartbeat.interval.ms INT 1.. read-only =5000
group.share.min.partition.max.record.locks INT 100..2000 read-only =100
group.share.min.record.lock.duration.ms INT 1000..30000 read-only =15000
group.share.min.session.timeout.ms INT 1.. read-only =45000
group.share.partition.max.record.locks INT 100..10000 read-only =2000
group.share.persister.class.name STRING - read-only,internal =org.apache.kafka.server.share.persister.DefaultStatePersister
group.share.record.lock.duration.ms INT 1000..3600000 read-only =30000
group.share.session.timeout.ms INT 1.. read-only =45000
group.streams.assignment.interval.ms INT 0.. cluster-wide =1000
group.streams.heartbeat.interval.ms INT 1.. read-only =5000
group.streams.initial.rebalance.delay.ms INT 0.. read-only =3000
group.streams.max.assignment.interval.ms INT 0.. read-only =15000
group.streams.max.heartbeat.interval.ms INT 1.. read-only =15000
group.streams.max.session.timeout.ms INT 1.. read-only =60000
group.streams.max.size INT 1.. read-only =2147483647
group.streams.max.standby.replicas INT 0.. read-only =2
group.streams.min.assignment.interval.ms INT 0.. read-only =0
group.streams.min.heartbeat.interval.ms INT 1.. read-only =5000
group.streams.min.session.timeout.ms INT 1.. read-only =45000
group.streams.num.standby.replicas INT 0.. read-only =0
group.streams.session.timeout.ms INT 1.. read-only =45000
kafka.metrics.polling.interval.secs INT 1.. read-only =10
kafka.metrics.reporters LIST distinct read-only =
log.dir.failure.timeout.ms LONG 1.. read-only =30000
metrics.num.samples INT 1.. read-only =2
metrics.recording.level STRING - read-only =INFO
metrics.sample.window.ms LONG 1.. read-only =30000
num.io.threads INT 1.. cluster-wide =8
num.network.threads INT 1.. cluster-wide =3
num.replica.alter.log.dirs.threads INT - read-only null
offsets.load.buffer.size INT 1.. read-only =5242880
offsets.topic.compression.codec INT - read-only =0
producer.purgatory.purge.interval.requests INT - read-only =1000
queued.max.requests INT 1.. read-only =500
remote.fetch.max.wait.ms INT 1.. cluster-wide =500
remote.list.offsets.request.timeout.ms LONG 1.. cluster-wide =30000
remote.log.index.file.cache.total.size.bytes LONG 1.. cluster-wide =1073741824
remote.log.index.file.cache.ttl.ms LONG -1.. read-only,internal =900000
remote.log.manager.copier.thread.pool.size INT 1.. cluster-wide =10
remote.log.manager.copy.max.bytes.per.second LONG 1.. cluster-wide =9223372036854775807
remote.log.manager.copy.quota.window.num INT 1.. read-only =11
remote.log.manager.copy.quota.window.size.seconds INT 1.. read-only =1
remote.log.manager.expiration.thread.pool.size INT 1.. cluster-wide =10
remote.log.manager.fetch.max.bytes.per.second LONG 1.. cluster-wide =9223372036854775807
remote.log.manager.fetch.quota.window.num INT 1.. read-only =11
remote.log.manager.fetch.quota.window.size.seconds INT 1.. read-only =1
remote.log.manager.follower.thread.pool.size INT 1.. cluster-wide =2
remote.log.manager.task.interval.ms LONG 1.. read-only =30000
remote.log.manager.task.retry.backoff.max.ms LONG 1.. read-only,internal =30000
remote.log.manager.task.retry.backoff.ms LONG 1.. read-only,internal =500
remote.log.manager.task.retry.jitter DOUBLE 0..0.5 read-only,internal =0.2
remote.log.manager.thread.pool.size INT 1.. read-only =2
remote.log.metadata.custom.metadata.max.bytes INT 0.. read-only =128
remote.log.metadata.manager.class.name STRING not-empty read-only =org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager
remote.log.metadata.manager.class.path STRING - read-only null
remote.log.metadata.manager.impl.prefix STRING not-empty read-only =rlmm.config.
remote.log.metadata.manager.listener.name STRING not-empty read-only null
remote.log.reader.max.pending.tasks INT 1.. read-only =100
remote.log.reader.threads INT 1.. cluster-wide =10
remote.log.storage.manager.class.name STRING not-empty read-only null
remote.log.storage.manager.class.path STRING - read-only null
remote.log.storage.manager.impl.prefix STRING not-empty read-only =rsm.config.
remote.log.storage.system.enable BOOLEAN - read-only =false
replica.socket.receive.buffer.bytes INT - read-only =65536
sasl.client.callback.handler.class CLASS - read-only null
sasl.kerberos.kinit.cmd STRING - per-broker =/usr/bin/kinit
sasl.kerberos.min.time.before.relogin LONG - per-broker =60000
sasl.kerberos.ticket.renew.jitter DOUBLE - per-broker =0.05
sasl.kerberos.ticket.renew.window.factor DOUBLE - per-broker =0.8
sasl.login.callback.handler.class CLASS - read-only null
sasl.login.class CLASS - read-only null
sasl.login.connect.timeout.ms INT - read-only null
sasl.login.read.timeout.ms INT - read-only null
sasl.login.refresh.buffer.seconds SHORT - per-broker =300
sasl.login.refresh.min.period.seconds SHORT - per-broker =60
sasl.login.refresh.window.factor DOUBLE - per-broker =0.8
sasl.login.refresh.window.jitter DOUBLE - per-broker =0.05
sasl.login.retry.backoff.max.ms LONG - read-only =10000
sasl.login.retry.backoff.ms LONG - read-only =100
sasl.oauthbearer.assertion.algorithm STRING ~ES256,RS256 read-only =RS256
sasl.oauthbearer.assertion.claim.aud STRING - read-only null
sasl.oauthbearer.assertion.claim.exp.seconds INT 0..86400 read-only =300
sasl.oauthbearer.assertion.claim.iss STRING - read-only null
sasl.oauthbearer.assertion.claim.jti.include BOOLEAN - read-only =false
sasl.oauthbearer.assertion.claim.nbf.seconds INT 0..3600 read-only =60
sasl.oauthbearer.assertion.claim.sub STRING - read-only null
sasl.oauthbearer.assertion.file STRING - read-only null
sasl.oauthbearer.assertion.private.key.file STRING - read-only null
sasl.oauthbearer.assertion.private.key.passphrase PASSWORD - read-only null
sasl.oauthbearer.assertion.template.file STRING - read-only null
sasl.oauthbearer.client.credentials.client.id STRING - read-only null
sasl.oauthbearer.client.credentials.client.secret PASSWORD - read-only null
sasl.oauthbearer.jwt.retriever.class CLASS - read-only =org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever
sasl.oauthbearer.scope STRING - read-only null
sasl.oauthbearer.token.endpoint.url STRING - read-only null
security.providers STRING - read-only null
server.max.startup.time.ms LONG 0.. read-only,internal =9223372036854775807
share.coordinator.append.linger.ms INT -1.. read-only =-1
share.coordinator.cached.buffer.max.bytes INT 524288.. cluster-wide =1048588
share.coordinator.cold.partition.snapshot.interval.ms INT 1.. read-only,internal =300000
share.coordinator.load.buffer.size INT 1.. read-only =5242880
share.coordinator.snapshot.update.records.per.snapshot INT 0..500 read-only =500
share.coordinator.state.topic.compression.codec INT - read-only =0
share.coordinator.state.topic.min.isr SHORT 1.. read-only =2
share.coordinator.state.topic.num.partitions INT 1.. read-only =50
share.coordinator.state.topic.prune.interval.ms INT 1.. read-only,internal =300000
share.coordinator.state.topic.replication.factor SHORT 1.. read-only =3
share.coordinator.state.topic.segment.bytes INT 1.. read-only =104857600
share.coordinator.threads INT 1.. read-only =1
share.coordinator.write.timeout.ms INT 1.. read-only =5000
share.fetch.purgatory.purge.interval.requests INT - read-only =1000
ssl.engine.factory.class CLASS - per-broker null
ssl.keymanager.algorithm STRING - per-broker =SunX509
ssl.protocol STRING - per-broker =TLSv1.3
ssl.provider STRING - per-broker null
ssl.secure.random.implementation STRING - per-broker null
ssl.trustmanager.algorithm STRING - per-broker =PKIX
transaction.state.log.load.buffer.size INT 1.. read-only =5242880
transaction.two.phase.commit.enable BOOLEAN - read-only =false
unstable.api.versions.enable BOOLEAN - read-only,internal =false
unstable.feature.versions.enable BOOLEAN - read-only,internal =false
"""


def number(text: str) -> float | None:
    """A bound; None when there is none."""
    return (float(text) if "." in text else int(text)) if text else None


def parse_row(row: str) -> Setting[object]:
    """The declaration that a row of the table stands for."""
    name, type_name, bounds, mode, default = row.split(" ", 4)
    kind = TYPES[type_name]
    low, dots, high = bounds.partition("..") if ".." in bounds else ("", "", "")
    check = NAMED.get(bounds)
    allowed = () if dots or check is not None or bounds == "-" else tuple(bounds.removeprefix("~").split(","))
    return Setting[object](
        name,
        kind,
        default=None if default == "null" else kind.parse(default[1:]),
        at_least=number(low),
        at_most=number(high),
        one_of=allowed,
        any_case=bounds.startswith("~"),
        check=check,
        dynamic=Dynamic(mode.removesuffix(",internal")),
        internal=mode.endswith(",internal"),
        doc="Known to Kafka; it means nothing here.",
    )


KNOWN: dict[str, Setting[object]] = {row.split(" ", 1)[0]: parse_row(row) for row in TABLE.splitlines()}
