// How many keys a second the Java client places: `BuiltInPartitioner.partitionForKey`, warm, on one thread.
//
// Arguments: length of a key, number of keys, rounds. Prints the best round's keys per second.

import java.util.Random;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;

public class Murmur2Loop {
    public static void main(String[] arguments) {
        int length = Integer.parseInt(arguments[0]);
        byte[][] keys = new byte[Integer.parseInt(arguments[1])][length];
        var random = new Random(7);
        for (byte[] key : keys) {
            random.nextBytes(key);
        }
        double best = 0;
        long sum = 0;
        for (int round = 0; round < Integer.parseInt(arguments[2]); round++) {
            long started = System.nanoTime();
            for (byte[] key : keys) {
                sum += BuiltInPartitioner.partitionForKey(key, 12);
            }
            best = Math.max(best, keys.length / ((System.nanoTime() - started) / 1e9));
        }
        System.out.printf("%.0f %d%n", best, sum);
    }
}
