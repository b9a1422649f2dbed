"""Limits of the client: what bounds its buffers and its tries. Nobody needs to tune them."""

from penstock.config.values import KiB, MiB

CLIENT_RESPONSE_BYTES = 128 * MiB
"""One response that the small client accepts; a longer one closes the connection."""
CLIENT_SCRATCH_BYTES = 64 * KiB
"""Receive buffer of one client connection; larger responses get a buffer of their own size."""
CLIENT_RETRY_BACKOFF_MS = 100
"""Between two tries of a request that failed retriably."""
CLIENT_FETCH_BYTES = 4 * MiB
"""What one fetch of one partition asks for."""
CLIENT_BATCH_BYTES = 512 * KiB
"""A batch that the client builds is sent when the next record would make it larger."""
CLIENT_CONFIG_RESOURCES = 500
"""Resources whose configs one request asks for; more of them take several requests."""
IMPORT_PARTITIONS_MAX = 4
"""Partitions that an import appends to at once; the others wait for their turn."""
IMPORT_SETTLE_MS = 30_000
"""How long an import waits for the end of a log that does not take its next batch; then it gives up."""
IMPORT_STEP_RECORDS = 10_000
"""Records that an import passes over before it lets others run."""
CLIENT_LOG_DIRECTORIES_MS = 10_000
"""How long a broker may take to describe its log directories; then it counts as unreachable."""
CLIENT_DESCRIBED_PARTITIONS = 500
"""Partitions whose producers one request asks for; more of them take several requests."""
CLIENT_DESCRIBED_TRANSACTIONS = 100
"""Transactional ids that are asked about at once; more of them wait for their turn."""
CLIENT_LOGIN_TOKENS = 8
"""Tokens of one login; SCRAM takes two. An exchange that has not ended then has failed."""
SETTINGS_FILE_MAX_BYTES = 16 << 20
"""A properties file, or a file that a config provider reads; a larger one, or a device, is none."""
FETCH_DEADLINE_MS = 30_000
"""All of one question to who issues tokens or keys; then the connection is cut."""
FETCH_CHUNK_BYTES = 64 * KiB
"""What is read of an answer at once."""
TOKEN_ANSWER_MAX_BYTES = 256 * KiB
"""The answer of a token endpoint, or a file with a token; a larger one is not read to its end, and refused."""
TOKENS_KEPT_MAX = 64
"""Tokens that a process keeps, one for each way to get one; the oldest makes room, and would be asked for anew."""
ISSUER_MESSAGE_CHARACTERS = 500
"""What an error shows of what a token endpoint says; the rest is cut."""
BEARER_TOKEN_MAX_CHARACTERS = 60 * 1024
"""A token that a client sends; a longer one is refused where it comes from, since no listener takes it."""
CLIENT_QUOTA_USAGES = 100
"""Measures of what clients use of their quotas that are asked for, of each broker, unless somebody wants more."""
CLIENT_QUOTA_USAGE_MS = 10_000
"""How long a broker may take to describe what clients use of their quotas; then it counts as unreachable."""
