"""Reads pipelines' files and says everything that is wrong with them, each with its line.

The TOML parser keeps no positions, so `lines_of` looks for the lines of headers and keys itself: good enough to point
a person at the place, and never what decides whether something is right.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.client.property_files import client_properties
from penstock.client.security import NAMES, PREFIXES, UNSECURED, ClientSecurity, client_security
from penstock.config.nearest import did_you_mean
from penstock.errors import ConfigError
from penstock.pipelines.declaration import Pipeline, Problem, Restart
from penstock.pipelines.job import REQUIRED, Job, Option
from penstock.pipelines.models import reading as models
from penstock.pipelines.models.project import Project
from penstock.pipelines.registry import find_job

Path_ = tuple[str | int, ...]

PIPELINE = (
    Option("name", str, None, "Name of its directory and of its line in the status (default: the file's name)."),
    Option("job", str, REQUIRED, "A built-in job, module:function, or file.py:function beside this file."),
    Option("interval_ms", int, 1_000, "From the start of a batch to the start of the next.", at_least=0),
    Option(
        "checkpoints",
        str,
        None,
        "Directory or URI for its streaming queries' checkpoints (default: the pipeline's directory).",
        path=True,
    ),
    Option(
        "commit_offsets",
        bool,
        False,
        "Commit the place of each streaming query to the consumer group of its name, PIPELINE.QUERY, so that its lag "
        "shows in Kafka's tools. The checkpoint stays what counts.",
    ),
)
KAFKA = (
    Option("bootstrap", str, "127.0.0.1:9092", "Brokers to begin with, HOST:PORT separated by commas."),
    Option("client.id", str, None, "What brokers call the pipeline in quotas and logs."),
    Option(
        "isolation.level",
        str,
        None,
        "Whether records of open and aborted transactions are read.",
        choices=("read_uncommitted", "read_committed"),
    ),
    Option("request.timeout.ms", int, None, "How long brokers may take to answer.", at_least=1),
    Option(
        "command_config",
        str,
        None,
        "Client properties of a secured cluster: security.protocol, ssl.*, sasl.*. They may stand here as well.",
        path=True,
    ),
)
RESTART = (
    Option("attempts", int, 5, "Starts after failures in a row; 0: a failure is the end.", at_least=0),
    Option("backoff_ms", int, 1_000, "Wait before the first of them; doubled each time.", at_least=0),
    Option("backoff_max_ms", int, 60_000, "The longest wait.", at_least=0),
    Option("healthy_after_ms", int, 60_000, "A run that lasted so long counts as good.", at_least=0),
)
DEAD_LETTERS = (
    Option("topic", str, None, "Topic for records that the job cannot process.", writes=True),
    Option("table", str, None, "Delta table for them instead.", path=True),
)
SECTIONS: Mapping[str, Sequence[Option]] = {
    "pipeline": PIPELINE,
    "kafka": KAFKA,
    "options": (),
    "spark": (),
    "restart": RESTART,
    "dead_letters": DEAD_LETTERS,
    **dict.fromkeys(models.SECTIONS, ()),
}
MODELS_JOB = "models"
"""What the status calls the job of a file with models."""
OF_JOBS, OF_MODELS = ("options", "dead_letters"), models.SECTIONS
"""Sections that a file has for a job, and those that it has for models instead."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
OURS = {"spark.master": "--master", "spark.remote": "--remote", "spark.app.name": "[pipeline] name"}
HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
KEY = re.compile(r"""\s*((?:"[^"]*"|'[^']*'|[\w-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[\w-]+))*)\s*=""")
PART = re.compile(r""""([^"]*)"|'([^']*)'|([\w-]+)""")


def read_pipelines(files: Sequence[Path], state: Path) -> tuple[list[Pipeline], list[Problem]]:
    """The pipelines of several files that share a session, and all errors in them.

    Args:
        files: TOML files, one a pipeline.
        state: the directory below which each pipeline has its own.
    """
    pipelines, problems = [], []
    for file in files:
        found, wrong = read_pipeline(file, state)
        problems += wrong
        if found is not None:
            pipelines.append(found)
    return pipelines, problems + _between(pipelines)


def _between(pipelines: Sequence[Pipeline]) -> list[Problem]:
    """The conflicts between pipelines that are valid one by one."""
    problems = []
    named: dict[str, Pipeline] = {}
    settings: dict[str, Pipeline] = {}
    for each in pipelines:
        if (other := named.setdefault(each.name, each)) is not each:
            problems.append(Problem(str(each.file), 0, f"name is {each.name}, as that of {other.file}"))
        for name, value in each.spark.items():
            first = settings.setdefault(name, each)
            if (has := first.spark[name]) != value:
                text = f"[spark] {name} is {value}, in {first.file} it is {has}; pipelines of one run share a session"
                problems.append(Problem(str(each.file), 0, text))
    return problems


