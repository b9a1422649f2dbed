"""Limits of declared pipelines and the jobs that come with them. Nobody needs to tune them."""

from penstock.config.values import MiB

RESULT_BATCHES_PER_CLEANING = 100
"""After so many batches of a query the files that they replaced in its tables of results are looked through."""
RESULT_KEEP_HOURS = 168
"""Those that are older are deleted; until then readers of older versions have them."""
TEST_RESULT_FILES_MAX = 100
"""Files of the table of test results; a run of tests that leaves more has them compacted."""
PIPELINES_PER_RUN = 64
"""Pipelines that one run shares a session among; more need another run."""
PIPELINE_POLL_MS = 250
"""How often a pipeline looks at its streaming queries."""
PIPELINE_STATUS_MS = 1_000
"""How often a run writes its pipelines' figures for `penstock pipeline status`, and redraws its lines."""
PIPELINE_LAG_MS = 5_000
"""How often the brokers are asked how far a streaming query is behind, where Spark does not tell."""
PIPELINE_RATE_MS = 10_000
"""The window of a pipeline's rows a second."""
PIPELINE_RATE_SAMPLES = 1_000
"""Batches that such a window remembers; of more in so short a time the oldest are forgotten."""
PIPELINE_STOP_MS = 30_000
"""How long the batch that runs when a pipeline is stopped may take to end; then it is cut off, and repeated later."""
PIPELINE_ERROR_CHARACTERS = 2_000
"""What is kept of an error's text."""
MIRROR_FETCH_BYTES = 32 * MiB
"""What a mirror takes at a time of all leaders together, and sends in one transaction; it holds two such rounds."""
MIRROR_FETCH_LEAST_BYTES = 1 * MiB
"""What it takes of each of many leaders, and of all when it is slow."""
MIRROR_FETCH_FIRST_BYTES = 4 * MiB
"""What it takes first, before it knows how fast both sides are."""
MIRROR_QUICK_MS, MIRROR_SLOW_MS = 5_000, 15_000
"""After a round that took less to fetch and to send the next one may have twice the bytes, after one that took more it
has half: a transaction lasts a minute at most, and a request half of that."""
MIRROR_BATCHES_IN_FLIGHT = 512
"""Batches of one partition that a mirror sends before the first is acknowledged."""
MIRROR_REQUESTS_IN_FLIGHT = 2048
"""The same of all partitions."""
MIRROR_PROGRESS_RECORDS = 50
"""Partitions whose progress goes into one batch, so that it stays below any sensible message.max.bytes."""
MIRROR_PAUSE_MS = 100
"""How long a mirror waits when the source has more, and gives none of it."""
MIRROR_TOPICS_MS = 5_000
"""How often a mirror looks for new topics and partitions."""
MIRROR_CONFIGS_MS = 60_000
"""How often it holds the topics' configs against each other."""
PIPELINE_TURN_POLL_MS = 100
"""How often a run looks whether a backfill of its pipeline has done its part, and the other way round."""
TEST_SAMPLE_ROWS = 5
"""Rows that a failed test shows of those that failed it."""
TEST_SAMPLE_CHARACTERS = 2_000
"""The same as text; what is longer is cut."""
TEST_RESULTS_KEEP_DAYS = 365
"""For how long results of tests are kept, if the pipeline's file does not say."""
TEST_RESULTS_OVERDUE_S = 86_400
"""Results that are older than that stay for so long at most: their table is rewritten once a day, not by each run."""
TEST_RESULTS_SHOWN = 1_000
"""Newest results that a pipeline's page looks at."""
ALARM_TIMEOUT_S = 30
"""How long the command of an alarm may take; then it is ended."""
AUDIT_OFFSETS_PER_STEP = 50_000_000
"""Offsets of one cluster that an audit counts before it commits; the rest is lag, and follows at once."""
AUDIT_ALARMS_PER_STEP = 100
"""Buckets that one look of an audit gives an alarm for; further ones come with the next."""
AUDIT_COMMITS_PER_CLEANING = 500
"""After so many commits the files that an audit's table has replaced are looked through."""
AUDIT_BUCKETS_PER_PRODUCER = 10_000
"""Buckets of all topics that a producer counts under one session; then it begins another."""
