"""Proves of a table and its quarantine together that each offset is in exactly one of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from penstock.spark.lake.offsets import held_by
from penstock.spark.lake.table import LakeTable
from penstock.spark.lake.verify import PartitionVerdict, verify
from penstock.spark.load.work import QUARANTINED


@dataclass(slots=True)
class PairVerdict:
    """What the two tables hold, each by itself, and what is wrong between them, in sentences."""

    table: list[PartitionVerdict]
    quarantine: list[PartitionVerdict]
    wrong: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not self.wrong

    @property
    def rows(self) -> int:
        """Of both."""
        return sum(each.rows for each in [*self.table, *self.quarantine])


def verify_both(lake: LakeTable, quarantine: LakeTable) -> PairVerdict:
    """Each table clean by itself, no offset in both, and as many in the quarantine as the table says are there.

    An offset that is in neither would be missing from the table; one that the table says is quarantined, and is not
    there, shows in the counts, since no offset is in the quarantine twice or in both.
    """
    verdict = PairVerdict(verify(lake), verify(quarantine))
    for name, some in (("the table", verdict.table), ("the quarantine", verdict.quarantine)):
        verdict.wrong += [f"{name} is not clean at {v.topic}-{v.partition}" for v in some if not v.clean]
    told = {(v.topic, v.topic_id, v.partition): v.gaps.get(QUARANTINED, 0) for v in verdict.table}
    has = {(v.topic, v.topic_id, v.partition): v.rows for v in verdict.quarantine}
    for key in sorted({*told, *has}):
        if told.get(key, 0) != has.get(key, 0):
            topic, _, partition = key
            wrong = f"{topic}-{partition}: the table says {told.get(key, 0)} are quarantined, {has.get(key, 0)} are"
            verdict.wrong.append(wrong)
    rows, rejected = held_by(lake, None), held_by(quarantine, None)
    for at in sorted(set(rows) & set(rejected)):
        runs = np.concatenate([rows[at].runs, rejected[at].runs])
        runs = runs[np.argsort(runs[:, 0], kind="stable")]
        if (runs[1:, 0] < np.maximum.accumulate(runs[:, 1])[:-1]).any():
            verdict.wrong.append(f"{at.topic}-{at.partition}: an offset is in both tables")
    return verdict
