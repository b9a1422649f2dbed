"""Limits of loads, reads and tables on Spark. Nobody needs to tune them."""

from penstock.config.values import KiB, MiB

SPARK_FETCHES_AHEAD = 4
"""Fetches that wait for a task to decode them; the fetching thread pauses beyond it."""
SPARK_RANGES_AT_ONCE = 4
"""Ranges that one task fetches side by side."""
SPARK_FILE_READ_BYTES = 4 * MiB
"""What one read of a segment's file takes; a batch that is larger is read whole, up to CLIENT_RESPONSE_BYTES."""
SPARK_FILES_LEAST_OFFSETS = 10_000
"""A task with fewer offsets than this asks the brokers at once: looking for files would cost more than it saves."""
SPARK_RUN_BYTES = 8 * MiB
"""Decompressed records that a task turns into Arrow columns at a time; a batch that is larger is decoded whole."""
SPARK_ARROW_BATCH_ROWS = 10_000
"""Rows of one Arrow batch that a task hands to Spark; larger ones are cut."""
SPARK_ARROW_BATCH_BYTES = 1 * MiB
"""The same in bytes, by the mean size of the rows; a row that is larger goes alone."""
SPARK_SCHEMAS_KEPT = 1000
"""Schemas by id that a Python worker keeps of registries; the one used longest ago is asked for anew beyond it."""
REGISTRY_TIMEOUT_S = 30
"""How long a schema registry may take for an answer; it is asked up to four times."""
SPARK_TASK_OFFSETS_WORTHWHILE = 20_000
"""Offsets that are worth a task of their own; a smaller read has fewer tasks than there are cores."""
SPARK_DYNAMIC_TASKS = 200
"""Tasks of a read where executors are allocated as tasks wait for them, and nothing says how many at most."""
SPARK_ANSWER_TIMEOUT_S = 5
"""How long a Spark master or Connect server may take to accept a connection: Spark itself would try for minutes."""
SPARK_QUERY_START_TIMEOUT_S = 60
"""How long another query of Spark Connect waits for one that sets up its source, before it starts all the same."""
SPARK_QUERY_LOOK_S = 0.05
"""The pause between looks whether it has."""
SPARK_TASK_REPLANS = 10
"""How often a task asks anew what is left of its ranges, with failOnDataLoss = false."""
SPARK_SAMPLE_BYTES = 64 * KiB
"""What planning a microbatch fetches of a partition to estimate the size of what waits, with maxBytesPerTrigger."""
SPARK_SAMPLED_PARTITIONS = 128
"""Partitions that are looked at for that estimate; the others are taken to be alike."""
LOAD_OFFSETS_PER_JOB = 5_000_000
"""Offsets that one job of a load takes on; what is beyond waits for the next job."""
LAKE_GAPS_PER_PIPELINE = 4096
"""Gaps that a table's progress names one by one, for each pipeline; beyond it the oldest are sealed into ranges."""
LAKE_SEALED_PER_PIPELINE = 4096
"""Sealed ranges of gaps kept for each pipeline; beyond it those of a partition are merged pairwise."""
LAKE_GAPS_PER_LOG_ENTRY = 256
"""Gaps that a commit's own metadata repeats for people; a commit with more tells their number only."""
LAKE_SUMMARIES_KEPT = 16
"""Progress summaries kept for readers of a Delta table's recent versions; older ones are deleted after a commit."""
LAKE_SNAPSHOTS_KEPT = 25
"""Newest snapshots that an Iceberg table keeps; of older ones so many are dropped at once that appends superseded."""
LAKE_DIVERGED_PER_PARTITION = 16
"""Ranges kept of what brokers lost after it was loaded; beyond it the two oldest become one, with what is between."""
LAKE_COMMIT_MARKS = 16
"""Newest commits of a pipeline that an Iceberg table tells one by one, so that a writer finds a commit of its own."""
LOAD_INLINE_OFFSETS = 20_000
"""Offsets up to which a job of a load runs in the driver itself: below that a Spark job costs more than it shares."""
LOAD_FIRST_OFFSETS = 10_000
"""Offsets of the first job into a table whose columns are found in the data: it runs again with the columns found."""
LOAD_COLUMNS_MAX = 1000
"""Columns that a load gives a table; records with further new fields go to the quarantine table."""
LOAD_OPEN_FILES = 64
"""Data files that one task writes side by side (one a table and partition value); beyond it the first one is closed."""
LOAD_FILES_PER_TASK = 10_000
"""Data files that one task may write; a table that would need more is partitioned by a column of too many values."""
LOAD_WAITING_BYTES = 64 * MiB
"""Rows that wait in a task to be written in larger row groups, of all its files; beyond it the largest is written."""
LAKE_DIRECTORY_NAME_BYTES = 255
"""A partition value and its column's name as a directory's name; records of longer values go to the quarantine."""
LOAD_LATE_MAX_MS = 10 * 366 * 86_400_000
"""The most that `late_after_ms` may be: ten years."""
LOAD_REPLANS = 20
"""Times a job is planned anew because the table, its columns or a schema changed under it, before the load gives up."""
LOAD_METADATA_AGE_MS = 5000
"""How old the list of topics and partitions may grow while nothing new comes in."""
LOAD_POLL_MS = 500
"""One long poll for new records; a load that is told to stop, stops within it."""
GROUP_COMMIT_INTERVAL_MS = 5000
"""How often a pipeline commits its group's offsets at most; Kafka's `auto.commit.interval.ms`."""
GROUP_COMMIT_RETRY_MS = 30_000
"""How long it leaves a coordinator alone that did not take them; twice as long each time that it happens again."""
GROUP_COMMIT_RETRY_MAX_MS = 600_000
"""The longest such time."""
GROUP_COMMIT_REPEAT_MS = 3_600_000
"""How often offsets that do not move are committed again, before brokers forget them."""
GROUP_COMMIT_TIMEOUT_MS = 5000
"""How long a commit may hold a pipeline up."""
GROUP_COMMIT_PARTITIONS = 1000
"""Partitions of one commit: its records are a single batch of the offsets topic, of at most a megabyte."""
JSON_NESTING_MAX = 256
"""Brackets of one JSON value up to which it takes the fast way: the parser there descends without a limit."""
AVRO_COMPILED_ROWS = 16
"""Avro values of one schema from which on compiled loops decode them; for fewer the calls cost more than they save."""
AVRO_NESTING_FRAMES = 8_000
"""Calls within each other up to which a recursive Avro value is decoded; a record in a union takes about five."""
SINK_QUEUE_BYTES = 32 * MiB
"""Records that one task of the sink has queued for the brokers (Java's buffer.memory); it waits beyond it."""
SINK_QUEUE_RECORDS = 200_000
"""The same as a number: small records cost more than their bytes."""
SINK_ROWS_AT_ONCE = 10_000
"""Rows that the sink turns into Python values at once; larger Arrow batches are gone through in parts."""
SINK_COMPILED_ROWS = 2_000
"""Rows from which on compiled loops are loaded for them, which takes half a second once a worker."""
SINK_PRODUCERS_MAX = 4
"""Producers that a Python worker keeps for later tasks; the one used longest ago ends beyond it."""
SINK_BATCH_BYTES = 256 * KiB
"""A batch that the transactional sink builds, before it is compressed; `kafka.batch.size` of it."""
SINK_INLINE_BYTES = 64 * KiB
"""Staged rows of a task that travel in its commit message; more of them go to a file."""
SINK_INLINE_TOTAL_BYTES = 64 * MiB
"""The same of all tasks together, for the driver holds them; the tasks beyond it use files from the first row on."""
SINK_STAGED_BYTES = 4096 * MiB
"""Staged rows of one task; beyond it the task fails, before it fills the disk that it shares."""
SINK_IN_FLIGHT_PER_PARTITION = 5
"""Batches of a partition that are under way at once: as many as a broker knows again when they are repeated."""
SINK_IN_FLIGHT = 64
"""Batches of all partitions that the driver has sent and that are not answered; they are in its memory."""
LAKE_VERIFY_THREADS = 4
"""Files of a table that are read at once to prove it."""
LAKE_RUNS_UNJOINED = 1 << 16
"""Runs of offsets of a partition that wait to be joined with the others."""
LAKE_RANGES_SHOWN = 20
"""Ranges kept of each kind a partition; a table that is wrong everywhere must not fill the memory with proof of it."""
LAKE_ROW_GROUP_ROWS = 1 << 18
"""Rows that a task collects before it writes them as one row group of a Parquet file."""
LAKE_ROW_GROUP_BYTES = 32 * MiB
"""The same in bytes; a file that is open holds as much memory."""
LAKE_SAMPLE_RANGES = 10
"""Places of each partition at which a sample of its rows is held against the broker."""
LAKE_COMPARE_ROWS = 1 << 18
"""Rows of a table that are in memory at once to be held against the broker; at least a row group."""
LAKE_COMPARE_BYTES = 64 * MiB
"""The same in bytes, as they are encoded in the table's files."""
LAKE_COMPARE_TRIES = 10
"""How often a part of that is begun anew because retention took records from under it."""
LAKE_ERASURE_BYTES_PER_COMMIT = 512 * MiB
"""Files that an erasure writes anew before it commits them, by their size."""
LAKE_ERASURE_ROUNDS = 100
"""How often an erasure looks for files that came while it looked at others."""
LAKE_ERASURE_MEMORY = "1GiB"
"""What the evaluation of an erasure's condition may hold, as DuckDB writes it."""
UPSERT_TRIES = 10
"""How often a batch is planned again because another writer changed the table under it."""
UPSERT_WHOLE_BYTES = 4 * MiB
"""Files that together are no larger are rewritten without looking which of them hold a key."""
UPSERT_LOOSE_FILES = 16
"""Small files of one partition value that a table may have; with more an upsert rewrites them along."""
UPSERT_LOOSE_BYTES = MiB
"""Below this a file is small."""
LAKE_READ_TASK_BYTES = 128 * MiB
"""Bytes of a table's files that one task reads at most, but for a row group that is larger; Spark's own figure."""
LAKE_FILE_OPEN_BYTES = 4 * MiB
"""What opening a file is taken to cost, in bytes that could be read meanwhile; no task is planned smaller."""
LAKE_READ_BATCH_ROWS = 10_000
"""Rows of one Arrow batch that a reading task hands to Spark."""
LAKE_STREAM_FILES = 1000
"""Files of one batch of a stream of a table, if `maxFilesPerTrigger` does not say; Delta's own figure."""
LAKE_STREAM_VERSIONS = 1000
"""Versions that planning one batch of such a stream looks at; those that follow wait for the next."""
PROTOBUF_COLUMNS_MAX = 20_000
"""Columns, at all depths, that a message of Protobuf may become; messages that name each other may make any number."""
PROTOBUF_NESTED_MAX = 50
"""How deep its messages may be nested in each other."""
PROTOBUF_INDEXES_MAX = 100
"""Messages nested in each other that the head of a framed value may name: as many as Protobuf reads."""
PROTOBUF_PATHS_KEPT = 1000
"""Paths of messages, as values have them, that a task remembers; more are looked up anew."""
