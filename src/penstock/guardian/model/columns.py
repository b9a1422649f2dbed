"""The columns of a model's files: their types, units, what may be missing, and what stands in for it."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.guardian.plan.model import RESOURCES

UNITS = {"cpu": "cores", "bytes": "bytes"}
"""Units of resources; the others are rates in bytes/s."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of one of the files.

    Attributes:
        name: as the file has it. type: Arrow's name of the type that values must fit into.
        unit: of numbers.
        default: what a file without the column has in it; None: the column must be there, without nulls.
        estimated: whether the column may be missing, or have nulls, since something else stands in for it.
        positive: whether 0 is refused, too.
    """

    name: str
    type: str
    unit: str = ""
    default: object = None
    estimated: bool = False
    positive: bool = False

    @property
    def required(self) -> bool:
        return self.default is None and not self.estimated


def loads() -> tuple[Column, ...]:
    """The load columns of replicas: in the present role, and in each role."""
    found = []
    for prefix in ("", "leader_", "follower_"):
        for suffix in ("", "_p95"):
            for name in RESOURCES:
                optional = bool(prefix or suffix)
                unit = UNITS.get(name, "bytes/s")
                found.append(Column(f"{prefix}{name}{suffix}", "double", unit, estimated=optional))
    return tuple(found)


FILES = {
    "brokers": (
        Column("broker", "int32"),
        Column("rack", "string", default=""),
        Column("idc", "string", default=""),
        Column("host", "string", default=""),
        Column("labels", "map<string, string>", default=()),
        Column("alive", "bool", default=True),
        Column("new", "bool", default=False),
        Column("cpu_capacity", "double", "cores", positive=True),
        Column("net_in_capacity", "double", "bytes/s", positive=True),
        Column("net_out_capacity", "double", "bytes/s", positive=True),
    ),
    "disks": (
        Column("broker", "int32"),
        Column("dir", "string"),
        Column("bytes_capacity", "double", "bytes", positive=True),
        Column("rate_capacity", "double", "bytes/s", positive=True),
        Column("alive", "bool", default=True),
    ),
    "replicas": (
        Column("topic", "string"),
        Column("partition", "int32"),
        Column("position", "int16"),
        Column("leader", "bool"),
        Column("broker", "int32"),
        Column("dir", "string"),
        *loads(),
    ),
}
"""The files of a model, each `NAME.parquet`, and their columns."""
