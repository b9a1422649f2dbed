"""Pages that need nothing but themselves: charts as SVG, tables, cards."""
