"""Limits of metadata: how large what the controller keeps may become, and how much it changes at once."""

TOPIC_NAME_MAX_CHARACTERS = 249
"""Kafka's limit: a directory name must hold the topic, the partition and a suffix."""
PARTITIONS_PER_TOPIC_MAX = 100_000
"""Partitions of one topic."""
PARTITIONS_PER_REQUEST_MAX = 10_000
"""Partitions that one request may create, as Kafka's MAX_PARTITIONS_PER_BATCH; more are POLICY_VIOLATION."""
REPLICAS_PER_PARTITION_MAX = 1_000
"""Replicas that somebody assigns to one partition; more are INVALID_REPLICA_ASSIGNMENT."""
CONFIGS_PER_RESOURCE_MAX = 1_000
"""Configs of one resource, or of one new topic, in a request; one with more is refused."""
CONTROLLER_RECORDS_PER_BATCH_MAX = 10_000
"""Metadata records that one request may append atomically (Kafka's MAX_RECORDS_PER_USER_OP)."""
SCRAM_ITERATIONS_MIN = 4096
"""Fewest rounds of key derivation (RFC 7677, and Kafka's for both mechanisms): a credential or challenge with fewer is
refused."""
SCRAM_ITERATIONS_MAX = 16_384
"""Most rounds of a credential that is stored, as with Kafka; more are UNACCEPTABLE_CREDENTIAL."""
DELEGATION_TOKENS_MAX = 100_000
"""Delegation tokens of a cluster; another one is POLICY_VIOLATION. Whoever has logged in may make them."""
RENEWERS_PER_TOKEN_MAX = 100
"""Renewers of one delegation token; with more it is not made: POLICY_VIOLATION."""
TOKENS_SWEPT_PER_STEP = 1_000
"""Delegation tokens that the controller looks at in one turn for those that are past their time."""
LEADERSHIP_CHANGES_PER_STEP = 200
"""Partitions whose leader or in-sync replicas the controller changes at once when a broker goes, or that it balances
in one turn; the rest follow in further steps, with other work in between."""
LOST_CONNECTION_GRACE_MS = 500
"""How long a broker whose connection to the controller is lost may take to be heard of again before it is fenced."""
ACLS_PER_REQUEST_MAX = CONTROLLER_RECORDS_PER_BATCH_MAX
"""ACLs that one request may create or remove; more are POLICY_VIOLATION."""
