"""Record batches, from the header that every broker reads to the Arrow columns that a lake table is made of.

`batch` is the header and what a leader writes into it, `validation` what a producer's batch must fulfil, `builder` and
`reader` single records, `compression` the codecs, `control` markers and quorum records, `isolation` aborted
transactions, `partitioner` the partition of a key. `arrow` turns runs of batches into columns by the compiled loops of
`kernels`; `run` prepares them, `arrow_plain` is the slow twin. `key_kernels` finds the last record of each key,
`batch_kernels` checks batch after batch of a segment. Only workers, commands and pipelines import what has numba in it.
`legacy` reads the message formats of before Kafka 0.11.
"""
