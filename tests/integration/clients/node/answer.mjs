// Answers where KafkaJS and platformatic's client place keys.
//
// Arguments: partition counts. Standard input: a key in hex a line, an empty line is the empty key.
// Standard output: strategy, partition count, key in hex, partition, separated by tabs.
import { createInterface } from "node:readline";
import kafkajs from "kafkajs";

const { Partitioners } = kafkajs;
const counts = process.argv.slice(2).map(Number);

function ask(createPartitioner, asKey = (key) => key) {
  const choose = createPartitioner();
  return (key, partitions) => {
    const partitionMetadata = Array.from({ length: partitions }, (_, partitionId) => ({ partitionId, leader: 0 }));
    return choose({ topic: "t", partitionMetadata, message: { key: asKey(key) } });
  };
}

const strategies = {
  kafkajs: ask(Partitioners.DefaultPartitioner),
  "kafkajs-legacy": ask(Partitioners.LegacyPartitioner),
  "kafkajs-uint8array": ask(Partitioners.DefaultPartitioner, (key) => new Uint8Array(key)),
};

const lines = [];
for await (const line of createInterface({ input: process.stdin })) {
  const key = Buffer.from(line, "hex");
  for (const partitions of counts) {
    for (const [name, choose] of Object.entries(strategies)) {
      lines.push(`${name}\t${partitions}\t${line}\t${choose(key, partitions)}`);
    }
  }
}
console.log(lines.join("\n"));
