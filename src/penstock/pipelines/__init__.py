"""Declared pipelines: small TOML files that name a job and its options, run together in one Spark session.

`reading` makes a `declaration` of a file, with the job that `registry` finds; `runner` runs its steps, and `monitor`
has what became of each. `jobs` are those that come with Penstock, `drawing` the pages of their reports. `generate`
makes clicks, and `demo` puts all of it together.
"""
