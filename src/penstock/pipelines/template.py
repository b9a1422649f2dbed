"""The file that `penstock pipeline init` writes: valid as it is, every option in it, those with a default commented."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from penstock.pipelines.job import Job, Option
from penstock.pipelines.reading import DEAD_LETTERS, KAFKA, PIPELINE, RESTART

WIDTH = 100
EXAMPLES: dict[Any, Any] = {str: "...", int: 0, float: 0.0, bool: False, list: ["..."]}


def template(job_name: str, job: Job, bootstrap: str | None = None) -> str:
    """A pipeline's file for a job.

    Args:
        job_name: as it stands in the file.
        job: what it names.
        bootstrap: brokers; their default stands there as a comment otherwise.
    """
    lines = [*_comment(job.doc or f"The job {job_name}."), ""]
    lines += ["[pipeline]", *_lines(PIPELINE, {"job": job_name})]
    lines += ["", "[kafka]", *_lines(KAFKA, {"bootstrap": bootstrap} if bootstrap else {})]
    options = [option for option in job.options if not option.fields]
    nested = [option for option in job.options if option.fields]
    lines += ["", "[options]", *_lines(options, {o.name: o.example for o in options if o.example is not None})]
    for option in nested:
        lines += ["", *_comment(option.doc), f"# [[options.{option.name}]]"]
        lines += [f"# {line}" for line in _lines(option.fields, {}) if not line.startswith("#")]
        lines += [f"# {assignment(field)}" for field in option.fields if not field.required]
    lines += ["", "[restart]", *_lines(RESTART, {})]
    lines += ["", "# Records that the job cannot process are dropped unless one of these is set.", "[dead_letters]"]
    lines += _lines(DEAD_LETTERS, {})
    lines += ["", "# Settings of the Spark session, which the pipelines of one run share.", "[spark]"]
    lines += ["# spark.sql.shuffle.partitions = 4"]
    return "\n".join(lines) + "\n"


def _lines(options: Sequence[Option], given: Mapping[str, Any]) -> Iterator[str]:
    """Each option under its doc; one that is neither given nor required is a comment."""
    for option in options:
        yield from _comment(_doc(option))
        if option.name in given:
            yield assignment(option, given[option.name])
        elif option.required:
            yield assignment(option)
        else:
            yield f"# {assignment(option)}"


def _doc(option: Option) -> str:
    choices = f" One of {', '.join(option.choices)}." if option.choices else ""
    return option.doc + choices


def assignment(option: Option, value: Any = None) -> str:
    """`name = value` in TOML, with the value given, else the default, else an example."""
    if value is None:
        value = None if option.required else option.default
    if value is None:
        value = option.example if option.example is not None else EXAMPLES.get(option.type, {})
    return f"{option.name} = {toml(value)}"


def toml(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {toml(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(" ".join(text.split()), WIDTH)]
