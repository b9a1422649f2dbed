"""Limits of declared pipelines and the jobs that come with them. Nobody needs to tune them."""

from penstock.config.values import MiB

RESULT_TABLE_FILES_MAX = 100
"""Files of a Delta table of results; a batch that leaves more has them compacted."""
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
MIRROR_FETCH_BYTES = 4 * MiB
"""What a mirror takes of one partition at a time."""
MIRROR_BATCHES_IN_FLIGHT = 5
"""Batches of one partition that a mirror sends before the first is acknowledged: as many of a producer's last ones as a
broker knows again when they come twice."""
PIPELINE_TURN_POLL_MS = 100
"""How often a run looks whether a backfill of its pipeline has done its part, and the other way round."""
TEST_SAMPLE_ROWS = 5
"""Rows that a failed test shows of those that failed it."""
TEST_SAMPLE_CHARACTERS = 2_000
"""The same as text; what is longer is cut."""
TEST_RESULTS_SHOWN = 1_000
"""Newest results that a pipeline's page looks at."""
ALARM_TIMEOUT_S = 30
"""How long the command of an alarm may take; then it is ended."""
