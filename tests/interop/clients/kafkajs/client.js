// kafkajs under orders: `node client.js BOOTSTRAP`.
//
// Orders come on standard input as JSON, one a line, and each gets one line of JSON back, {"error": ...} when it
// failed. Bytes are base 64. It only produces and administrates: kafkajs consumes in groups alone.
"use strict";
const readline = require("node:readline");
const { CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = require("kafkajs");

const login = require("./login.js");

CompressionCodecs[CompressionTypes.Snappy] = require("kafkajs-snappy");

const CODECS = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy };
const RETRY = { retries: 2, initialRetryTime: 50 };

const bytes = (text) => (text === null ? null : Buffer.from(text, "base64"));

function message(row) {
  const headers = {};
  for (const { name, value } of row.headers) (headers[name] ??= []).push(bytes(value));
  return { partition: 0, timestamp: String(row.timestamp), key: bytes(row.key), value: bytes(row.value), headers };
}

async function connected(client, work) {
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.disconnect();
  }
}

function orders(kafka, admin) {
  return {
    create: async ({ topic, partitions, configs }) => {
      const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }));
      const made = await admin.createTopics({ topics: [{ topic, numPartitions: partitions, configEntries }] });
      if (!made) throw new Error("the topic exists");
    },
    delete: ({ topic }) => admin.deleteTopics({ topics: [topic] }),
    topics: async () => ({ topics: await admin.listTopics() }),
    partitions: async ({ topic }) => {
      const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
      return { partitions: topics[0].partitions.length };
    },
    config: async ({ topic, name }) => {
      const resource = { type: ConfigResourceTypes.TOPIC, name: topic, configNames: [name] };
      const { resources } = await admin.describeConfigs({ resources: [resource], includeSynonyms: false });
      return { value: resources[0].configEntries[0].configValue };
    },
    set_configs: ({ topic, configs }) => {
      const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }));
      const resource = { type: ConfigResourceTypes.TOPIC, name: topic, configEntries };
      return admin.alterConfigs({ validateOnly: false, resources: [resource] });
    },
    times: async ({ topic, times }) => {
      const offsets = [];
      for (const time of times) {
        const found = await admin.fetchTopicOffsetsByTimestamp(topic, time);
        offsets.push(Number(found[0].offset));
      }
      return { offsets };
    },
    produce: ({ topic, codec, idempotent, rows }) => {
      const settings = { idempotent, maxInFlightRequests: idempotent ? 1 : null, retry: idempotent ? undefined : RETRY };
      const batch = { topic, compression: CODECS[codec], acks: -1, messages: rows.map(message) };
      return connected(kafka.producer(settings), (producer) => producer.send(batch));
    },
    transaction: ({ topic, value, commit }) => {
      const settings = { idempotent: true, maxInFlightRequests: 1, transactionalId: "penstock", retry: RETRY };
      return connected(kafka.producer(settings), async (producer) => {
        const transaction = await producer.transaction();
        await transaction.send({ topic, messages: [{ value }] });
        await (commit ? transaction.commit() : transaction.abort());
      });
    },
  };
}

async function main(bootstrap) {
  const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.NOTHING, retry: RETRY, ...login.ofAll() });
  await connected(kafka.admin(), async (admin) => {
    const known = orders(kafka, admin);
    for await (const line of readline.createInterface({ input: process.stdin })) {
      const order = JSON.parse(line);
      let answer;
      try {
        answer = await known[order.do](order);
      } catch (error) {
        answer = { error: `${error.name}: ${error.message}` };
      }
      const told = answer && typeof answer === "object" && !Array.isArray(answer) ? answer : {};
      process.stdout.write(`${JSON.stringify(told)}\n`);
    }
  });
}

main(process.argv[2]);
