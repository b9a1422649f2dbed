// How kafkajs reaches a secured listener, and round trips with many logins.
//
// A login is { mechanism, user, password, trust, key }: without a mechanism there is TLS alone, where `key`, a PEM file
// with a key and its certificate, says who we are; `trust` is a PEM file of authorities. `ofAll()` is what CLIENT_LOGIN
// in the environment says, for all clients of a process.
//
// `node login.js` takes orders as JSON, one a line: { login, bootstrap, topic, value }. It produces the value and reads
// it in a group; { value } or { error } comes back.
"use strict";
const fs = require("node:fs");
const readline = require("node:readline");
const { Kafka, logLevel } = require("kafkajs");

function options({ mechanism, user, password, trust, key }) {
  const pem = key ? fs.readFileSync(key) : undefined;
  const ssl = { ca: [fs.readFileSync(trust)], ...(pem ? { key: pem, cert: pem } : {}) };
  const sasl = mechanism ? { mechanism: mechanism.toLowerCase(), username: user, password } : undefined;
  return { ssl, sasl };
}

const ofAll = () => (process.env.CLIENT_LOGIN ? options(JSON.parse(process.env.CLIENT_LOGIN)) : {});

async function trip({ login, bootstrap, topic, value }) {
  const settings = { brokers: [bootstrap], logLevel: logLevel.NOTHING, retry: { retries: 1, initialRetryTime: 50 } };
  const kafka = new Kafka({ ...settings, ...options(login) });
  const producer = kafka.producer();
  try {
    await producer.connect();
    await producer.send({ topic, messages: [{ value }] });
  } finally {
    await producer.disconnect();
  }
  const consumer = kafka.consumer({ groupId: topic, maxWaitTimeInMs: 100 });
  try {
    await consumer.connect();
    await consumer.subscribe({ topics: [topic], fromBeginning: true });
    return await new Promise((resolve, reject) => {
      consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
      consumer.run({ eachMessage: async ({ message }) => resolve(message.value.toString()) }).catch(reject);
    });
  } finally {
    await consumer.disconnect();
  }
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    let answer;
    try {
      answer = { value: await trip(JSON.parse(line)) };
    } catch (error) {
      answer = { error: `${error.name}: ${error.message}` };
    }
    process.stdout.write(`${JSON.stringify(answer)}\n`);
  }
}

module.exports = { ofAll };
if (require.main === module) main();
