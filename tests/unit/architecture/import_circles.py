"""Circles among modules: who reaches itself by imports, those for types alone and those inside functions counted too.

A circle that only types make is no error at run time. It is the trace of a back reference: a part that is handed its
owner, or a state that knows its rules. Such modules cannot be read, or tested, one at a time.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

Graph = Mapping[str, set[str]]


def modules(source: Path, package: str) -> dict[str, Path]:
    """Files by dotted name. Generated message classes import nothing of ours and are left out."""
    found = {}
    for path in sorted((source / package).rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        if "messages" not in parts:
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def graph(source: Path, package: str) -> Graph:
    """The modules that each module imports, anywhere in it."""
    files = modules(source, package)
    return {name: set(imported(ast.parse(path.read_text()), files)) for name, path in files.items()}


def imported(tree: ast.Module, files: Mapping[str, Path]) -> Iterator[str]:
    """The modules among `files` that a module imports, or takes a name from."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in files)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in files:
                    yield inner
                elif node.module in files:
                    yield node.module


def circles(graph: Graph) -> list[frozenset[str]]:
    """The largest sets of modules each of which reaches all others of its set (Tarjan 1972), without single ones."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found = []

    def visit(module: str) -> None:
        order[module] = lowest[module] = len(order)
        path.append(module)
        for other in sorted(graph[module]):
            if other not in order:
                visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in path:
                lowest[module] = min(lowest[module], order[other])
        if lowest[module] == order[module]:
            at = path.index(module)
            found.append(frozenset(path[at:]))
            del path[at:]

    for module in sorted(graph):
        if module not in order:
            visit(module)
    return [circle for circle in found if len(circle) > 1]
