"""Models, as dbt's users know them: named SQL or Python steps over sources, each stored as a lake table, with tests.

`reading` makes a `project` of a file's sections, and says all that is wrong; `references` finds what a step reads,
`graph` puts the steps in order. `step` runs them one after the other: `frames` gives each its inputs, `materialize`
stores what it gives, `testing` checks it, `results` keeps what was found, `alarms` tell. `backfill` makes a range of
time anew beside that, `page` draws it all.
"""
