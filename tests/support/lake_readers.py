"""Other programs that read lake tables: each gives the count of a table's rows, and the sum of its column `ms`.

None stands for a program, or a part of it, that is not installed. The page about loads has a table of them.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

Figures = tuple[int, int]
Reader = Callable[[str], Figures | None]


def _delta_rs(uri: str) -> Figures:
    from deltalake import DeltaTable

    table = DeltaTable(uri).to_pyarrow_table(columns=["ms"])
    return table.num_rows, sum(table["ms"].to_pylist())


def _pyiceberg(uri: str) -> Figures:
    from pyiceberg.catalog import load_catalog

    parent, name = os.path.split(uri)
    catalog = load_catalog("penstock", type="sql", uri=f"sqlite:///{parent}/catalog.db", warehouse=f"file://{parent}")
    table = catalog.load_table(("lake", name)).scan(selected_fields=("ms",)).to_arrow()
    catalog.engine.dispose()  # type: ignore[attr-defined]
    return table.num_rows, sum(table["ms"].to_pylist())


def _duckdb(extension: str, uri: str) -> Figures | None:
    import duckdb

    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as session:
        if _not_loaded(session, extension):
            return None
        found: Any = session.execute(f"select count(*), sum(ms) from {extension}_scan('{_named(extension, uri)}')")
        return tuple(map(int, found.fetchone()))  # type: ignore[return-value]


def _not_loaded(session: Any, extension: str) -> str | None:
    """Loads an extension and what it needs; why that is not possible."""
    import duckdb

    try:
        for name in ("parquet", "avro", extension) if extension == "iceberg" else ("parquet", extension):
            session.execute(f"load {_extension(name)}")
    except duckdb.Error as error:
        return f"DuckDB {duckdb.__version__}: {str(error).splitlines()[0]}"
    return None


def missing(name: str, table_format: str) -> str | None:
    """Why a program cannot read tables of a format here; None if it can."""
    if name == "DuckDB":
        import duckdb

        with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as session:
            return _not_loaded(session, table_format)
    if name == "Polars" and find_spec("polars") is None:
        return "polars is not installed"
    return None


def excused(name: str) -> bool:
    """Whether a program may be missing where everything is to be there: DuckDB's extensions come from PyPI, which has
    none for 2.0."""
    import duckdb

    return name == "DuckDB" and not duckdb.__version__.startswith("1.")


def _extension(name: str) -> str:
    """An extension by its name in DuckDB's own store, or its file where the package duckdb-ext-NAME is installed."""
    spec = find_spec("duckdb_ext")
    places = spec.submodule_search_locations or () if spec is not None else ()
    files = [str(file) for place in places for file in Path(place).rglob(f"{name}.duckdb_extension")]
    return f"'{files[0]}'" if files else name


def _named(extension: str, uri: str) -> str:
    """DuckDB reads an Iceberg table by its newest metadata file."""
    if extension == "delta":
        return uri
    metadata = os.path.join(uri, "metadata")
    return os.path.join(metadata, max(name for name in os.listdir(metadata) if name.endswith(".metadata.json")))


def _polars(scan: str, uri: str) -> Figures | None:
    if find_spec("polars") is None:
        return None
    import polars

    place = uri if scan == "delta" else _named("iceberg", uri)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it would like its own planner for Iceberg
        rows = getattr(polars, f"scan_{scan}")(place).select("ms").collect()
    return rows.height, int(rows["ms"].sum())


READERS: dict[str, dict[str, Reader]] = {
    "delta": {
        "delta-rs": _delta_rs,
        "DuckDB": lambda uri: _duckdb("delta", uri),
        "Polars": lambda uri: _polars("delta", uri),
    },
    "iceberg": {
        "pyiceberg": _pyiceberg,
        "DuckDB": lambda uri: _duckdb("iceberg", uri),
        "Polars": lambda uri: _polars("iceberg", uri),
    },
}
