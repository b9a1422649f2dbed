"""A page about a pipeline's models that stands on its own: lineage as a picture, columns, tests and what they found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from penstock.pipelines.drawing.page import Fact, card, page, table
from penstock.pipelines.models.project import VIEW, Model, Node, Project, Source
from penstock.pipelines.models.results import BAD, PASS, RUN, SKIPPED, WARN, Result

BOX_WIDTH, BOX_HEIGHT, GAP_X, GAP_Y, MARGIN = 190, 46, 70, 18, 12
NAME_CHARACTERS = 24
UNKNOWN = "not tested"


def page_of(
    project: Project,
    name: str,
    results: Sequence[Result],
    columns: Mapping[str, Mapping[str, str]] | None = None,
) -> str:
    """The whole file.

    Args:
        project: what is declared.
        name: of the pipeline.
        results: the last of each test.
        columns: by node the types of its columns, as far as they are known.
    """
    status = {each.name: status_of(each, results) for each in project.nodes()}
    bad = sum(1 for each in results if each.status in BAD)
    facts = [
        Fact(str(len(project.sources)), "sources"),
        Fact(str(len(project.models)), "models"),
        Fact(str(sum(len(each.tests) for each in project.nodes())), "tests"),
        Fact(str(bad), "failed last", "bad" if bad else "good" if results else ""),
    ]
    cards = [_card(each, project, results, (columns or {}).get(each.name, {})) for each in project.nodes()]
    sections = {"Lineage": [card("What is made of what", lineage(project, status), wide=True)], "Nodes": cards}
    known = max((each.time for each in results), default=None)
    foot = f"Last tested {known:%Y-%m-%d %H:%M:%S} UTC." if known else "No test has run yet."
    return page(name, "Sources, models and their tests, as the pipeline's file declares them.", facts, sections, foot)


def status_of(node: Node, results: Sequence[Result]) -> str:
    """What the last results say of a node, the worst first."""
    newest = [each for each in results if each.step == node.name and each.test != RUN]
    run = [each for each in results if each.step == node.name and each.test == RUN]
    if run and run[0].status != PASS and all(run[0].time >= each.time for each in newest):
        return run[0].status
    found = [each.status for each in newest]
    return next((each for each in (*BAD, WARN, PASS) if each in found), UNKNOWN)


def lineage(project: Project, status: Mapping[str, str]) -> str:
    """The nodes as boxes in columns, each right of what it reads, with a line from one to the other."""
    depth: dict[str, int] = dict.fromkeys(project.sources, 0)
    for model in project.models.values():
        depth[model.name] = 1 + max((depth[ref] for ref in model.refs), default=-1)
    places: dict[str, tuple[int, int]] = {}
    rows: dict[int, int] = {}
    for name, column in depth.items():
        row = rows.get(column, 0)
        rows[column] = row + 1
        places[name] = (MARGIN + column * (BOX_WIDTH + GAP_X), MARGIN + row * (BOX_HEIGHT + GAP_Y))
    width = 2 * MARGIN + (max(rows, default=0) + 1) * (BOX_WIDTH + GAP_X) - GAP_X
    height = 2 * MARGIN + max(rows.values(), default=0) * (BOX_HEIGHT + GAP_Y) - GAP_Y
    said = "; ".join(f"{each.name} reads {', '.join(each.refs)}" for each in project.models.values())
    parts = [f'<svg viewBox="0 0 {width} {height}" style="max-width:{width}px" role="img" aria-label="{escape(said)}">']
    for model in project.models.values():
        parts += [_line(places[ref], places[model.name]) for ref in model.refs]
    parts += [_box(project.node(name), places[name], status[name]) for name in depth]
    return f'<div class="scroll">{"".join(parts)}</svg></div>'


def _line(start: tuple[int, int], end: tuple[int, int]) -> str:
    x1, y1 = start[0] + BOX_WIDTH, start[1] + BOX_HEIGHT // 2
    x2, y2 = end[0], end[1] + BOX_HEIGHT // 2
    middle = (x1 + x2) // 2
    return f'<path class="grid" fill="none" d="M{x1},{y1} C{middle},{y1} {middle},{y2} {x2},{y2}"/>'


def _box(node: Node, place: tuple[int, int], status: str) -> str:
    x, y = place
    colour = {PASS: "--good", WARN: "--c4", SKIPPED: "--soft", UNKNOWN: "--soft"}.get(status, "--bad")
    kind = node.materialized if isinstance(node, Model) else "topic" if node.topic is not None else "table"
    name = node.name if len(node.name) <= NAME_CHARACTERS else node.name[: NAME_CHARACTERS - 1] + "…"
    return (
        f'<a href="#{escape(node.name)}"><rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="8" '
        f'style="fill:var(--card);stroke:var({colour});stroke-width:2"/>'
        f'<text class="label" x="{x + 12}" y="{y + 19}" font-weight="600">{escape(name)}</text>'
        f'<text class="tick" x="{x + 12}" y="{y + 35}">{escape(kind)}, {escape(status)}</text>'
        f"<title>{escape(node.name)}: {escape(node.description or kind)}</title></a>"
    )


def _card(node: Node, project: Project, results: Sequence[Result], types: Mapping[str, str]) -> str:
    """What a node is, its columns and its tests."""
    parts = [f'<p id="{escape(node.name)}">{escape(node.description or _what(node))}</p>']
    if isinstance(node, Model):
        parts.append(f'<div class="scroll"><pre>{escape(node.code)}</pre></div>')
        if node.materialized != VIEW:
            parts.append(f"<p>Stored in {escape(node.table)}</p>")
    names = dict.fromkeys([*types, *node.columns])
    if names:
        rows = [(name, types.get(name, ""), node.columns.get(name, "")) for name in names]
        parts.append(table(("column", "type", "what it is"), rows))
    last = {each.test: each for each in results if each.step == node.name}
    if node.tests:
        found = [last.get(test.name) for test in node.tests]
        shown = [
            (test.name, result.message if result else "", result.status if result else UNKNOWN)
            for test, result in zip(node.tests, found, strict=True)
        ]
        marks = ["bad" if status in BAD else "good" if status == PASS else "" for *_, status in shown]
        parts.append(table(("test", "", "last"), shown, marks=marks))
    readers = project.downstream(node.name)
    note = f"read by {', '.join(readers)}" if readers else ""
    return card(node.name, "".join(parts), note=note)


def _what(node: Node) -> str:
    if isinstance(node, Source):
        return f"Topic {node.topic}" if node.topic is not None else f"Table {node.table}"
    return f"A {node.materialized} model" if node.materialized != "incremental" else "An incremental model"
