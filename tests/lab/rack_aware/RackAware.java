package org.apache.kafka.clients.producer.internals;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.MetadataSnapshot;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.requests.MetadataResponse.PartitionMetadata;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.common.utils.internals.LogContext;

/**
 * What the real accumulator and its built-in partitioner draw. A line in: the words that `states.py` writes. A line out:
 * the partition for each random number, in base 36.
 */
public class RackAware {
    private static final String TOPIC = "t";
    private static final int NOT_MADE = -1;

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; )
            System.out.println(answer(line.split(" ")));
    }

    private static String answer(String[] words) throws Exception {
        boolean isAdaptive = words[0].equals("1");
        String rack = words[2].equals("-") ? "" : words[2];
        List<Node> nodes = readNodes(words[3].split(","));
        int[] leaders = readNumbers(words[4]);
        Cluster cluster = makeCluster(nodes, leaders, readNumbers(words[5]));
        Metrics metrics = new Metrics();
        Accumulator accumulator = new Accumulator(isAdaptive, Long.parseLong(words[1]), rack, metrics);
        int[] sizes = readNumbers(words[6]);
        for (int partition = 0; partition < sizes.length; partition++)
            fill(accumulator, partition, sizes[partition], cluster);
        int[] waits = readNumbers(words[7]);
        for (int node = 0; node < waits.length; node++) {
            accumulator.updateNodeLatencyStats(node, 0, true);
            accumulator.updateNodeLatencyStats(node, waits[node], false);
        }
        accumulator.ready(makeSnapshot(nodes, leaders), 1);
        StringBuilder out = new StringBuilder();
        BuiltInPartitioner.StickyPartitionInfo info = null;
        for (int random : readNumbers(words[8])) {
            accumulator.random = random;
            BuiltInPartitioner partitioner = accumulator.topicInfoFor(TOPIC).builtInPartitioner;
            if (info != null)
                partitioner.updatePartitionInfo(info, 2, cluster); // twice the batch size: it moves on
            info = partitioner.peekCurrentPartitionInfo(cluster);
            out.append(Character.forDigit(info.partition(), 36));
        }
        metrics.close();
        return out.toString();
    }

    private static int[] readNumbers(String word) {
        return Arrays.stream(word.split(",")).mapToInt(Integer::parseInt).toArray();
    }

    private static List<Node> readNodes(String[] racks) {
        List<Node> nodes = new ArrayList<>();
        for (String rack : racks)
            nodes.add(new Node(nodes.size(), "broker", 9092, rack.equals("-") ? null : rack));
        return nodes;
    }

    /** The partitions as the metadata lists them. */
    private static Cluster makeCluster(List<Node> nodes, int[] leaders, int[] listed) {
        List<PartitionInfo> infos = new ArrayList<>();
        for (int partition : listed) {
            Node leader = leaders[partition] < 0 ? null : nodes.get(leaders[partition]);
            infos.add(new PartitionInfo(TOPIC, partition, leader, new Node[0], new Node[0]));
        }
        return new Cluster("c", nodes, infos, Set.of(), Set.of());
    }

    private static MetadataSnapshot makeSnapshot(List<Node> nodes, int[] leaders) {
        Map<Integer, Node> byId = new HashMap<>();
        nodes.forEach(node -> byId.put(node.id(), node));
        List<PartitionMetadata> partitions = new ArrayList<>();
        for (int partition = 0; partition < leaders.length; partition++) {
            Optional<Integer> leader = leaders[partition] < 0 ? Optional.empty() : Optional.of(leaders[partition]);
            TopicPartition name = new TopicPartition(TOPIC, partition);
            partitions.add(new PartitionMetadata(Errors.NONE, name, leader, Optional.of(0), List.of(), List.of(), List.of()));
        }
        return new MetadataSnapshot("c", byId, partitions, Set.of(), Set.of(), Set.of(), null, Map.of());
    }

    /** So many batches of a record each: with a batch size of 1 no batch has room for a second of 100 bytes. */
    private static void fill(Accumulator accumulator, int partition, int size, Cluster cluster) throws Exception {
        if (size == NOT_MADE)
            return;
        accumulator.topicInfoFor(TOPIC).batches.computeIfAbsent(partition, number -> new ArrayDeque<>());
        for (int batch = 0; batch < size; batch++)
            accumulator.append(TOPIC, partition, 0, null, new byte[100], Record.EMPTY_HEADERS, null, 0, 0, cluster);
    }

    private static class Accumulator extends RecordAccumulator {
        int random;

        Accumulator(boolean isAdaptive, long timeoutMs, String rack, Metrics metrics) {
            super(
                new LogContext(), 1, Compression.NONE, 0, 0L, 0L, 1_000,
                new PartitionerConfig(isAdaptive, timeoutMs, !rack.isEmpty(), rack), metrics, "m", Time.SYSTEM, null,
                new BufferPool(1 << 20, 1, metrics, Time.SYSTEM, "m"));
        }

        @Override
        BuiltInPartitioner createBuiltInPartitioner(LogContext log, String topic, int size, boolean isAware, String rack) {
            return new BuiltInPartitioner(log, topic, size, isAware, rack) {
                @Override
                int randomPartition() {
                    return Utils.toPositive(random);
                }
            };
        }
    }
}
