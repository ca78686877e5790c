// Sends keyless records in bursts through KafkaJS, a call for each burst, or node-rdkafka.
//
// Argument and output as of `../go/send`. KafkaJS has no linger, and a call is never waited for.
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";

const setting = JSON.parse(process.argv[2]);
const { bootstrap, topic, count, rate, burst, bytes, step, linger_ms: linger } = setting;
const load = createRequire(import.meta.url);

async function pace(send) {
  const at = [];
  const start = process.hrtime.bigint();
  for (let first = 0; first < count; first += burst) {
    const due = start + (BigInt(first) * 1_000_000_000n) / BigInt(rate);
    for (let left; (left = due - process.hrtime.bigint()) > 0n; ) await sleep(Math.max(Number(left / 1_000_000n), 0));
    const numbers = Array.from({ length: Math.min(burst, count - first) }, (_, index) => first + index);
    const note = () => at.push(Number(process.hrtime.bigint() - start));
    send(numbers.map((number) => Buffer.alloc(bytes + ((number * 7) % 11) * step)), note);
  }
  return at;
}

async function sendKafkaJs() {
  const { Kafka, Partitioners, logLevel } = load("kafkajs");
  const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.ERROR });
  const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner });
  await producer.connect();
  const calls = [];
  const at = await pace((values, note) => {
    values.forEach(note);
    calls.push(producer.send({ topic, messages: values.map((value) => ({ value })) }));
  });
  await Promise.all(calls);
  await producer.disconnect();
  return at;
}

async function sendNodeRdkafka() {
  const { Producer } = load("node-rdkafka");
  const lingering = linger < 0 ? {} : { "linger.ms": linger };
  const producer = new Producer({ "metadata.broker.list": bootstrap, ...lingering });
  producer.setPollInterval(20);
  await new Promise((resolve, reject) => producer.connect({ topic }, (error) => (error ? reject(error) : resolve())));
  const at = await pace((values, note) =>
    values.forEach((value) => {
      note();
      producer.produce(topic, null, value);
    }),
  );
  await new Promise((resolve, reject) => producer.flush(60_000, (error) => (error ? reject(error) : resolve())));
  await new Promise((resolve) => producer.disconnect(resolve));
  return at;
}

const at = await (setting.client === "KafkaJS" ? sendKafkaJs() : sendNodeRdkafka());
console.log(JSON.stringify(at));
