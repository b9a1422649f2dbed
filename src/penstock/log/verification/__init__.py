"""Whether the files of a log are sound: every batch, and everything else that a log directory holds, against them.

`directory_check` looks at what a log directory has beside its logs, `partition` at one log: `segment_check` goes over
its segments in one pass (`batches`) and holds the `indexes` against them, `record_checks` unpacks each batch,
`small_files` are snapshots and checkpoints, `leftovers` what unfinished work has left. All say what they find to
`findings`. `walks` chooses between the plain and the compiled walk over records.
"""
