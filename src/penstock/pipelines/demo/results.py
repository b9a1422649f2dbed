"""The part of the demo's report that tells what the pipelines found, from their Delta tables."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import pyarrow as pa

from penstock.pipelines.demo.pipelines import Batch
from penstock.pipelines.drawing import svg
from penstock.pipelines.drawing.page import Fact, card, table
from penstock.pipelines.generate.clicks import Planted
from penstock.pipelines.generate.truth import Score, score
from penstock.pipelines.jobs.security import RULES

Table = Callable[[str, str], pa.Table | None]
Rows = list[dict[str, Any]]

KINDS = {
    "scraper": "asks for page after page, several a second",
    "regular": "slow, at intervals that no person keeps",
    "distributed": "dozens of addresses under one agent",
    "login": "tries user after user",
}
COUNTRIES_SHOWN, PAGES_SHOWN, ALERTS_SHOWN, SERVICES_SHOWN = 6, 10, 10, 12
SUMMARY_METRICS = ("cpu.busy_percent", "request.requests", "request.mean_ms", "topic.records_in", "process.cpu_percent")


class Results:
    """The results in the demo's tables.

    Args:
        read: a table of a job by name, as `Pipelines.table`.
        clicks: how many were published.
        planted: the crawlers among them.
        batches: of the pipelines.
    """

    def __init__(self, read: Table, clicks: int, planted: Sequence[Planted], batches: Sequence[Batch]) -> None:
        self.clicks, self.planted, self.batches = clicks, planted, batches
        self.counts = rows(read("activity", "counts"))
        self.popular = rows(read("activity", "popular"))
        self.sessions = rows(read("activity", "sessions"))
        self.alerts = rows(read("security", "alerts"))
        self.rollups = rows(read("operations", "rollups"))
        self.summary = rows(read("operations", "summary"))
        self.operations_alerts = rows(read("operations", "alerts"))

    @property
    def requests(self) -> int:
        """How many requests the counts have: every one has a page."""
        return sum(row["requests"] for row in self.counts if row["dimension"] == "page")

    def score(self) -> Score:
        """How well the crawlers were found."""
        return score((row["client"] for row in self.alerts), self.planted)

    def said(self) -> list[str]:
        """Lines for a terminal."""
        found = self.score()
        top = ", ".join(f"{row['page']} ({row['requests']:,})" for row in self._leading()[:3])
        caught = len({row["client"] for row in self.alerts} & {each.client for each in self.planted})
        popular = f"; popular: {top}" if top else ""
        return [
            f"activity    {self.requests:,} of {self.clicks:,} clicks counted, "
            f"{len(self.sessions):,} sessions ended{popular}",
            f"security    {caught} of {len(self.planted)} planted addresses found, {len(found.false)} false alarms",
            f"operations  {len(self.rollups):,} rollups of {len(self.summary):,} series, "
            f"{len(self.operations_alerts):,} alerts",
        ]

    def facts(self) -> list[Fact]:
        """The figures at the top of the report."""
        found = self.score()
        mark = "good" if found.precision >= 0.9 and found.recall >= 0.9 else ""
        caught = len({row["client"] for row in self.alerts} & {each.client for each in self.planted})
        return [
            Fact(f"{len(self.sessions):,}", f"sessions, from {self.requests:,} requests"),
            Fact(
                f"{caught} of {len(self.planted)}", f"crawlers' addresses found, {len(found.false)} false alarms", mark
            ),
        ]

    def visitors(self) -> list[str]:
        """Cards of the job activity."""
        by_country: dict[str, list[svg.Point]] = defaultdict(list)
        total: Counter[float] = Counter()
        for row in sorted(self.counts, key=lambda row: row["minute"]):
            at = row["minute"].timestamp()
            if row["dimension"] == "country":
                by_country[row["name"]].append((at, row["requests"]))
            elif row["dimension"] == "page":
                total[at] += row["requests"]
        order = sorted(by_country, key=lambda name: -sum(value for _, value in by_country[name]))
        countries = {name: by_country[name] for name in order[:COUNTRIES_SHOWN]}
        leading = [(row["page"], float(row["requests"])) for row in self._leading()[:PAGES_SHOWN]]
        return [
            card(
                "Requests a minute", svg.lines({"all pages": sorted(total.items())}, svg.plain), note="Of event time."
            ),
            card("By country", svg.lines(countries, svg.plain), note=f"The {len(countries)} with most requests."),
            card(
                "Popular now", svg.bars(leading, svg.plain), note="Requests in the latest whole window of five minutes."
            ),
            card("Sessions", self._sessions(), note="A pause of two minutes ends one; those that have ended."),
        ]

    def abuse(self) -> list[str]:
        """Cards of the job security."""
        found, by_rule = self.score(), defaultdict(set)
        for row in self.alerts:
            by_rule[row["rule"]].add(row["client"])
        planted = Counter(each.kind for each in self.planted)
        lines = [
            [kind, what, f"{planted[kind]}", f"{round(found.recall_by_kind.get(kind, 0) * planted[kind])}"]
            for kind, what in KINDS.items()
        ]
        marks = ["good" if line[2] == line[3] else "" for line in lines]
        note = (
            f"Precision {found.precision:.0%}, recall {found.recall:.0%}. The detector does not know who was planted."
        )
        latest = sorted(self.alerts, key=lambda row: (row["rule"], row["began"]))
        one_each = list({(row["rule"], row["agent"]): row for row in latest}.values())[:ALERTS_SHOWN]
        alerts = [
            [row["client"], row["rule"], f"{row['began']:%H:%M}-{row['until']:%H:%M}",
             f"{row['requests']:,}", f"{row['figure']:.2f}"]
            for row in one_each
        ]  # fmt: skip
        bars = [(rule, float(len(by_rule[rule]))) for rule in RULES]
        return [
            card(
                "Planted and found", table(["kind", "what it does", "planted", "found"], lines, marks=marks), note=note
            ),
            card("Addresses with alerts, by rule", svg.bars(bars, svg.plain), note="One may break several rules."),
            card(
                "Alerts",
                table(["client", "rule", "from, to", "requests", "measured"], alerts),
                note="One of each rule and agent; all are in the topic alerts and in the table.",
                wide=True,
            ),
        ]

    def operations(self) -> list[str]:
        """Cards of the job operations."""
        cpu: dict[str, list[svg.Point]] = defaultdict(list)
        for row in sorted(self.rollups, key=lambda row: row["start"]):
            if row["seconds"] == 10 and row["metric"] == "cpu.busy_percent":
                cpu[row["service"]].append((row["start"].timestamp(), row["sum"] / row["count"]))
        wanted = [row for row in self.summary if row["metric"] in SUMMARY_METRICS]
        wanted.sort(key=lambda row: (SUMMARY_METRICS.index(row["metric"]), -row["mean"]))
        lines = [
            [
                row["service"],
                row["metric"].partition(".")[2],
                *(svg.plain(row[name]) for name in ("mean", "min", "max")),
            ]
            for row in wanted
        ][:SERVICES_SHOWN]
        alerts = [
            [row["service"], row["rule"] if row["rule"] != "change" else f"{row['metric']} changed",
             f"{row['began']:%H:%M:%S}", svg.plain(row["value"]), svg.plain(row["usual"])]
            for row in sorted(self.operations_alerts, key=lambda row: row["began"])[-ALERTS_SHOWN:]
        ]  # fmt: skip
        shown = table(["service", "what", "since", "value", "usual or limit"], alerts)
        return [
            card("CPU in rollups of 10 s", svg.lines(dict(sorted(cpu.items())), svg.percent, top=100)),
            card("Each service", table(["service", "metric", "mean", "least", "most"], lines), note="The last hour."),
            card("Alerts of the machine and the broker", shown if alerts else '<p class="none">none</p>', wide=True),
        ]

    def batch_card(self) -> str:
        """How long the pipelines' batches took."""
        spent: dict[str, list[svg.Point]] = defaultdict(list)
        for batch in self.batches:
            spent[batch.query].append((batch.at, batch.seconds * 1000))
        note = "One begins every five seconds; all share two cores with the broker, the load and the generator."
        return card("Microbatches of the pipelines", svg.lines(spent, svg.milliseconds), note=note)

    def _leading(self) -> Rows:
        """The popular pages of the latest window that the stream has passed."""
        newest = max((row["minute"] for row in self.counts), default=None)
        ends = {row["window_end"] for row in self.popular if newest is not None and row["window_end"] <= newest}
        if not ends:
            ends = {row["window_end"] for row in self.popular}
        latest = max(ends, default=None)
        return sorted((row for row in self.popular if row["window_end"] == latest), key=lambda row: row["rank"])

    def _sessions(self) -> str:
        if not self.sessions:
            return '<p class="none">none has ended yet</p>'
        entries = Counter(row["entry"] for row in self.sessions).most_common(1)[0]
        lines = [
            ["ended", f"{len(self.sessions):,}"],
            ["requests, median", f"{median(row['requests'] for row in self.sessions):.0f}"],
            ["duration, median", f"{median(row['seconds'] for row in self.sessions):.0f} s"],
            ["longest", f"{max(row['seconds'] for row in self.sessions) / 60:.0f} min"],
            ["one request only", f"{sum(row['requests'] == 1 for row in self.sessions):,}"],
            ["most begin at", f"{entries[0]} ({entries[1]:,})"],
        ]
        return table(["", ""], lines)


def rows(found: pa.Table | None) -> Rows:
    """A table's rows; none if there is no table yet."""
    return [] if found is None else found.to_pylist()
