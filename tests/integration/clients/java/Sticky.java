// Answers where the Java client of 2.4 to 3.2 places keys: `DefaultPartitioner` of KIP-480.
//
// Arguments: partition counts. Standard input: a key in hex a line, an empty line is the empty key.
// Standard output: strategy, partition count, key in hex, partition, separated by tabs.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.Set;
import org.apache.kafka.clients.producer.internals.DefaultPartitioner;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;

public class Sticky {
    public static void main(String[] counts) throws Exception {
        var out = new PrintStream(System.out, false);
        var lines = new BufferedReader(new InputStreamReader(System.in));
        var partitioner = new DefaultPartitioner();
        var clusters = new Cluster[counts.length];
        for (int i = 0; i < counts.length; i++) {
            clusters[i] = clusterOf(Integer.parseInt(counts[i]));
        }
        for (String line; (line = lines.readLine()) != null; ) {
            byte[] key = HexFormat.of().parseHex(line);
            for (int i = 0; i < counts.length; i++) {
                int partition = partitioner.partition("t", key, key, null, null, clusters[i]);
                out.printf("java-sticky-2.4\t%s\t%s\t%d%n", counts[i], line, partition);
            }
        }
        out.flush();
    }

    private static Cluster clusterOf(int partitions) {
        var node = new Node(0, "broker", 9092);
        var nodes = new Node[] {node};
        var infos = new ArrayList<PartitionInfo>();
        for (int partition = 0; partition < partitions; partition++) {
            infos.add(new PartitionInfo("t", partition, node, nodes, nodes));
        }
        return new Cluster("c", Set.of(node), infos, Set.of(), Set.of());
    }
}
