// Members of groups by kafkajs, under orders from standard input, one a line:
//
//     open MEMBER bootstrap=... group=... topics=a,b SETTING=VALUE ...
//     close MEMBER      leaves the group
//
// Each event is a line of standard output: the member, what happened, and to which partitions or records. kafkajs has
// no callbacks of its own for partitions: what it has is what its last assignment says.
"use strict";
const readline = require("node:readline");
const { AssignerProtocol, Kafka, logLevel } = require("kafkajs");
const login = require("./login.js");

const tell = (member, event, places = []) => process.stdout.write(`${[member, event, ...places].join(" ")}\n`);

// The assignor `range` of other clients, which kafkajs has not: it must be able to lead a group of them, too.
const range = ({ cluster }) => ({
  name: "range",
  version: 0,
  async assign({ members }) {
    const subscriptions = members.map(({ memberId, memberMetadata }) => {
      const { topics } = AssignerProtocol.MemberMetadata.decode(memberMetadata);
      return { memberId, topics };
    });
    const topics = [...new Set(subscriptions.flatMap((each) => each.topics))].sort();
    const assignments = new Map(members.map(({ memberId }) => [memberId, {}]));
    await cluster.addMultipleTargetTopics(topics);
    for (const topic of topics) {
      const sharers = subscriptions.filter((each) => each.topics.includes(topic)).map((each) => each.memberId).sort();
      const partitions = cluster.findTopicPartitionMetadata(topic).map((each) => each.partitionId).sort((a, b) => a - b);
      const each = Math.floor(partitions.length / sharers.length);
      const larger = partitions.length % sharers.length;
      sharers.forEach((memberId, place) => {
        const start = place * each + Math.min(place, larger);
        assignments.get(memberId)[topic] = partitions.slice(start, start + each + (place < larger ? 1 : 0));
      });
    }
    return [...assignments].map(([memberId, assignment]) => ({
      memberId,
      memberAssignment: AssignerProtocol.MemberAssignment.encode({ version: 0, assignment, userData: Buffer.alloc(0) }),
    }));
  },
  protocol: ({ topics }) => ({
    name: "range",
    metadata: AssignerProtocol.MemberMetadata.encode({ version: 0, topics, userData: Buffer.alloc(0) }),
  }),
});

async function open(member, settings) {
  const place = { clientId: member, brokers: [settings.bootstrap], logLevel: logLevel.NOTHING };
  const kafka = new Kafka({ ...place, ...login.ofAll() });
  const consumer = kafka.consumer({
    groupId: settings.group,
    sessionTimeout: Number(settings.session_ms),
    heartbeatInterval: Number(settings.heartbeat_ms),
    metadataMaxAge: Number(settings.refresh_ms),
    maxWaitTimeInMs: 100,
    ...(settings.assignor === "range" ? { partitionAssigners: [range] } : {}),
  });
  let owned = [];
  const { GROUP_JOIN, REBALANCING } = consumer.events;
  const revoke = () => {
    if (owned.length) tell(member, "revoked", owned);
    owned = [];
  };
  consumer.on(REBALANCING, revoke);
  consumer.on(GROUP_JOIN, ({ payload }) => {
    revoke();
    const topics = Object.entries(payload.memberAssignment);
    owned = topics.flatMap(([topic, partitions]) => partitions.map((index) => `${topic}:${index}`));
    tell(member, "assigned", owned);
  });
  await consumer.connect();
  await consumer.subscribe({ topics: settings.topics.split(","), fromBeginning: true });
  await consumer.run({
    eachBatchAutoResolve: true,
    eachBatch: async ({ batch, resolveOffset, commitOffsetsIfNecessary }) => {
      tell(member, "read", batch.messages.map(({ offset }) => `${batch.topic}:${batch.partition}:${offset}`));
      resolveOffset(batch.lastOffset());
      await commitOffsetsIfNecessary({
        topics: [{ topic: batch.topic, partitions: [{ partition: batch.partition, offset: String(Number(batch.lastOffset()) + 1) }] }],
      });
    },
  });
  return consumer;
}

async function main() {
  const members = new Map();
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [order, member, ...words] = line.split(" ");
    if (order === "open") {
      const settings = Object.fromEntries(words.map((word) => word.split("=")));
      const opening = open(member, settings);
      opening.catch((error) => tell(member, "failed", [String(error).replace(/\s/g, "_")]));
      members.set(member, opening);
    } else {
      const leaving = members.get(member).then((consumer) => consumer.disconnect());
      members.delete(member);
      leaving.then(() => tell(member, "closed"));
    }
  }
  await Promise.all([...members.values()].map(async (opening) => (await opening).disconnect()));
}

main();
