"""The job `audit`: whether all records are everywhere, by topic and ten minutes of event time.

A step looks at each place once, and commits all that it has counted together with how far it is:

- the cluster and its mirrors: records that are new, decoded by the kernels, from where the table says;
- producers: what the audit topic says, of which the greatest number of a session counts;
- lake tables: the sum of their files, each of which is counted once.

Then it holds them against each other (`audit.compare`), and gives an alarm for each bucket that begins to differ. A
place that cannot be reached keeps the counts that it has, so it is told as one that lags.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.errors import ConfigError, PenstockError
from penstock.pipelines.audit.settings import CLUSTER, LAKE, PRODUCER, Settings
from penstock.pipelines.job import REQUIRED, Job, Option
from penstock.pipelines.limits import AUDIT_ALARMS_PER_STEP, AUDIT_OFFSETS_PER_STEP
from penstock.pipelines.step import Did

if TYPE_CHECKING:
    from uuid import UUID

    from penstock.pipelines.audit.compare import Line
    from penstock.pipelines.audit.logs import Counted, Logs, Place
    from penstock.pipelines.audit.table import Count, CountsTable, Key
    from penstock.pipelines.audit.tally import Tally
    from penstock.pipelines.context import Context
    from penstock.pipelines.models.alarms import Alarms


class Audit:
    """The step. Raises PenstockError when the cluster itself, or the table of counts, cannot be had.

    Args:
        context: of the pipeline.
        settings: what is audited.
        alarms: who is told.
        every_s: from look to look.
        clock: milliseconds since 1970.
    """

    def __init__(
        self,
        context: Context,
        settings: Settings,
        alarms: Alarms,
        *,
        every_s: float,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        from penstock.pipelines.audit.lake import LakeFiles
        from penstock.pipelines.audit.logs import Logs

        self.interval_ms = int(every_s * 1000)
        self._context, self._settings, self._alarms, self._clock = context, settings, alarms, clock
        more = _client_options(context.kafka)
        own = {name: name for name in settings.topics}
        secured = {**more, "security": context.security}
        self._logs: dict[str, Logs] = {CLUSTER: Logs(context.bootstrap, own, **secured)}
        for each in settings.mirrors:
            names = {each.prefix + name: name for name in own}
            self._logs[each.name] = Logs(each.bootstrap, names, **more, security=each.security)
        if settings.audit_topic is not None:
            self._logs[PRODUCER] = Logs(
                context.bootstrap, {settings.audit_topic: settings.audit_topic}, may_be_compacted=True, **secured
            )
        self._files = LakeFiles(context.directory / "audit-files.parquet")
        self._table: CountsTable | None = None
        self._ids: dict[str, set[UUID]] = {}
        self._trouble: dict[str, str] = {}
        self._bad: dict[tuple[str, str], Line] = {}
        self._lake: Tally | None = None

    def step(self) -> Did | None:
        from penstock.pipelines.audit.table import CountsTable, moment

        began, now_ms = time.monotonic(), self._clock()
        if self._table is None:
            self._context.directory.mkdir(parents=True, exist_ok=True)
            self._table = CountsTable(self._settings.counts)
        self._table.refresh()
        look = _Look(self._table, self._since(now_ms), now_ms, self._settings)
        rows = self._count_logs(look)
        self._count_lake(look)
        look.commit()
        self._files.save()
        self._table.clean(moment(self._settings.first_ms(0, now_ms)).date())
        if not look.lag:
            self._judge(look)
        return Did(rows, look.lag, time.monotonic() - began) if rows or look.lag else None

    def close(self) -> None:
        """Nothing stays open between steps."""

    def _since(self, now_ms: int) -> int:
        """The bucket with which the audit has begun."""
        from penstock.pipelines.audit.producer import BUCKET_MS
        from penstock.pipelines.audit.table import SINCE
        from penstock.pipelines.audit.tally import bucket_of

        assert self._table is not None
        known = self._table.position(SINCE)
        if known is not None:
            return known
        wanted = self._settings.since_ms
        return bucket_of(now_ms) + BUCKET_MS if wanted is None else -(-wanted // BUCKET_MS) * BUCKET_MS

    def _count_logs(self, look: _Look) -> int:
        rows = 0
        for tier, logs in self._logs.items():
            try:
                counted = look.said(logs) if tier == PRODUCER else look.log(tier, logs)
            except PenstockError as error:
                if tier == CLUSTER:
                    raise
                self._told(tier, f"{tier} is not counted: {error}")
                continue
            rows += counted.records
            look.lag += counted.lag
            self._told(tier, "; ".join(counted.lost))
            if tier not in (CLUSTER, PRODUCER) and self._ids.get(tier) != counted.ids:
                look.forget_others(tier, {str(each) for each in counted.ids})
                self._ids[tier] = counted.ids
        return rows

    def _count_lake(self, look: _Look) -> None:
        from penstock.pipelines.audit.tally import Tally

        total, settings = Tally(), self._settings
        try:
            for each in settings.lakes:
                total += self._files.count(
                    each.table, each.table_format, each.storage_options, settings.topics, look.first_ms
                )
        except PenstockError as error:
            self._told(LAKE, f"the lake is not counted: {error}")
            return
        self._told(LAKE, "")
        if total != self._lake:
            look.lake(total)
            self._lake = total

    def _told(self, tier: str, text: str) -> None:
        """Tells of trouble once, for as long as it is the same."""
        if text and self._trouble.get(tier) != text:
            self._context.told(text)
        self._trouble[tier] = text

    def _judge(self, look: _Look) -> None:
        """Gives the alarm for buckets that begin to differ; the rest, if they are many, with the next look."""
        from penstock.pipelines.models.results import FAIL, PASS, Result, now

        lines = [each for each in look.lines() if each.settled and each.difference]
        bad = {(each.topic, f"complete({each.tier} {each.bucket.isoformat()})"): each for each in lines}
        new = [key for key in bad if key not in self._bad][:AUDIT_ALARMS_PER_STEP]
        name = self._context.name
        results = [Result(now(), name, *key, FAIL, abs(bad[key].difference), "", bad[key].text) for key in new]
        results += [Result(now(), name, *key, PASS) for key in self._bad if key not in bad]
        self._bad = {key: line for key, line in bad.items() if key in self._bad or key in new}
        for each in results:
            if each.status == FAIL:
                self._context.told(each.message)
        self._alarms.hear([*results, *(Result(now(), name, *key, FAIL, abs(line.difference), "", line.text)
                                       for key, line in self._bad.items() if key not in new)])  # fmt: skip


class _Look:
    """What one step has counted, on its way into the table."""

    def __init__(self, table: CountsTable, since_ms: int, now_ms: int, settings: Settings) -> None:
        self._table, self._since_ms, self._now_ms, self._settings = table, since_ms, now_ms, settings
        self.first_ms = settings.first_ms(since_ms, now_ms)
        self.lag = 0
        self._added: dict[Key, int] = {}
        self._set: dict[Key, int] = {}
        self._positions: dict[str, int] = {}

    def _reads(self, tier: str) -> Callable[[Place], int | None]:
        return lambda place: self._table.position(f"{tier}/{place.topic_id}/{place.partition}")

    def _moved(self, tier: str, counted: Counted) -> Counted:
        for place, end in counted.ends.items():
            name = f"{tier}/{place.topic_id}/{place.partition}"
            if self._table.position(name) != end:
                self._positions[name] = end
        return counted

    def log(self, tier: str, logs: Logs) -> Counted:
        """Counts what is new in topics. Raises as `Logs.count`."""
        from penstock.pipelines.audit.table import Key

        counted = logs.count(self._reads(tier), self.first_ms, AUDIT_OFFSETS_PER_STEP)
        for topic_id, tally in counted.tally.items():
            for (topic, bucket_ms), records in tally.items():
                self._added[Key(tier, topic, str(topic_id), bucket_ms)] = records
        return self._moved(tier, counted)

    def said(self, logs: Logs) -> Counted:
        """Takes what producers say. Raises as `Logs.count`."""
        from penstock.pipelines.audit.logs import Counted
        from penstock.pipelines.audit.producer import Said, add_said
        from penstock.pipelines.audit.table import Key

        counted, said, bad = Counted(), Said(), 0

        def take(_wanted: Any, rows: Any) -> None:
            nonlocal bad
            bad += add_said(said, rows.column("value").to_pylist())
            counted.records += rows.num_rows

        logs.read(counted, self._reads(PRODUCER), self.first_ms, AUDIT_OFFSETS_PER_STEP, take)
        if bad:
            counted.lost.append(f"{bad} records of topic {self._settings.audit_topic} are no counts")
        keys = {Key(PRODUCER, topic, client, bucket_ms): n for (client, topic, bucket_ms), n in said.items()}
        keys = {k: n for k, n in keys.items() if k.topic in self._settings.topics and k.bucket_ms >= self.first_ms}
        known = self._table.counts(key.day for key in keys)
        self._set |= {key: n for key, n in keys.items() if key not in known or known[key].records < n}
        return self._moved(PRODUCER, counted)

    def lake(self, total: Tally) -> None:
        """Takes all that the lake has."""
        from penstock.pipelines.audit.table import Key, counts_of

        there = {key: count.records for key, count in counts_of(self._table.rows(self.first_ms)).items()}
        has = {key: n for key, n in there.items() if key.tier == LAKE and key.bucket_ms >= self.first_ms}
        wants = {Key(LAKE, topic, "", bucket_ms): n for (topic, bucket_ms), n in total.items()}
        self._set |= {key: wants.get(key, 0) for key in {*has, *wants} if has.get(key) != wants.get(key)}

    def forget_others(self, tier: str, parts: set[str]) -> None:
        """A topic was made again at a mirror: what the one before it had is not there any more."""
        from penstock.pipelines.audit.table import counts_of

        known = counts_of(self._table.rows(self.first_ms))
        self._set |= {key: 0 for key in known if key.tier == tier and key.part not in parts}

    def commit(self) -> None:
        """Raises LakeConflictError if another copy of the audit is at work."""
        from penstock.pipelines.audit.table import SINCE, Count

        if self._table.position(SINCE) is None:
            self._positions[SINCE] = self._since_ms
        if not self._positions and not self._added and not self._set:
            return
        days: dict[Key, Count] = self._table.counts(key.day for key in {*self._added, *self._set})
        for key, records in self._set.items():
            days[key] = Count(records, self._now_ms)
        for key, records in self._added.items():
            before = days[key].records if key in days else 0
            days[key] = Count(before + records, self._now_ms)
        self._table.commit(days, self._positions)

    def lines(self) -> Sequence[Line]:
        """How the tiers stand to each other."""
        from penstock.pipelines.audit.compare import compared

        settings = self._settings
        return compared(
            self._table.rows(self.first_ms),
            settings.tiers,
            settings.topics,
            since_ms=self.first_ms,
            now_ms=self._now_ms,
            grace_ms=settings.grace_ms,
        )


def _client_options(kafka: Mapping[str, str]) -> dict[str, Any]:
    more: dict[str, Any] = {}
    if "kafka.client.id" in kafka:
        more["client_id"] = kafka["kafka.client.id"]
    if "kafka.request.timeout.ms" in kafka:
        more["timeout_ms"] = int(kafka["kafka.request.timeout.ms"])
    return more


def run(context: Context) -> Sequence[Audit]:
    """Makes the step."""
    from penstock.pipelines.models.alarms import Alarms
    from penstock.pipelines.models.project import Alarm

    options = context.options
    alarm = Alarm(tuple(options["alarm_command"]), options["alarm_topic"])
    settings = Settings.of(options, context.directory)
    return [Audit(context, settings, Alarms(alarm, context, context.spark), every_s=options["every_seconds"])]


def check(options: Mapping[str, Any]) -> list[str]:
    """What is wrong with the options together."""
    from pathlib import Path

    try:
        Settings.of(options, Path())
    except ConfigError as error:
        return [str(error)]
    return []


MIRROR = (
    Option("name", str, "mirror", "What its tier is called."),
    Option("bootstrap", str, None, "The other cluster, HOST:PORT separated by commas."),
    Option("prefix", str, "", "Before the topics' names there."),
    Option("command_config", str, None, "Client properties of that cluster, if it is secured.", path=True),
)
LAKE_TABLE = (
    Option("table", str, None, "The table's directory or URI.", path=True),
    Option("table_format", str, "auto", "The table's format.", choices=("auto", "delta", "iceberg")),
    Option("storage_options", Mapping, {}, "Options of its store and catalog."),
)
JOB = Job(
    run,
    (
        Option("topics", list, REQUIRED, "Topics that are audited.", reads=True, example=["clicks"]),
        Option("audit_topic", str, None, "Topic in which producers say how many they have sent.", example="audit"),
        Option("mirrors", dict, None, "Other clusters that have the topics.", fields=MIRROR),
        Option("lakes", dict, None, "Tables that have the topics, counted together.", fields=LAKE_TABLE),
        Option("since", str, None, "The first event time that counts, told to the very first run (default: then)."),
        Option("grace_seconds", int, 900, "How long places may differ after a bucket's end or change.", at_least=0),
        Option("keep_days", int, 30, "Buckets of earlier days are forgotten.", at_least=1, at_most=3650),
        Option("every_seconds", float, 60.0, "From look to look.", at_least=1),
        Option("table", str, None, "The table of counts (default: `tables/completeness` in the pipeline's directory).",
               path=True),
        Option("alarm_command", list, [], "A command that gets each difference as JSON on its standard input."),
        Option("alarm_topic", str, None, "A topic that gets it.", writes=True),
    ),
    doc="""Counts records per topic and ten minutes of event time at producers, cluster, mirrors and lake, and tells
    where they differ. The counts are a table; a restart counts nothing twice.""",
    check=check,
)  # fmt: skip
