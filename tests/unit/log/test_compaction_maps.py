"""Which map a pass gets: the compiled one where numba is, the plain one elsewhere; and who brings numba with him."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.compaction import HASH_KEY

from penstock.errors import ConfigError
from penstock.log.compaction.maps import offset_map
from penstock.log.compaction.offset_map import ENTRY_BYTES, OffsetMap
from penstock.log.segment_scan import scan_segment
from penstock.log.segment_scanners import fastest_scan

EVERYTHING = """
import pkgutil, sys
from importlib import import_module

import penstock.log, penstock.node, penstock.server

for package in (penstock.log, penstock.node, penstock.server):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith("uvloop") and module.name not in sys.argv[1:]:
            import_module(module.name)
print(sorted({"numba", "numpy"} & set(sys.modules)))
"""
COMPILED = "penstock.log.compaction.compiled_offset_map"
COMPILED_SCAN = "penstock.log.compiled_segment_scan"
COMPILED_WALK = "penstock.log.verification.compiled_walk"


def imported_by_all_but(*modules: str) -> str:
    """Which heavy libraries come with the broker's rooms, without these modules."""
    command = [sys.executable, "-c", EVERYTHING, *modules]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_a_map_is_compiled_where_numba_is_installed() -> None:
    pytest.importorskip("numba", reason="needs penstock[kernels]")
    from penstock.log.compaction.compiled_offset_map import CompiledOffsetMap

    assert type(offset_map(100 * ENTRY_BYTES, 0.9, HASH_KEY)) is CompiledOffsetMap


def test_a_map_is_plain_where_numba_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, COMPILED, None)
    assert type(offset_map(100 * ENTRY_BYTES, 0.9, HASH_KEY)) is OffsetMap


def test_a_map_is_plain_where_machine_code_cannot_be_kept() -> None:
    pytest.importorskip("numba", reason="needs penstock[kernels]")
    program = (
        "from numba.core import caching\n"
        "caching.CacheImpl._locator_classes = []\n"
        "from penstock.log.compaction.maps import offset_map\n"
        "print(type(offset_map(10_000, 0.9, bytes(16))).__name__)"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "OffsetMap"


def test_either_map_is_refused_without_room_for_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="no room for a single key"):
        offset_map(ENTRY_BYTES, 0.9, HASH_KEY)
    monkeypatch.setitem(sys.modules, COMPILED, None)
    with pytest.raises(ConfigError, match="no room for a single key"):
        offset_map(ENTRY_BYTES, 0.9, HASH_KEY)


def test_numba_comes_with_the_compiled_twins_only() -> None:
    pytest.importorskip("numba", reason="needs penstock[kernels]")
    twins = {COMPILED, COMPILED_SCAN, COMPILED_WALK}
    assert imported_by_all_but(*twins) == "[]"
    for each in twins:
        assert imported_by_all_but(*twins - {each}) == "['numba', 'numpy']"


def test_a_scan_of_segments_is_compiled_where_numba_is_and_plain_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba", reason="needs penstock[kernels]")
    assert fastest_scan() is not scan_segment
    monkeypatch.setitem(sys.modules, COMPILED_SCAN, None)
    assert fastest_scan() is scan_segment