def read_pipeline(file: Path, state: Path) -> tuple[Pipeline | None, list[Problem]]:
    """The pipeline of one file, or None and the errors."""
    try:
        text = file.read_text(encoding="utf-8")
        told = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = re.search(r"line (\d+)", str(error))
        said = re.sub(r" \(at .*\)$", "", str(error))
        return None, [Problem(str(file), int(at[1]) if at else 0, f"this is no TOML: {said}")]
    except UnicodeDecodeError:
        return None, [Problem(str(file), 0, "this is no text in UTF-8")]
    except OSError as error:
        return None, [Problem(str(file), 0, f"cannot be read: {(error.strerror or str(error)).lower()}")]
    checker = Checker(file, lines_of(text))
    pipeline = checker.pipeline(told, state)
    return (None if checker.problems else pipeline), sorted(checker.problems, key=lambda problem: problem.line)


@dataclass(slots=True)
class Checker:
    """Collects what is wrong with one file."""

    file: Path
    lines: Mapping[Path_, int]
    problems: list[Problem] = field(default_factory=list)

    def wrong(self, at: Path_, text: str) -> None:
        where = next((self.lines[at[:n]] for n in range(len(at), 0, -1) if at[:n] in self.lines), 0)
        self.problems.append(Problem(str(self.file), where, text))

    def pipeline(self, told: Mapping[str, Any], state: Path) -> Pipeline:
        """The declared pipeline; meaningless if there are problems."""
        for name, value in told.items():
            if name not in SECTIONS:
                self.wrong((name,), f"unknown section [{name}]{did_you_mean(name, SECTIONS)}; {_may(SECTIONS)}")
            elif not isinstance(value, dict):
                self.wrong((name,), f"{name} must be a section: [{name}]")
        part = {name: value for name in SECTIONS if isinstance(value := told.get(name, {}), dict)}
        of = {name: part.get(name, {}) for name in SECTIONS}
        has_models = any(name in told for name in OF_MODELS)
        self._check_kind(told, of["pipeline"], has_models=has_models)
        expected = [each for each in PIPELINE if each.name != "job"] if has_models else PIPELINE
        given = {key: value for key, value in of["pipeline"].items() if key != "job" or not has_models}
        head = {"job": MODELS_JOB, **self.checked(("pipeline",), given, expected)}
        name = head["name"] or re.sub(r"[^A-Za-z0-9._-]", "-", self.file.stem)
        if not NAME.fullmatch(name):
            self.wrong(("pipeline", "name"), f'name is "{name}": letters, digits, dots, dashes, underscores only')
        directory = state / name
        project = models.read_project(self, told, directory) if has_models else None
        job = self.job(head["job"]) if project is None else models_job(project)
        options = self.options(of["options"], job) if project is None else {}
        kafka, secured, security = self.kafka(flattened(of["kafka"]))
        letters = self.checked(("dead_letters",), of["dead_letters"], DEAD_LETTERS)
        if letters["topic"] and letters["table"]:
            self.wrong(("dead_letters",), "[dead_letters] has a topic and a table: name one of them")
        return Pipeline(
            name=name,
            job_name=head["job"] if isinstance(head["job"], str) else "",
            job=job or Job(lambda _: ()),
            bootstrap=kafka.pop("bootstrap"),
            options=options,
            directory=directory,
            file=self.file,
            interval_ms=head["interval_ms"],
            checkpoints=head["checkpoints"] or str(directory / "checkpoints"),
            commits_offsets=head["commit_offsets"],
            kafka={f"kafka.{key}": str(value) for key, value in kafka.items() if value is not None} | secured,
            security=security,
            spark=self.settings(of["spark"]),
            restart=Restart(**self.checked(("restart",), of["restart"], RESTART)),
            dead_letter_topic=letters["topic"],
            dead_letter_table=letters["table"],
            project=project,
        )

    def _check_kind(self, told: Mapping[str, Any], head: Mapping[str, Any], *, has_models: bool) -> None:
        """A file has a job, or models."""
        if not has_models:
            return
        if "job" in head:
            self.wrong(("pipeline", "job"), "a file has a job, or [models]: put them into two files")
        for name in OF_JOBS:
            if name in told:
                self.wrong((name,), f"[{name}] is for a job, and this file has [models]")
        if not told.get("models"):
            self.wrong((), "there are no models: [models.NAME] declares one")

    def job(self, name: Any) -> Job | None:
        if not isinstance(name, str):
            return None
        try:
            return find_job(name, self.file.parent)
        except ConfigError as error:
            self.wrong(("pipeline", "job"), str(error))
            return None

    def kafka(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str], ClientSecurity]:
        """The values of [kafka]; what of them is about security, as `kafka.NAME`; and what that means."""
        plain = {name: value for name, value in given.items() if not name.startswith(PREFIXES)}
        values = self.checked(("kafka",), plain, KAFKA)
        path = values.pop("command_config")
        told = {name: str(value) for name, value in given.items() if name not in plain}
        if path and told:
            self.wrong(("kafka",), "[kafka] has command_config and properties of security: put all into the file")
            return values, {}, UNSECURED
        try:
            security = client_properties(path)[1] if path else client_security(told)
        except ConfigError as error:
            text = str(error)
            named = next((name for name in told if name in text), "command_config" if path else "")
            self.wrong(("kafka", named) if named else ("kafka",), text)
            return values, {}, UNSECURED
        for name in security.unknown if not path else ():
            self.wrong(("kafka", name), f"unknown option {name}{did_you_mean(name, NAMES)}")
        return values, {f"kafka.{name}": text for name, text in security.texts}, security

    def options(self, given: Mapping[str, Any], job: Job | None) -> dict[str, Any]:
        """The job's options, each alone and all together."""
        if job is None or job.open_options:
            return dict(given)
        before = len(self.problems)
        options = self.checked(("options",), given, job.options)
        if job.check is not None and len(self.problems) == before:
            for text in job.check(options):
                named = next((name for name in options if re.search(rf"\b{re.escape(name)}\b", text)), None)
                self.wrong(("options", named) if named else ("options",), text)
        return options

    def checked(self, at: Path_, given: Mapping[str, Any], options: Iterable[Option]) -> dict[str, Any]:
        """The values of a section, with defaults; errors are added to the problems."""
        known = {option.name: option for option in options}
        for name in given:
            if name not in known:
                self.wrong((*at, name), f"unknown option {name}{did_you_mean(name, known)}; {_may(known)}")
        return {name: self.value((*at, name), given, option) for name, option in known.items()}

    def value(self, at: Path_, given: Mapping[str, Any], option: Option) -> Any:
        if option.name not in given:
            if option.required:
                self.wrong(at[:-1], f"{option.name} is missing: {option.doc}")
            return None if option.required else option.default
        value = given[option.name]
        if option.type is dict:
            return self.tables(at, value, option)
        if problem := option.problem(value):
            self.wrong(at, f"{option.name} {problem}")
            return option.default
        return self.absolute(value) if option.path else value

    def tables(self, at: Path_, value: Any, option: Option) -> list[dict[str, Any]]:
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            dotted = ".".join(map(str, at))
            self.wrong(at, f"{option.name} must be tables: [[{dotted}]] before each")
            return []
        return [self.checked((*at, n), each, option.fields) for n, each in enumerate(value)]

    def absolute(self, value: str) -> str:
        """A path as it is from anywhere; a URI stays as it is."""
        return value if "://" in value else str((self.file.parent / value).absolute())

    def settings(self, given: Mapping[str, Any]) -> dict[str, str]:
        """Spark's settings as it wants them: text."""
        settings = {}
        for name, value in flattened(given).items():
            if not name.startswith("spark."):
                self.wrong(("spark", name), f"unknown setting {name}: Spark's own begin with spark.")
            elif name in OURS:
                self.wrong(("spark", name), f"{name} cannot be set here: {OURS[name]} does")
            elif isinstance(value, (list, dict)):
                self.wrong(("spark", name), f"{name} must be a text, a number, true or false")
            settings[name] = str(value).lower() if isinstance(value, bool) else str(value)
        return settings


def models_job(project: Project) -> Job:
    """The job that runs a file's models."""
    from penstock.pipelines.models.step import job_of

    return job_of(project)


def flattened(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Dotted keys as one name: TOML reads `a.b = 1` as a table in a table."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        found |= flattened(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return found


def lines_of(text: str) -> dict[Path_, int]:
    """The lines of headers and keys; dotted keys of [kafka] and [spark] as one name, as they are there."""
    found: dict[Path_, int] = {}
    section: Path_ = ()
    counts: dict[Path_, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if header := HEADER.match(line):
            section = _parts(header[2])
            if header[1] == "[[":
                found.setdefault(section, number)
                counts[section] = counts.get(section, -1) + 1
                section = (*section, counts[section])
            found.setdefault(section, number)
        elif key := KEY.match(line):
            parts = _parts(key[1])
            found.setdefault((*section, *parts), number)
            found.setdefault((*section, ".".join(map(str, parts))), number)
    return found


def _parts(text: str) -> Path_:
    return tuple(a or b or c for a, b, c in PART.findall(text))


def _may(names: Iterable[str]) -> str:
    listed = ", ".join(names)
    return f"there are {listed}" if listed else "there are none"
