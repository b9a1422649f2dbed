"""Where places differ: a tier against the one before it, by topic and bucket, once there was time to settle.

The cluster is held against what producers say, each mirror and the lake against the cluster. A bucket counts when it
has been over for the grace period, and when its expected number has not changed for as long: so a late record is no
alarm before the others had time to follow. What a tier has too many must not have changed for as long, either: it may
have been looked at a moment later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from penstock.pipelines.audit.producer import BUCKET_MS
from penstock.pipelines.audit.table import moment


@dataclass(frozen=True, slots=True)
class Line:
    """A bucket of a topic at a tier. `settled`: whether it has had the time to be as the tier before it."""

    topic: str
    bucket: datetime
    tier: str
    records: int
    against: str
    expected: int
    settled: bool

    @property
    def difference(self) -> int:
        return self.records - self.expected

    @property
    def text(self) -> str:
        """A sentence for a person."""
        more = "more" if self.difference > 0 else "fewer"
        at = self.bucket.strftime("%Y-%m-%dT%H:%MZ")
        return (
            f"{self.topic} {at}: {self.tier} has {abs(self.difference):,} records {more} than {self.against}"
            f" ({self.records:,} of {self.expected:,})"
        )


def compared(
    rows: pa.Table, tiers: Mapping[str, str], topics: Sequence[str], *, since_ms: int, now_ms: int, grace_ms: int
) -> list[Line]:
    """Each bucket of each tier, by time.

    Args:
        rows: of the counts' table.
        tiers: each with the tier that it is held against.
        topics: those that count.
        since_ms: the first bucket that counts.
        now_ms, grace_ms: see the module's head.
    """
    wanted = pc.and_(
        pc.greater_equal(rows["bucket"], pa.scalar(moment(since_ms), rows["bucket"].type)),
        pc.is_in(rows["topic"], pa.array(list(topics), pa.string())),
    )
    summed = rows.filter(wanted).group_by(["topic", "bucket", "tier"])
    found = summed.aggregate([("records", "sum"), ("changed", "max")])
    by_tier = {tier: found.filter(pc.equal(found["tier"], tier)) for tier in {*tiers, *tiers.values()}}
    before = moment(now_ms - grace_ms)
    over = moment(now_ms - grace_ms - BUCKET_MS)
    lines = []
    for tier, against in tiers.items():
        for topic, bucket, has, changed, wants, told in _beside(by_tier[tier], by_tier[against]):
            still = changed is None or changed <= before
            settled = bucket <= over and (told is None or told <= before) and (has <= wants or still)
            lines.append(Line(topic, bucket, tier, has, against, wants, settled))
    return sorted(lines, key=lambda each: (each.bucket, each.topic, list(tiers).index(each.tier)))


Beside = tuple[str, datetime, int, datetime | None, int, datetime | None]


def _beside(these: pa.Table, those: pa.Table) -> list[Beside]:
    """Buckets of both: records and when they changed, here and there."""
    keys, columns = ["topic", "bucket"], ["topic", "bucket", "records_sum", "changed_max"]
    joined = these.select(columns).join(
        those.select(columns), keys, join_type="full outer", right_suffix="_there", coalesce_keys=True
    )
    names = ("topic", "bucket", "records_sum", "changed_max", "records_sum_there", "changed_max_there")
    return [
        (topic, bucket, has or 0, changed, wants or 0, told)
        for topic, bucket, has, changed, wants, told in zip(*(joined[n].to_pylist() for n in names), strict=True)
    ]
