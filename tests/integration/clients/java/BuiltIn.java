// Answers where the Java client since 3.3 places keys.
//
// Arguments: partition counts. Standard input: a key in hex a line, an empty line is the empty key.
// Standard output: strategy, partition count, key in hex, partition, separated by tabs.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.HexFormat;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;

public class BuiltIn {
    public static void main(String[] counts) throws Exception {
        var out = new PrintStream(System.out, false);
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            byte[] key = HexFormat.of().parseHex(line);
            for (String count : counts) {
                int partition = BuiltInPartitioner.partitionForKey(key, Integer.parseInt(count));
                out.printf("java-builtin\t%s\t%s\t%d%n", count, line, partition);
            }
        }
        out.flush();
    }
}
