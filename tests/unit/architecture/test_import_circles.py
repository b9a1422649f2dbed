"""No module reaches itself by imports, those for types alone included."""

from __future__ import annotations

from pathlib import Path

import pytest

from .import_circles import circles, graph

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "src"


@pytest.mark.parametrize(("root", "package"), [(SOURCE, "penstock"), (ROOT, "simulator")])
def test_no_module_reaches_itself(root: Path, package: str) -> None:
    assert [sorted(circle) for circle in circles(graph(root, package))] == []


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
