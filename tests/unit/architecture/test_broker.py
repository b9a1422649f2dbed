"""The object on top of a node is small: what belongs together is one part of it, and no part is handed the whole."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from support.broker import Node

import penstock.node.broker

ATTRIBUTES_MAX = 20


def attributes(source: str) -> set[str]:
    """What the class `Broker` keeps in `self`."""
    (broker,) = (each for each in ast.parse(source).body if isinstance(each, ast.ClassDef) and each.name == "Broker")
    return {
        each.attr
        for each in ast.walk(broker)
        if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store)
        if isinstance(each.value, ast.Name) and each.value.id == "self"
    }


def source_of_broker() -> str:
    return Path(penstock.node.broker.__file__).read_text()


def test_a_broker_has_few_attributes() -> None:
    found = attributes(source_of_broker())
    assert len(found) <= ATTRIBUTES_MAX, sorted(found)


def test_a_running_broker_has_no_other_attributes() -> None:
    """Nobody puts anything into it, and its source is read rightly."""
    assert set(vars(Node().broker)) == attributes(source_of_broker())


@pytest.mark.parametrize("planted", ["self.more = 1", "self.more: int = 1", "self.more, self.again = 1, 2"])
def test_one_attribute_more_is_found(planted: str) -> None:
    source = source_of_broker()
    before = "        scheduler = self.scheduler = "
    assert before in source
    found = attributes(source.replace(before, f"        {planted}\n{before}", 1))
    assert found - attributes(source) >= {"more"}
