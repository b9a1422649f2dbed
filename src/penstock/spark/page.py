"""A report page that stands on its own: one HTML file, styles and plots inside, nothing fetched from anywhere."""

from __future__ import annotations

from collections.abc import Sequence
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
main { max-width:1180px; margin:0 auto; padding:32px 20px 60px }
h1 { font-size:26px; margin:0 0 4px; letter-spacing:-.01em } h2 { font-size:15px; margin:0 0 10px }
p.lead { color:var(--soft); margin:0 0 22px; max-width:75ch }
.facts { display:grid; grid-template-columns:repeat(auto-fit,minmax(150px,1fr)); gap:12px; margin:0 0 22px }
.fact,.card { background:var(--card); border:1px solid var(--rule); border-radius:8px; padding:14px 16px }
.fact b { display:block; font-size:22px; font-variant-numeric:tabular-nums } .fact span { color:var(--soft) }
.cards { display:grid; grid-template-columns:repeat(auto-fit,minmax(440px,1fr)); gap:16px }
.card.wide { grid-column:1/-1 } .card p { color:var(--soft); margin:-6px 0 10px; font-size:13px }
svg { width:100%; height:auto; display:block } .grid { stroke:var(--rule) }
.tick,.label,.value { fill:var(--soft); font-size:11px; font-variant-numeric:tabular-nums } .label { fill:var(--ink) }
.line { fill:none; stroke-width:1.8; stroke-linejoin:round }
.legend { list-style:none; display:flex; flex-wrap:wrap; gap:4px 16px; margin:8px 0 0; padding:0; font-size:12px }
.key { display:inline-block; width:10px; height:10px; border-radius:2px; margin-right:6px }
table { border-collapse:collapse; width:100%; font-variant-numeric:tabular-nums; font-size:13px }
th,td { text-align:right; padding:5px 8px; border-bottom:1px solid var(--rule) }
th { color:var(--soft); font-weight:500 }
th:first-child,td:first-child { text-align:left } .good { color:var(--good) } .bad { color:var(--bad) }
.none { color:var(--soft) } .scroll { overflow-x:auto }
@media (max-width:520px) { .cards { grid-template-columns:1fr } }
""" + "".join(
    f".line.s{n} {{ stroke:var(--c{n}) }} .bar.s{n} {{ fill:var(--c{n}) }} .key.s{n} {{ background:var(--c{n}) }}\n"
    for n in range(8)
)


def page(title: str, lead: str, facts: Sequence[tuple[str, str]], cards: Sequence[str]) -> str:
    """The whole file. `facts` are (figure, what it is)."""
    boxes = "".join(
        f'<div class="fact"><b>{escape(figure)}</b><span>{escape(what)}</span></div>' for figure, what in facts
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main><h1>{escape(title)}</h1>"
        f'<p class="lead">{escape(lead)}</p><div class="facts">{boxes}</div>'
        f'<div class="cards">{"".join(cards)}</div></main></body></html>\n'
    )


def card(title: str, body: str, *, note: str = "", wide: bool = False) -> str:
    """A titled box around a plot or a table."""
    said = f"<p>{escape(note)}</p>" if note else ""
    return f'<section class="card{" wide" if wide else ""}"><h2>{escape(title)}</h2>{said}{body}</section>'


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
