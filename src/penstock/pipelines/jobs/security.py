"""The job `security`: crawlers and abuse, found by how clients behave.

Per window, client and agent it makes a profile (`profiles`): how many requests in what time, how regular, how many
refused, how many without a referrer. `alerts` judges the profiles of closed windows by four rules:

- `rate`: more requests a second than a person makes, from one client and agent, counted by user: an office behind
  one address is many users.
- `regular`: intervals that hardly vary, over many requests.
- `login`: many refused requests, and most of all.
- `swarm`: an agent that many clients share, where a client's requests mostly come without a referrer: people follow
  links. The mean is over clients, so that one busy crawler under a usual browser's name does not discredit its users.

An alert goes to a topic when it begins (at least once; the key is the client) and into the Delta table `alerts`, where
one row is one episode: it grows while further windows have the same client and rule. Windows are judged once, when they
have closed: an alert comes at most a slide and `late_seconds` after the window's end. Events later than that are
dropped, and Spark counts them (numRowsDroppedByWatermark).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from penstock.pipelines.job import Job, Option
from penstock.pipelines.jobs.episodes import GONE
from penstock.pipelines.jobs.events import clicks
from penstock.pipelines.jobs.options import CLICK_OPTIONS, TABLES, start, table_path
from penstock.pipelines.jobs.tables import Write, results

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.pipelines.context import Context

TICK_MS = 500
"""Times are kept to this for regularity, so that a window's state is bounded, however many requests come."""
ALERT_KEYS = ("client", "rule", "began")
RULES = ("rate", "regular", "login", "swarm")


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When a profile is an alert.

    Args:
        rate: requests a second and user; `rate_requests` at least, over `rate_seconds` at least.
        regular_variation: standard deviation of the intervals by their mean, at most; of `regular_requests` at least,
            and of a mean of `regular_seconds` at least.
        login_refused: refused requests at least, which are `login_share` of all.
        swarm_clients: clients of one agent at least, with a mean of `swarm_share` of their requests without a referrer.
    """

    rate: float = 2.0
    rate_requests: int = 60
    rate_seconds: int = 30
    regular_variation: float = 0.15
    regular_requests: int = 10
    regular_seconds: float = 2.0
    login_refused: int = 10
    login_share: float = 0.6
    swarm_clients: int = 10
    swarm_share: float = 0.5


def profiles(events: DataFrame, *, seconds: int, slide_seconds: int) -> DataFrame:
    """The behaviour of each client and agent in a sliding window; a stream gives a window when it has closed."""
    from pyspark.sql import functions as f

    window = f.window("time", f"{seconds} seconds", f"{slide_seconds} seconds")
    profile = events.groupBy(window, "client", "agent").agg(
        f.count("*").alias("requests"),
        f.min("time").alias("first"),
        f.max("time").alias("last"),
        f.count_if(f.col("status").isin(401, 403)).alias("refused"),
        f.count_if(f.col("referrer").isNull()).alias("direct"),
        f.approx_count_distinct("user").alias("users"),
        f.collect_set((f.unix_millis("time") / TICK_MS).cast("bigint")).alias("ticks"),
    )
    return profile.select("window.start", "window.end", *(name for name in profile.columns if name != "window"))


def alerts(profiles: DataFrame, thresholds: Thresholds = Thresholds()) -> DataFrame:
    """The profiles that break a rule: client, agent, rule, began, until, requests, figure; a row a rule.

    `figure` is what the rule measured. `profiles` must have all clients of a window, for the rule of agents.
    """
    from pyspark.sql import functions as f

    t = thresholds
    seconds = f.greatest(f.unix_millis("last") - f.unix_millis("first"), f.lit(t.rate_seconds * 1000)) / 1000
    mean, deviation = intervals(f.col("ticks"))
    agents = profiles.groupBy(f.col("start").alias("agent_start"), f.col("agent").alias("agent_name")).agg(
        f.count_distinct("client").alias("agent_clients"),
        f.avg(f.col("direct") / f.col("requests")).alias("agent_direct"),
    )
    same = (f.col("start") == f.col("agent_start")) & f.col("agent").eqNullSafe(f.col("agent_name"))
    figures = profiles.join(agents, same).select(
        *("client", "agent", "start", "end", "requests", "refused", "agent_clients", "agent_direct"),
        (f.col("requests") / seconds / f.greatest("users", f.lit(1))).alias("rate"),
        (f.col("refused") / f.col("requests")).alias("refused_share"),
        mean.alias("interval"),
        (deviation / mean).alias("variation"),
        f.size("ticks").alias("moments"),
    )
    rules: Mapping[str, tuple[Column, str]] = {
        "rate": ((f.col("requests") >= t.rate_requests) & (f.col("rate") >= t.rate), "rate"),
        "regular": (
            (f.col("moments") > t.regular_requests)
            & (f.col("interval") >= t.regular_seconds)
            & (f.col("variation") <= t.regular_variation),
            "variation",
        ),
        "login": ((f.col("refused") >= t.login_refused) & (f.col("refused_share") >= t.login_share), "refused"),
        "swarm": (
            (f.col("agent_clients") >= t.swarm_clients) & (f.col("agent_direct") >= t.swarm_share),
            "agent_direct",
        ),
    }
    assert tuple(rules) == RULES
    broken = [
        f.when(rule, f.struct(f.lit(name).alias("rule"), f.col(figure).cast("double").alias("figure")))
        for name, (rule, figure) in rules.items()
    ]
    found = figures.select(
        "client", "agent", "start", "end", "requests", f.explode(f.array_compact(f.array(*broken))).alias("b")
    )
    return found.select(
        "client", "agent", "b.rule", f.col("start").alias("began"), f.col("end").alias("until"), "requests", "b.figure"
    )


def intervals(ticks: Column) -> tuple[Column, Column]:
    """Mean and standard deviation, in seconds, of the intervals between moments given as a set of ticks."""
    from pyspark.sql import functions as f

    ordered = f.array_sort(ticks)
    later, earlier = f.slice(ordered, f.lit(2), f.size(ordered)), ordered
    gaps = f.filter(f.zip_with(later, earlier, lambda a, b: (a - b) * (TICK_MS / 1000)), lambda gap: gap.isNotNull())
    count = f.nullif(f.size(gaps), f.lit(0))
    zero = f.lit(0.0)
    mean = f.aggregate(gaps, zero, lambda sum_, gap: sum_ + gap) / count
    square = f.aggregate(gaps, zero, lambda sum_, gap: sum_ + gap * gap) / count
    return mean, f.sqrt(f.greatest(square - mean * mean, zero))


def run(context: Context) -> Sequence[StreamingQuery]:
    """Starts the queries."""
    options = context.options
    good, queries = clicks(context)
    events = good.withWatermark("time", f"{options['late_seconds']} seconds")
    seen = profiles(events, seconds=options["window_seconds"], slide_seconds=options["slide_seconds"])
    topic = options["alerts_topic"]
    to_topic = {**context.source(), "topic": topic} if topic else None
    limits = {name: options[name] for name in asdict(Thresholds())}
    path = table_path(context)("alerts")
    write = judge(path, limits, to_topic, results(context, path, "alerts", ALERT_KEYS, deleteWhen=GONE))
    return [*queries, start(context, seen, "alerts", write, mode="append")]


def judge(path: str, limits: Mapping[str, Any], to_topic: Mapping[str, str] | None, write: Write) -> Write:
    """Returns the function that judges a batch of closed windows: new episodes go to the topic, all of them to the
    table.
    """

    def send(begun: DataFrame) -> None:
        from penstock.pipelines.jobs.security import records

        records(begun).write.format("penstock").options(**to_topic or {}).mode("append").save()

    def judged(rows: DataFrame, number: int) -> None:
        from penstock.pipelines.jobs.episodes import raise_alerts
        from penstock.pipelines.jobs.security import Thresholds, alerts

        found = alerts(rows, Thresholds(**limits))
        raise_alerts(
            found,
            number,
            path=path,
            keys=("client", "rule"),
            weight="requests",
            write=write,
            send=send if to_topic is not None else None,
        )

    return judged


def records(alerts: DataFrame) -> DataFrame:
    """Alerts as records: the key is the client, the value JSON, times in milliseconds."""
    from pyspark.sql import functions as f

    times = [f.unix_millis(name).alias(f"{name}_ms") for name in ("began", "until")]
    fields = f.struct("client", "agent", "rule", *times, "requests", "figure")
    return alerts.select(f.col("client").cast("binary").alias("key"), f.to_json(fields).cast("binary").alias("value"))


def threshold_options() -> tuple[Option, ...]:
    said = {
        "rate": "Rule rate: requests a second and user, at least.",
        "rate_requests": "Rule rate: requests in the window, at least.",
        "rate_seconds": "Rule rate: the time over which the rate is taken, at least.",
        "regular_variation": "Rule regular: standard deviation of the intervals by their mean, at most.",
        "regular_requests": "Rule regular: requests in the window, more than.",
        "regular_seconds": "Rule regular: mean of the intervals, at least.",
        "login_refused": "Rule login: refused requests (401, 403) in the window, at least.",
        "login_share": "Rule login: their share of the client's requests, at least.",
        "swarm_clients": "Rule swarm: clients of one agent in the window, at least.",
        "swarm_share": "Rule swarm: their mean share of requests without a referrer, at least.",
    }
    return tuple(
        Option(name, type(default), default, said[name], at_least=0) for name, default in asdict(Thresholds()).items()
    )


JOB = Job(
    run,
    (
        *CLICK_OPTIONS,
        TABLES,
        Option("alerts_topic", str, None, "Topic for alerts; without one they go only to the table.", writes=True),
        Option("window_seconds", int, 300, "How long a client is watched for a judgement.", at_least=10),
        Option("slide_seconds", int, 60, "Interval between the starts of windows, in seconds.", at_least=1),
        *threshold_options(),
    ),
    doc="Finds crawlers and abuse by how clients behave. Alerts go to a topic and a Delta table.",
)
