"""The options of typed values: what the bytes of a value are, and which schema they have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.errors import ConfigError

PREFIX = "penstock.value."
FORMAT, SCHEMA, MODE = "penstock.value.format", "penstock.value.schema", "penstock.value.mode"
SUBJECT, VERSION = "penstock.value.subject", "penstock.value.version"
REGISTRY_URL = "penstock.schema.registry.url"
DESCRIPTORS, MESSAGE = "penstock.value.descriptors", "penstock.value.message"
NEED_FORMAT = (SCHEMA, MODE, SUBJECT, VERSION, REGISTRY_URL, DESCRIPTORS, MESSAGE)
FORMATS = ("json", "avro", "jsonschema", "protobuf")
PERMISSIVE, FAILFAST = "permissive", "failfast"
SUBJECT_OF_TOPIC = "{topic}-value"


@dataclass(frozen=True, slots=True)
class ValueOptions:
    """How values are typed.

    `schema` is the text that was given, `subject` and `version` (None: the latest) choose one of the registry.
    `subject` is None where several topics are read and none was named. `descriptors` is the path of a descriptor set,
    `message` the full name of a message.
    """

    format: str
    schema: str | None
    failfast: bool
    registry_url: str | None
    subject: str | None
    version: int | None
    descriptors: str | None = None
    message: str | None = None


def value_options(given: Mapping[str, str], value: Mapping[str, Any]) -> ValueOptions | None:
    """The options of typed values, None without a format. Raises ConfigError for some that do not go together.

    Args:
        given: what the user set.
        value: the values of all options.
    """
    if value[FORMAT] is None:
        for name in NEED_FORMAT:
            if name in given:
                raise ConfigError(f"option {name} has no meaning without {FORMAT}: {', '.join(FORMATS)}")
        return None
    options = ValueOptions(
        format=value[FORMAT],
        schema=value[SCHEMA],
        failfast=value[MODE] == FAILFAST,
        registry_url=value[REGISTRY_URL],
        subject=value[SUBJECT] or _default_subject(value),
        version=value[VERSION],
        descriptors=value[DESCRIPTORS],
        message=value[MESSAGE],
    )
    _check(options, given)
    return options


def _default_subject(value: Mapping[str, Any]) -> str | None:
    topics = value["subscribe"] or tuple(value["assign"] or ())
    return SUBJECT_OF_TOPIC.format(topic=topics[0]) if len(topics) == 1 else None


def _check(options: ValueOptions, given: Mapping[str, str]) -> None:
    for name in (DESCRIPTORS, MESSAGE):
        if name in given and options.format != "protobuf":
            raise ConfigError(f"option {name} has no meaning with {FORMAT} = {options.format}")
    CHECKS[options.format](options)
    _check_subject(options, given)


def _check_json(options: ValueOptions) -> None:
    if options.registry_url is not None:
        said = "plain JSON names no schema; JSON in Confluent's framing is jsonschema"
        raise ConfigError(f"option {REGISTRY_URL} has no meaning with {FORMAT} = json: {said}")


def _check_json_schema(options: ValueOptions) -> None:
    if options.registry_url is None:
        raise ConfigError(f"option {REGISTRY_URL} is missing: {FORMAT} = jsonschema has its schemas there")


def _check_avro(options: ValueOptions) -> None:
    if options.registry_url is None and options.schema is None:
        raise ConfigError(
            f"{FORMAT} = avro needs {REGISTRY_URL} (values in Confluent's framing) or {SCHEMA} (bare values)"
        )


def _check_protobuf(options: ValueOptions) -> None:
    if options.schema is not None:
        said = f"{DESCRIPTORS} names a descriptor set"
        raise ConfigError(f"option {SCHEMA} has no meaning with {FORMAT} = protobuf: {said}")
    if (options.registry_url is None) == (options.descriptors is None):
        raise ConfigError(
            f"{FORMAT} = protobuf needs {REGISTRY_URL} (values in Confluent's framing) or {DESCRIPTORS} (bare values)"
        )


CHECKS = {"json": _check_json, "jsonschema": _check_json_schema, "avro": _check_avro, "protobuf": _check_protobuf}


def _check_subject(options: ValueOptions, given: Mapping[str, str]) -> None:
    for name in (SUBJECT, VERSION):
        if name not in given:
            continue
        if options.registry_url is None:
            raise ConfigError(f"option {name} has no meaning without {REGISTRY_URL}")
        if options.schema is not None:
            raise ConfigError(f"options {name} and {SCHEMA} exclude each other: both choose the schema")
    if options.registry_url is not None and options.schema is None and options.subject is None:
        other = "" if options.format == "protobuf" else f" or {SCHEMA}"
        raise ConfigError(
            f"option {SUBJECT}{other} is missing: several topics may be read, and their values become one column"
        )
