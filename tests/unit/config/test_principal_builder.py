"""principal.builder.class: Kafka's own, or a function that only the file of the node may name."""

from __future__ import annotations

import pytest

from penstock.config.dynamic import check_dynamic
from penstock.config.principal_builder import KAFKA_BUILDER
from penstock.config.server import Settings
from penstock.errors import ConfigError

NAME = "principal.builder.class"
OF_LISTENER = f"listener.name.plaintext.{NAME}"


def test_kafkas_builder_is_the_default_and_may_be_named() -> None:
    assert Settings.for_node().principal_builder("PLAINTEXT") is None
    assert Settings.for_node(**{NAME: KAFKA_BUILDER}).principal_builder("PLAINTEXT") is None


def test_a_function_is_for_all_listeners_or_for_one() -> None:
    everywhere = Settings.for_node(**{NAME: "acme.principals:by_network"})
    assert everywhere.principal_builder("PLAINTEXT") == "acme.principals:by_network"
    one = Settings.for_node(**{OF_LISTENER: "acme.principals:by_network"})
    assert one.principal_builder("PLAINTEXT") == "acme.principals:by_network"
    assert one.principal_builder("CONTROLLER") is None
    other = Settings.for_node(**{NAME: "acme:f", OF_LISTENER: KAFKA_BUILDER})
    assert (other.principal_builder("PLAINTEXT"), other.principal_builder("CONTROLLER")) == (None, "acme:f")


@pytest.mark.parametrize("name", [NAME, OF_LISTENER])
@pytest.mark.parametrize(
    "text", ["", "com.example.Builder", "acme", "acme:", ":f", "acme:f()", "acme.:f", "acme:f:g", "../acme:f", "acmé:f"]
)
def test_whatever_else_is_refused(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match="MODULE:FUNCTION"):
        Settings.for_node(**{name: text})


@pytest.mark.parametrize("name", [NAME, OF_LISTENER])
def test_a_dynamic_config_names_no_code(name: str) -> None:
    check_dynamic({name: KAFKA_BUILDER}, per_broker=True)
    with pytest.raises(ConfigError, match="only the properties file"):
        check_dynamic({name: "os:system"}, per_broker=True)


@pytest.mark.parametrize("name", [NAME, OF_LISTENER])
def test_code_that_the_metadata_names_is_left_out_with_a_warning(name: str) -> None:
    first = Settings.for_node(**{NAME: "acme:f"})
    for layers in ({name: "os:system"}, {}), ({}, {name: "os:system"}):
        changed = first.with_dynamic(*layers)
        assert changed.principal_builder("PLAINTEXT") == "acme:f"
        assert any("names code" in warning for warning in changed.warnings)


def test_kafkas_builder_can_take_the_place_of_a_function_while_the_node_runs() -> None:
    first = Settings.for_node(**{NAME: "acme:f"})
    assert first.with_dynamic({}, {NAME: KAFKA_BUILDER}).principal_builder("PLAINTEXT") is None
