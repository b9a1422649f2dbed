"""What a job is: a plain PySpark function, and the options that it declares.

    def run(context: Context) -> Sequence[StreamingQuery | Step]:
        views = context.read(context.options["topic"])
        counts = per_minute(views)                     # a plain function, DataFrame to DataFrame
        return [context.write(counts, context.options["counts_topic"], query="counts")]

    JOB = Job(run, (Option("topic", str, REQUIRED, "topic of views", reads=True), ...), doc="Counts views a minute.")

A job returns what goes on after the function has returned: streaming queries, which Spark drives, and steps, which the
pipeline's thread calls again and again. A job that returns nothing has done its work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.pipelines.context import Context
    from penstock.pipelines.step import Step


class _Required(Enum):
    REQUIRED = "required"


REQUIRED: Final = _Required.REQUIRED
"""The default of an option that a pipeline must set."""

TYPE_NAMES: dict[Any, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list of texts",
    dict: "tables",
    Mapping: "a section of texts",
}


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a job, as it stands under `[options]` in a pipeline's file.

    Args:
        name: in snake_case, units last.
        type: str, int, float, bool, list (of texts), Mapping (of texts by name), or dict (an array of tables, each
            with the options `fields`).
        default: what it is when the file does not say; None: unset; REQUIRED: the file must say.
        doc: one or two sentences for a person.
        choices: the only values it may have, if not empty.
        at_least, at_most: bounds of a number.
        reads, writes: it names a topic, or topics, that the job reads (must exist) or writes.
        path: it is a file or directory; a relative one counts from the pipeline's file.
        example: a value for the file that `penstock pipeline init` writes; the default serves when there is one.
        fields: the options of each table, where `type` is dict.
    """

    name: str
    type: Any
    default: Any
    doc: str
    choices: Sequence[str] = ()
    at_least: float | None = None
    at_most: float | None = None
    reads: bool = False
    writes: bool = False
    path: bool = False
    example: Any = None
    fields: Sequence[Option] = ()

    def __post_init__(self) -> None:
        assert self.type in TYPE_NAMES, f"option {self.name}: {self.type} is no type of an option"
        assert bool(self.fields) == (self.type is dict), f"option {self.name}: tables have fields, others have none"

    @property
    def required(self) -> bool:
        return self.default is REQUIRED

    def problem(self, value: Any) -> str | None:
        """The fault of a value, with what it may be; None if it is valid."""
        number = self.type is float and isinstance(value, int) and not isinstance(value, bool)
        texts = isinstance(value, dict) and all(isinstance(each, str) for each in value.values())
        if not (number or (texts and self.type is Mapping) or type(value) is self.type):
            return f"is {_text(value)}, it must be {TYPE_NAMES[self.type]}"
        if self.type is list and not all(isinstance(each, str) and each for each in value):
            return f"is {_text(value)}, it must be {TYPE_NAMES[self.type]}, none of them empty"
        if self.choices and value not in self.choices:
            return f"is {_text(value)}, it must be one of {', '.join(self.choices)}"
        if self.at_least is not None and value < self.at_least:
            return f"is {value}, it must be at least {self.at_least:g}"
        if self.at_most is not None and value > self.at_most:
            return f"is {value}, it must be at most {self.at_most:g}"
        return None


def _text(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)


Function = Callable[["Context"], "Sequence[StreamingQuery | Step] | None"]


@dataclass(frozen=True, slots=True)
class Job:
    """A job that pipelines can name.

    Args:
        run: begins the work; returns the queries it started and the steps to be driven.
        options: what may stand under `[options]`; the order is that of the generated file and page.
        doc: what the job does; the first sentence is its summary.
        check: says what is wrong with a set of options that are each right, a sentence a problem.
        open_options: any option is let through as it is (functions that declare nothing).
    """

    run: Function
    options: Sequence[Option] = ()
    doc: str = ""
    check: Callable[[dict[str, Any]], Sequence[str]] | None = None
    open_options: bool = False

    @property
    def summary(self) -> str:
        """The first sentence of `doc`."""
        return " ".join(self.doc.split()).partition(". ")[0].rstrip(".")
