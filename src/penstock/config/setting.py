"""A setting: its name, type, default, bounds, scope and meaning, declared once and in one place.

A group of settings is a class whose attributes are `Setting`s. Through the class one gets the declaration
(`Settings.log_segment_bytes.default`), through an instance the value (`settings.log_segment_bytes`), typed:

    class NetworkSettings(Group):
        max_connections = Setting("max.connections", INT, default=2**31 - 1, at_least=0).documented("...")

`Setting` is a descriptor without `__set__`, so a value that stands in the instance's `__dict__` is found first and
reading one costs what reading any attribute costs. Instances are immutable.

Values are read and printed exactly as Kafka's ConfigDef does it (types BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST,
CLASS, PASSWORD): tools compare the printed form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from enum import Enum, IntEnum
from typing import Any, Generic, Self, TypeVar, overload

from penstock.config.values import HIDDEN, ValueType, shown
from penstock.errors import ConfigError

T = TypeVar("T")


class Dynamic(Enum):
    """Whether a broker setting can be changed while the broker runs, and for whom (Kafka's update modes)."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER = "cluster-wide"


READ_ONLY = Dynamic.READ_ONLY
PER_BROKER = Dynamic.PER_BROKER
CLUSTER = Dynamic.CLUSTER


class Source(IntEnum):
    """Where a value comes from, numbered as in DescribeConfigs."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


@dataclass(slots=True, eq=False)
class Setting(Generic[T]):
    """The declaration of one setting.

    Parameters: `name` as in a properties file; `type`, one of `penstock.config.values`; `default`, the value when
    nothing is given; `at_least`, `at_most`, inclusive bounds; `also`, values allowed outside the bounds; `one_of`,
    the allowed values of a STRING or elements of a LIST, in `any_case` or as they stand; `check`, a function of the
    value that returns the end of a sentence when it is wrong (see `penstock.config.checks`); `dynamic`, who may change
    it at run time; `remote`, like `check`, for a value that comes through the cluster instead of the node's own file;
    `topic`, the topic config that this broker setting is the default of; `broker`, for a topic config,
    the broker settings that give its default, the first that is set wins, each with the factor that turns its unit
    into ours; `required`, no default makes sense; `internal`, hidden from DescribeConfigs and the docs, as in Kafka;
    `doc`, what it means: `Setting(...).documented("...")`.
    """

    name: str
    type: ValueType[T]
    _: KW_ONLY
    default: T
    doc: str = ""
    at_least: float | None = None
    at_most: float | None = None
    also: tuple[Any, ...] = ()
    one_of: tuple[str, ...] = ()
    any_case: bool = False
    check: Callable[[Any], str | None] | None = None
    dynamic: Dynamic = READ_ONLY
    remote: Callable[[Any], str | None] | None = None
    topic: str | None = None
    broker: tuple[tuple[str, int], ...] = ()
    required: bool = False
    internal: bool = False

    @property
    def attribute(self) -> str:
        """The name as an attribute of a group has it."""
        return self.name.replace(".", "_")

    def documented(self, doc: str) -> Setting[T]:
        """The same with its meaning, in sentences that the docs and DescribeConfigs show."""
        return replace(self, doc=doc)

    def __set_name__(self, owner: object, name: str) -> None:
        assert name == self.attribute, f"{owner}.{name} declares {self.name}: call it {self.attribute}"

    @overload
    def __get__(self, instance: None, owner: object) -> Setting[T]: ...
    @overload
    def __get__(self, instance: object, owner: object) -> T: ...
    def __get__(self, instance: object, owner: object) -> Setting[T] | T:
        if instance is None:
            return self
        return self.default  # a group that is still being built; afterwards the instance's own value is found first

    def parse(self, text: str) -> T:
        """The value written as `text`. Raises ConfigError, which says what is wrong and what would be right."""
        quoted = HIDDEN if self.type.sensitive else shown(text)
        try:
            value = self.type.parse(text)
        except ValueError as wrong:
            raise ConfigError(f'{self.name} = "{quoted}" {wrong}{self.wanted(": it must be ")}') from None
        problem = self.problem(value)
        if problem is not None:
            raise ConfigError(f'{self.name} = "{quoted}" {problem}')
        return value

    def parse_remote(self, text: str) -> T:
        """Like `parse`, for a dynamic config: who may change those must not name code, for one. Raises ConfigError."""
        value = self.parse(text)
        problem = None if self.remote is None else self.remote(value)
        if problem is not None:
            raise ConfigError(f'{self.name} = "{HIDDEN if self.type.sensitive else shown(text)}" {problem}')
        return value

    def problem(self, value: T) -> str | None:
        """The fault of a parsed value, as the end of a sentence; None if it is valid."""
        if value is None or value in self.also:
            return None
        if isinstance(value, int | float):
            if self.at_least is not None and value < self.at_least:
                return f"is too small{self.wanted(': it must be ')}"
            if self.at_most is not None and value > self.at_most:
                return f"is too large{self.wanted(': it must be ')}"
        if self.one_of:
            for element in value if isinstance(value, tuple) else (value,):
                if (str(element).upper() if self.any_case else element) not in self.one_of:
                    return f"is not known{self.wanted(': it must be ')}"
        return self.check(value) if self.check is not None else None

    def wanted(self, prefix: str = "") -> str:
        """The bounds in words: `at least 1 MiB (1048576)`; empty when anything of the type goes."""
        parts = []
        if self.one_of:
            what = "some of " if self.type.name == "LIST" else "one of "
            parts.append(what + ", ".join(self.one_of))
        if self.at_least is not None and self.at_most is not None:
            parts.append(f"from {self.quantity(self.at_least)} to {self.quantity(self.at_most)}")
        elif self.at_least is not None:
            parts.append(f"at least {self.quantity(self.at_least)}")
        elif self.at_most is not None:
            parts.append(f"at most {self.quantity(self.at_most)}")
        parts.extend(str(value) for value in self.also)
        return prefix + " or ".join(parts) if parts else ""

    def quantity(self, value: float) -> str:
        """A number with its unit, when the name says which: `1 MiB (1048576)`, `7 days (604800000)`."""
        number = str(value)
        units = UNITS.get(self.name.rpartition(".")[2], ())
        for size, unit in units:
            if value >= size and value % size == 0:
                return f"{int(value // size)} {unit}{'s' if unit in PLURAL and value != size else ''} ({number})"
        return number


BYTE_UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
TIME_UNITS = ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1_000, "second"))
PLURAL = frozenset(unit for _, unit in TIME_UNITS)
UNITS = {"bytes": BYTE_UNITS, "ms": TIME_UNITS}


class Group:
    """A class of settings; an instance holds a value for each, found as an attribute."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        """`values`: attribute name to parsed value, one for each setting of the class."""
        self.__dict__.update(values)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: {name} cannot be deleted")

    @classmethod
    def declared(cls) -> Iterator[Setting[Any]]:
        """Every setting of this class and its bases, in the order of declaration."""
        for base in reversed(cls.__mro__):
            for attribute in vars(base).values():
                if isinstance(attribute, Setting):
                    yield attribute

    @classmethod
    def by_name(cls) -> dict[str, Setting[Any]]:
        """Every setting under its property name."""
        return {setting.name: setting for setting in cls.declared()}

    @classmethod
    def defaults(cls) -> Self:
        """All settings at their declared defaults."""
        return cls({setting.attribute: setting.default for setting in cls.declared()})

    def __repr__(self) -> str:
        changed = (
            f"{setting.attribute}={setting.type.redacted(getattr(self, setting.attribute))}"
            for setting in self.declared()
            if getattr(self, setting.attribute) != setting.default
        )
        return f"{type(self).__name__}({', '.join(changed)})"
