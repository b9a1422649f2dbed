"""A report page that stands on its own: one HTML file, styles and plots inside, nothing fetched from anywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

STYLE = """
:root { --ink:#1c2430; --soft:#5d6878; --paper:#fbfbf9; --card:#fff; --rule:#e3e5e8; --good:#1a7f4b; --bad:#b3261e;
  --c0:#2463a8; --c1:#c8641b; --c2:#2f855a; --c3:#8a4fa3; --c4:#b8860b; --c5:#c0392b; --c6:#4a7a8c; --c7:#7a6a58; }
@media (prefers-color-scheme: dark) { :root { --ink:#e6e9ee; --soft:#9aa5b4; --paper:#14181e; --card:#1b2129;
  --rule:#2c343f; --good:#5fc58d; --bad:#f28b82; --c0:#6ea8e6; --c1:#eda265; --c2:#72c79b; --c3:#c79bdc; --c4:#dcb75c;
  --c5:#ec8a80; --c6:#8fbccb; --c7:#bba992; } }
* { box-sizing:border-box }
body { margin:0; background:var(--paper); color:var(--ink);
  font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif }
main { max-width:1200px; margin:0 auto; padding:36px 20px 60px }
h1 { font-size:28px; margin:0 0 6px; letter-spacing:-.015em; line-height:1.2 }
h2 { font-size:13px; margin:34px 0 12px; color:var(--soft); text-transform:uppercase; letter-spacing:.08em }
h3 { font-size:15px; margin:0 0 10px }
p.lead { color:var(--soft); margin:0 0 24px; max-width:80ch }
.facts { display:grid; grid-template-columns:repeat(auto-fit,minmax(165px,1fr)); gap:12px }
.fact,.card { background:var(--card); border:1px solid var(--rule); border-radius:10px; padding:14px 16px; min-width:0 }
.fact b { display:block; font-size:24px; line-height:1.3; font-variant-numeric:tabular-nums }
.fact span { color:var(--soft); font-size:13px }
.fact.good { border-left:4px solid var(--good) } .fact.bad { border-left:4px solid var(--bad) }
.cards { display:grid; grid-template-columns:repeat(auto-fit,minmax(min(440px,100%),1fr)); gap:16px }
.card.wide { grid-column:1/-1 } .card p { color:var(--soft); margin:-8px 0 10px; font-size:13px }
svg { width:100%; height:auto; display:block } .grid { stroke:var(--rule) }
.tick,.label,.value { fill:var(--soft); font-size:11.5px; font-variant-numeric:tabular-nums } .label { fill:var(--ink) }
.line { fill:none; stroke-width:1.8; stroke-linejoin:round } .area { fill:var(--c0); opacity:.12 }
.legend { list-style:none; display:flex; flex-wrap:wrap; gap:4px 18px; margin:8px 0 0; padding:0; font-size:13px }
.legend small { color:var(--soft) }
.key { display:inline-block; width:10px; height:10px; border-radius:2px; margin-right:6px }
table { border-collapse:collapse; width:100%; font-variant-numeric:tabular-nums; font-size:13px }
th,td { text-align:right; padding:6px 8px; border-bottom:1px solid var(--rule); white-space:nowrap }
tbody tr:last-child td { border-bottom:0 } th { color:var(--soft); font-weight:500 }
th:first-child,td:first-child { text-align:left }
td.good,.good b { color:var(--good) } td.bad,.bad b { color:var(--bad) }
p.none { color:var(--soft); margin:0 } .scroll { overflow-x:auto }
footer { color:var(--soft); font-size:13px; margin-top:34px }
@media (max-width:560px) { main { padding:22px 12px 40px } .tick,.label,.value { font-size:16px }
  .spare { display:none } th,td { padding:6px 5px; font-size:12px }
  .facts { grid-template-columns:1fr 1fr } .fact b { font-size:20px } .card { padding:12px } }
@media print { body { background:#fff } .card,.fact { break-inside:avoid } }
""" + "".join(
    f".line.s{n} {{ stroke:var(--c{n}) }} .bar.s{n},.dot.s{n} {{ fill:var(--c{n}) }} "
    f".key.s{n} {{ background:var(--c{n}) }}\n"
    for n in range(8)
)


@dataclass(frozen=True, slots=True)
class Fact:
    """A figure and what it is. `mark` is "good", "bad" or nothing."""

    figure: str
    what: str
    mark: str = ""


def page(title: str, lead: str, facts: Sequence[Fact], sections: Mapping[str, Sequence[str]], foot: str = "") -> str:
    """The whole file. `sections` are cards by heading."""
    boxes = "".join(
        f'<div class="fact {fact.mark}"><b>{escape(fact.figure)}</b><span>{escape(fact.what)}</span></div>'
        for fact in facts
    )
    parts = "".join(
        f'<h2>{escape(heading)}</h2><div class="cards">{"".join(cards)}</div>' for heading, cards in sections.items()
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main><h1>{escape(title)}</h1>"
        f'<p class="lead">{escape(lead)}</p><div class="facts">{boxes}</div>'
        f"{parts}<footer>{escape(foot)}</footer></main></body></html>\n"
    )


def card(title: str, body: str, *, note: str = "", wide: bool = False) -> str:
    """A titled box around a plot or a table."""
    said = f"<p>{escape(note)}</p>" if note else ""
    return f'<section class="card{" wide" if wide else ""}"><h3>{escape(title)}</h3>{said}{body}</section>'


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, marks: Sequence[str] = ()) -> str:
    """A table; `marks` gives a row's last cell a class, "good" or "bad"."""
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = []
    for number, row in enumerate(rows):
        cells = [f"<td>{escape(cell)}</td>" for cell in row]
        if marks:
            cells[-1] = f'<td class="{marks[number]}">{escape(row[-1])}</td>'
        body.append(f"<tr>{''.join(cells)}</tr>")
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'
