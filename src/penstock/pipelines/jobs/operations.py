"""The job `operations`: metrics of hosts and services, rolled up, watched and summed up.

It reads flat JSON events: `time_ms`, `kind` and whatever numbers they carry, such as

    {"time_ms":1800000000000,"host":"web-1","kind":"cpu","core":0,"busy_percent":12.5}
    {"time_ms":1800000000000,"kind":"request","api":"Produce","requests":120,"mean_ms":0.4}

A number becomes the metric KIND.FIELD of a service: the kind and what tells its instances apart (`identities`: the
core, the disk, the API). From all of them come the Delta tables

- `rollups`: count, sum, least, greatest and last value per 10 s, minute and hour;
- `alerts`: episodes of values beyond a threshold, or far from what they were lately;
- `summary`: one row a service and metric, over the last hour.

Tasks upsert the rows by key, and a repeated batch is known by its number. Late events count until their hour has closed
(`late_seconds` after it ended); Spark counts later ones (numRowsDroppedByWatermark).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.pipelines.job import REQUIRED, Job, Option
from penstock.pipelines.jobs.episodes import GONE
from penstock.pipelines.jobs.events import TIME_MS_MAX
from penstock.pipelines.jobs.options import AHEAD_SECONDS, LATE_SECONDS, STARTING, TABLES, start, table_path
from penstock.pipelines.jobs.tables import Write, results

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.pipelines.context import Context

IDENTITIES = ("core", "disk", "interface", "api", "topic", "name")
NO_METRICS = ("time_ms", "host", "kind", "pid")
RESOLUTIONS = (10, 60, 3600)
HOUR_US = 3_600_000_000
SERIES = ("host", "service", "metric")
ROLLUP_KEYS = ("seconds", "start", *SERIES)
ALERT_KEYS = (*SERIES, "rule")
STATISTICS = {"mean": "sum / count", "min": "min", "max": "max", "last": "last", "sum": "sum"}
RULE = re.compile(r"(?P<metric>[\w.]+) (?P<statistic>\w+) (?P<sign>[<>]) (?P<limit>-?[\d.]+) over (?P<seconds>\d+)")


@dataclass(frozen=True, slots=True)
class Rule:
    """A threshold: `cpu.busy_percent mean > 90 over 60`."""

    metric: str
    statistic: str
    sign: str
    limit: float
    seconds: int

    @classmethod
    def parse(cls, text: str) -> Rule:
        """Parses a rule. Raises ValueError, which says what a rule must look like."""
        found = RULE.fullmatch(text.strip())
        if found is None or found["statistic"] not in STATISTICS or int(found["seconds"]) not in RESOLUTIONS:
            raise ValueError(
                f"{text!r} is no rule: it must be METRIC STATISTIC SIGN NUMBER over SECONDS, such as "
                f"cpu.busy_percent mean > 90 over 60, with a statistic of {', '.join(STATISTICS)}, "
                f"a sign of < or >, and seconds of {', '.join(map(str, RESOLUTIONS))}"
            )
        return cls(found["metric"], found["statistic"], found["sign"], float(found["limit"]), int(found["seconds"]))

    @property
    def name(self) -> str:
        return f"{self.metric} {self.statistic} {self.sign} {self.limit:g} over {self.seconds}"


def judged(records: DataFrame, ahead_seconds: int) -> DataFrame:
    """Records with their fields as the map `event`, their `time`, and the `reason` of those that are no event."""
    from pyspark.sql import functions as f

    text = f.col("value").cast("string")
    rows = records.withColumn("event", f.from_json(text, "map<string,string>"))
    time_ms = f.expr("try_cast(event['time_ms'] as bigint)")
    possible = time_ms.between(0, TIME_MS_MAX)
    ahead = time_ms > f.unix_millis(f.current_timestamp()) + 1000 * ahead_seconds
    reason = (
        f.when(f.col("value").isNull(), "no value")
        .when(f.col("event").isNull(), "not a JSON object")
        .when(time_ms.isNull() | ~possible, "no time_ms")
        .when(f.col("event")["kind"].isNull(), "no kind")
        .when(ahead, "time_ms is ahead of the clock")
    )
    return rows.select("*", f.when(possible, f.timestamp_millis(time_ms)).alias("time"), reason.alias("reason"))


def measurements(events: DataFrame, identities: Sequence[str] = IDENTITIES) -> DataFrame:
    """The numbers of events: time, host, service, metric, value; a row a number.

    Args:
        events: with `time` and the map `event`.
        identities: the fields that tell instances of a kind apart; the first that an event has names it.
    """
    from pyspark.sql import functions as f

    event = f.col("event")
    named = f.coalesce(*(event[name] for name in identities), f.lit(""))
    service = f.rtrim(f.concat(event["kind"], f.lit(" "), named))
    other = [*identities, *NO_METRICS]
    numbers = f.map_filter(
        f.transform_values(event, lambda _, text: text.try_cast("double")),
        lambda name, number: number.isNotNull() & ~f.isnan(number) & ~name.isin(other),
    )
    each = events.select("time", f.coalesce(event["host"], f.lit("")).alias("host"), service.alias("service"),
                         event["kind"].alias("kind"), f.explode(numbers).alias("field", "value"))  # fmt: skip
    return each.select("time", "host", "service", f.concat("kind", f.lit("."), "field").alias("metric"), "value")


def rollups(measured: DataFrame) -> DataFrame:
    """Measurements per 10 s, minute and hour: seconds, start, host, service, metric, count, sum, min, max, last.

    One aggregation for all three: the window of the hour tells a stream when it may forget, the finer starts are plain
    columns within it.
    """
    from pyspark.sql import functions as f

    seconds = f.explode(f.array(*map(f.lit, RESOLUTIONS))).alias("seconds")
    each = measured.select("*", seconds)
    start = f.timestamp_seconds(f.floor(f.unix_seconds("time") / f.col("seconds")) * f.col("seconds"))
    grouped = each.withColumn("start", start).groupBy(f.window("time", "1 hour"), *ROLLUP_KEYS)
    return grouped.agg(
        f.count("*").alias("count"),
        f.sum("value").alias("sum"),
        f.min("value").alias("min"),
        f.max("value").alias("max"),
        f.max_by("value", "time").alias("last"),
    ).drop("window")


def beyond(rolled: DataFrame, rules: Sequence[Rule]) -> DataFrame:
    """Rollups that break a rule: host, service, metric, rule, began, until, value, usual; `usual` is the limit."""
    from pyspark.sql import functions as f

    broken = []
    for rule in rules:
        value = f.expr(STATISTICS[rule.statistic])
        concerned = (f.col("metric") == rule.metric) & (f.col("seconds") == rule.seconds)
        is_beyond = value > rule.limit if rule.sign == ">" else value < rule.limit
        told = f.struct(f.lit(rule.name).alias("rule"), value.alias("value"), f.lit(rule.limit).alias("usual"))
        broken.append(f.when(concerned & is_beyond, told))
    none = f.expr("cast(null as struct<rule: string, value: double, usual: double>)")
    each = rolled.select("*", f.explode(f.array_compact(f.array(none, *broken))).alias("b"))
    until = f.timestamp_seconds(f.unix_seconds("start") + f.col("seconds"))
    return each.select(*SERIES, "b.rule", f.col("start").alias("began"), until.alias("until"), "b.value", "b.usual")


def changed(rolled: DataFrame, *, deviations: float, points: int = 12, share: float = 0.5) -> DataFrame:
    """Rollups of 10 s whose mean is far from those of the `points` before: columns as of `beyond`.

    Far is more than `deviations` standard deviations and more than `share` of the usual mean; at least half of the
    points must be there. `usual` is the mean of the points before.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    before = Window.partitionBy(*SERIES).orderBy("start").rowsBetween(-points, -1)
    value = f.col("sum") / f.col("count")
    each = rolled.where("seconds = 10").select(*SERIES, "start", value.alias("value"))
    known = each.select(
        "*",
        f.avg("value").over(before).alias("usual"),
        f.stddev_pop("value").over(before).alias("deviation"),
        f.count("*").over(before).alias("points"),
    )
    off = f.abs(f.col("value") - f.col("usual"))
    far = known.where(
        (f.col("points") >= points // 2)
        & (off > deviations * f.col("deviation"))
        & (off > share * f.abs(f.col("usual")))
    )
    until = f.timestamp_seconds(f.unix_seconds("start") + 10)
    rule = f.lit("change").alias("rule")
    return far.select(*SERIES, rule, f.col("start").alias("began"), until.alias("until"), "value", "usual")


def summary(rolled: DataFrame) -> DataFrame:
    """One row a series, from its rollups of a minute: host, service, metric, since, until, count and statistics."""
    from pyspark.sql import functions as f

    until = f.timestamp_seconds(f.unix_seconds(f.max("start")) + 60)
    return (
        rolled.where("seconds = 60")
        .groupBy(*SERIES)
        .agg(
            f.min("start").alias("since"),
            until.alias("until"),
            f.sum("count").alias("count"),
            (f.sum("sum") / f.sum("count")).alias("mean"),
            f.min("min").alias("min"),
            f.max("max").alias("max"),
            f.max_by("last", "start").alias("last"),
        )
    )


def run(context: Context) -> Sequence[StreamingQuery]:
    """Starts the queries."""
    options = context.options
    records = context.read(*options["topics"], starting=options["starting"])
    rows = judged(records, options["ahead_seconds"])
    good, bad = context.split(rows, rows["reason"])
    events = good.withWatermark("time", f"{options['late_seconds']} seconds")
    rolled = rollups(measurements(events, options["identities"]))
    to_topic = {**context.source(), "topic": options["alerts_topic"]} if options["alerts_topic"] else None
    path = table_path(context)
    writes = {
        "rollups": results(context, path("rollups"), "rollups", ROLLUP_KEYS),
        "summary": results(context, path("summary"), "rollups", SERIES),
        "alerts": results(context, path("alerts"), "rollups", (*ALERT_KEYS, "began"), deleteWhen=GONE),
    }
    paths = {name: path(name) for name in writes}
    write = keep(paths, writes, list(options["rules"]), options["change_deviations"], to_topic)
    return [*context.dead_letters(bad), start(context, rolled, "rollups", write)]


def keep(
    paths: Mapping[str, str],
    writes: Mapping[str, Write],
    rules: Sequence[str],
    deviations: float,
    to_topic: Mapping[str, str] | None,
) -> Write:
    """Returns the function that writes a batch of rollups, and the alerts and summary computed from the last hour."""

    def send(begun: DataFrame) -> None:
        from penstock.pipelines.jobs.operations import records

        records(begun).write.format("penstock").options(**to_topic or {}).mode("append").save()

    def all_three(rows: DataFrame, number: int) -> None:
        from penstock.pipelines.jobs.episodes import raise_alerts
        from penstock.pipelines.jobs.operations import ALERT_KEYS, alerts, last_hour, recent, summary
        from penstock.pipelines.jobs.options import persisted

        writes["rollups"](rows, number)
        with persisted(recent(paths["rollups"], rows)) as lately:
            writes["summary"](summary(last_hour(lately)), number)
            raise_alerts(
                alerts(rows, lately, rules, deviations),
                number,
                path=paths["alerts"],
                keys=ALERT_KEYS,
                weight="value",
                write=writes["alerts"],
                send=send if to_topic is not None else None,
            )

    return all_three


def recent(path: str, found: DataFrame) -> DataFrame:
    """The table's rollups of 10 s and a minute since an hour before the latest of those found, at least one."""
    from pyspark.sql import functions as f

    from penstock.pipelines.jobs.tables import rows_since

    (latest,) = found.agg(f.unix_micros(f.max("start"))).collect()
    return rows_since(found, path, "start", latest[0] - HOUR_US).where("seconds < 3600")


def last_hour(lately: DataFrame) -> DataFrame:
    """Of the rollups that `recent` gives, the ones in the hour before the latest; a batch of late rows has not that."""
    from pyspark.sql import functions as f

    (latest,) = lately.agg(f.unix_micros(f.max("start"))).collect()
    return lately.where(f.unix_micros("start") >= latest[0] - HOUR_US)


def alerts(new: DataFrame, lately: DataFrame, rules: Sequence[str], deviations: float) -> DataFrame:
    """What is beyond a threshold among new rollups, or has changed there; columns as of `beyond`."""
    found = beyond(new, [Rule.parse(text) for text in rules])
    if not deviations:
        return found
    starts = new.where("seconds = 10").select(*SERIES, new["start"].alias("began"))
    return found.unionByName(changed(lately, deviations=deviations).join(starts, [*SERIES, "began"], "left_semi"))


def records(alerts: DataFrame) -> DataFrame:
    """Alerts as records: the key is host and service, the value JSON, times in milliseconds."""
    from pyspark.sql import functions as f

    times = [f.unix_millis(name).alias(f"{name}_ms") for name in ("began", "until")]
    fields = f.struct(*SERIES, "rule", *times, "value", "usual")
    key = f.ltrim(f.concat("host", f.lit(" "), "service"))
    return alerts.select(key.cast("binary").alias("key"), f.to_json(fields).cast("binary").alias("value"))


def check(options: Mapping[str, Any]) -> list[str]:
    """The faults of the rules."""
    wrong = []
    for text in options["rules"]:
        try:
            Rule.parse(text)
        except ValueError as error:
            wrong.append(f"rules: {error}")
    return wrong


JOB = Job(
    run,
    (
        Option("topics", list, REQUIRED, "Topics of metrics, as flat JSON.", reads=True, example=["operations"]),
        STARTING,
        LATE_SECONDS,
        AHEAD_SECONDS,
        TABLES,
        Option(
            "identities", list, list(IDENTITIES), "Fields that tell instances of a kind apart; the first found counts."
        ),
        Option(
            "rules",
            list,
            ["cpu.busy_percent mean > 90 over 60"],
            "Thresholds, as METRIC STATISTIC SIGN NUMBER over SECONDS.",
        ),
        Option(
            "change_deviations",
            float,
            6.0,
            "Alert when a 10 s mean is this many standard deviations from the two minutes before it; 0: never.",
            at_least=0,
        ),
        Option("alerts_topic", str, None, "Topic for alerts; without one they go only to the table.", writes=True),
    ),
    doc="Rolls metrics up to 10 s, a minute and an hour, watches thresholds and changes. Sums up each service.",
    check=check,
)
