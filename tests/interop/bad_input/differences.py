"""Where Penstock answers a bad request otherwise than Apache Kafka 4.3.1 does, and why: case of the corpus to reason.

The bad requests that are answered alike, all others of `corpus.CASES`, are not listed.
"""

from __future__ import annotations

from collections.abc import Mapping

INTERNAL = "Kafka fails inside and answers UNKNOWN_SERVER_ERROR; we name the fault: "
HEADER_ONLY = "we check a batch's header and CRC, not its records, unless penstock.produce.validation=deep: "
SETTINGS = (
    "Kafka takes any name of a broker config, for plug-ins that may read it; we have no such plug-ins, and a name that "
    "nobody reads is most often a typing error: INVALID_REQUEST"
)

DIFFERENCES: Mapping[str, str] = {
    "Produce: length huge": INTERNAL + "INVALID_RECORD",
    "Produce: unknown codec": INTERNAL + "INVALID_RECORD",
    "Produce: not what the codec says": HEADER_ONLY
    + "the batch is kept, and its readers get an error from their decompressor; Kafka answers UNKNOWN_SERVER_ERROR",
    "Produce: timestamp type log append time": "only a broker may set this type: INVALID_TIMESTAMP, which Kafka "
    "answers for topics with log append time only; elsewhere it rewrites the batch",
    "Produce: producer epoch negative": "no producer has a negative epoch: INVALID_RECORD; Kafka keeps it as the state "
    "of the producer id",
    "Produce: null records": "Kafka never answers, and the client waits for its timeout; we answer INVALID_RECORD",
    "Produce: same partition twice": "Kafka drops all but the last entry of a partition and answers that one; we "
    "append and answer each",
    "Fetch: negative partition size": "Kafka fails inside and answers UNKNOWN_SERVER_ERROR; to us it is a size of 0",
    "Fetch: negative sizes": "Kafka fails inside and answers UNKNOWN_SERVER_ERROR; to us they are sizes of 0",
    "Fetch: isolation level 7": INTERNAL + "INVALID_REQUEST",
    "Metadata: neither name nor id": INTERNAL + "INVALID_REQUEST",
    "Metadata: a client id that is not UTF-8": "Kafka puts a replacement character where a string is not UTF-8; to us "
    "the frame is broken, and the connection is closed",
    "DescribeTopicPartitions: name is empty": INTERNAL + "INVALID_TOPIC_EXCEPTION",
    "CreatePartitions: to 20000 partitions": INTERNAL + "POLICY_VIOLATION, as Kafka itself answers CreateTopics",
    "JoinGroup: garbage as the subscription of a consumer group": INTERNAL + "INCONSISTENT_GROUP_PROTOCOL",
    "IncrementalAlterConfigs: unknown operation": INTERNAL + "INVALID_REQUEST",
    "IncrementalAlterConfigs: unknown broker config": SETTINGS,
    "IncrementalAlterConfigs: unknown broker config, of all brokers": SETTINGS,
}

IN_HISTORIES: Mapping[tuple[str, str], str] = {
    ("brokers_that_verify", "the same twice"): "Kafka answers every entry of a transactional id by the last one; we "
    "answer each",
}
"""What differs in the histories of tests/interop/transactions, by history and step."""


def page() -> str:
    """docs/reference/bad-requests.md."""
    rows = "\n".join(f"| {case} | {reason} |" for case, reason in sorted(DIFFERENCES.items()))
    steps = "\n".join(
        f"| {history.replace('_', ' ')} | {step} | {reason} |"
        for (history, step), reason in sorted(IN_HISTORIES.items())
    )
    return (
        "# Bad requests: where Penstock differs from Apache Kafka\n\n"
        "A corpus of bad requests over every advertised API and version is sent to Penstock and to Apache Kafka 4.3.1\n"
        "at each test run (`tests/interop/bad_input`). Both answer the same error codes, or close the connection,\n"
        "but for these:\n\n"
        f"| Request | Difference |\n|---|---|\n{rows}\n\n"
        "Histories of transactions that no well-behaved producer has are told to both, too\n"
        "(`tests/interop/transactions`), at transaction.version 2 and 1. These steps of them differ:\n\n"
        f"| History | Step | Difference |\n|---|---|---|\n{steps}\n"
    )


if __name__ == "__main__":
    print(page(), end="")
