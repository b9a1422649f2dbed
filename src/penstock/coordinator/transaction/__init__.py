"""The transaction coordinator: what a transactional id may do, kept in `__transaction_state`, over the runtime.

A transactional id has one `Transaction` (transaction.py): the producer id and epoch of the producer that may use it,
and the partitions of the transaction that it has open. Records hold it whole (records.py), so the last one of each id
counts. `Transactions` (state.py) has those of one partition of the topic, and `TransactionMachine` (machine.py) is what
the runtime sees.

- InitProducerId (init_producer_id.py) raises the epoch: whoever had the id before is fenced.
- AddPartitionsToTxn (partitions.py) opens a transaction or adds to it, and verifies for leaders what is in it.
- EndTxn, time-outs and fencing (ending.py) prepare the end. Once that is committed it is decided, and markers go to all
  partitions; whoever sends them is told of an `Ending`, and completes it when all have been written. A partition that
  is loaded goes on with the ends that it finds prepared, step by step.
- Transactional ids that nobody uses expire (expiry.py); transactions are described and listed (describe.py).

While a transition waits for its commit, and as long as an end is not complete, other requests for the id are answered
CONCURRENT_TRANSACTIONS. Of two transaction versions the newer one raises the epoch with each end (KIP-890); both are
served at once, whatever the cluster's `transaction.version`, which decides about ends that no client has asked for.

Source: TransactionCoordinator, TransactionStateManager and TransactionMetadata of Apache Kafka 4.3.
"""
