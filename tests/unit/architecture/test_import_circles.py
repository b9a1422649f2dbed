"""No module reaches itself by imports, but for the circles that are named here, each with its reason."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from .import_circles import circles, graph

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "src"

LEFT: dict[str, tuple[str, ...]] = {
    "parts of a node are handed the broker": ("penstock.node",),
}
"""Packages in which circles are left, by why they are there. The list only gets shorter."""


def in_package(module: str, packages: tuple[str, ...]) -> bool:
    return module.startswith(tuple(f"{package}." for package in packages))


@cache
def all_circles() -> list[frozenset[str]]:
    """Those of the house and of the simulator."""
    return circles(graph(SOURCE, "penstock")) + circles(graph(ROOT, "simulator"))


def test_no_module_reaches_itself() -> None:
    left = tuple(package for packages in LEFT.values() for package in packages)
    found = all_circles()
    new = [sorted(circle) for circle in found if not all(in_package(module, left) for module in circle)]
    assert new == []


@pytest.mark.parametrize("why", LEFT)
def test_what_is_named_is_still_there(why: str) -> None:
    """Once a circle is broken, its line goes."""
    found = all_circles()
    for package in LEFT[why]:
        assert any(in_package(module, (package,)) for circle in found for module in circle), f"{package} has none left"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("import house.other", "import house.one"),
        ("from house import other", "def f():\n    from house.one import thing"),
        ("if TYPE_CHECKING:\n    from house.other import Other", "from house.one import One"),
    ],
)
def test_a_planted_circle_is_found(tmp_path: Path, one: str, other: str) -> None:
    house = tmp_path / "house"
    house.mkdir()
    (house / "__init__.py").touch()
    (house / "one.py").write_text(one)
    (house / "other.py").write_text(other)
    (house / "apart.py").write_text("import house.one")
    assert circles(graph(tmp_path, "house")) == [{"house.one", "house.other"}]
    (house / "other.py").write_text("")
    assert circles(graph(tmp_path, "house")) == []
