import java.io.DataInputStream;
import java.io.ByteArrayInputStream;
import java.io.FileInputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Locale;
import java.util.Properties;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Sends a given series of records at their instants: PlayArrivals [WARM_UP... -- ...] SETTINGS_FILE TOPIC ARRIVALS_FILE
 * EPOCH_MS.
 *
 * Four arguments that end in "--" are another series, sent first and not reported: then the client's code is compiled.
 * ARRIVALS_FILE holds a long and two ints per record, big-endian: nanoseconds from EPOCH_MS, bytes of the value, number
 * of the key (-1: none). A blocked send() delays what follows. The last line printed is the perf tool's, with
 * latencies in fractions of a millisecond.
 */
public class PlayArrivals {
    public static void main(String[] args) throws Exception {
        int from = 0;
        while (args.length - from > 4) {
            play(Arrays.copyOfRange(args, from, from + 4));
            from += 5;
        }
        long lateMs = System.currentTimeMillis() - Long.parseLong(args[from + 3]);
        if (lateMs > 0) {
            System.out.println("late by " + lateMs + " ms");
        }
        System.out.println(play(Arrays.copyOfRange(args, from, args.length)));
    }

    private static String play(String[] args) throws Exception {
        Properties settings = new Properties();
        try (FileInputStream in = new FileInputStream(args[0])) {
            settings.load(in);
        }
        byte[] series = Files.readAllBytes(Path.of(args[2]));
        int count = series.length / 16;
        DataInputStream in = new DataInputStream(new ByteArrayInputStream(series));
        byte[] filler = "x".repeat(1 << 20).getBytes(StandardCharsets.US_ASCII);
        long[] latencyNs = new long[count];
        Arrays.fill(latencyNs, -1);
        KafkaProducer<byte[], byte[]> producer =
            new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        // The tool's first send() waits for metadata; here it would delay a whole burst, so it is fetched before.
        producer.partitionsFor(args[1]);
        long startNs = System.nanoTime() + (Long.parseLong(args[3]) - System.currentTimeMillis()) * 1_000_000;
        for (int i = 0; i < count; i++) {
            int index = i;
            long dueNs = startNs + in.readLong();
            byte[] value = Arrays.copyOf(filler, in.readInt());
            int number = in.readInt();
            byte[] key = number < 0 ? null : String.format("key-%05d", number).getBytes(StandardCharsets.US_ASCII);
            for (long left = dueNs - System.nanoTime(); left > 0; left = dueNs - System.nanoTime()) {
                LockSupport.parkNanos(left);
            }
            long sentNs = System.nanoTime();
            producer.send(new ProducerRecord<>(args[1], key, value), (metadata, error) -> {
                if (error == null) {
                    latencyNs[index] = System.nanoTime() - sentNs;
                }
            });
        }
        producer.close();
        return report(latencyNs, System.nanoTime() - startNs);
    }

    private static String report(long[] latencyNs, long elapsedNs) {
        long[] sorted = Arrays.stream(latencyNs).filter(each -> each >= 0).sorted().toArray();
        double[] ms = Arrays.stream(sorted).mapToDouble(each -> each / 1e6).toArray();
        double rate = ms.length / (elapsedNs / 1e9);
        return String.format(Locale.ROOT, "%d records sent, %.2f records/sec (%.2f MB/sec), %.2f ms avg latency, "
            + "%.2f ms max latency, %.2f ms 50th, %.2f ms 95th, %.2f ms 99th, %.2f ms 99.9th.",
            ms.length, rate, 0.0, Arrays.stream(ms).average().orElse(0), ms[ms.length - 1],
            at(ms, 0.5), at(ms, 0.95), at(ms, 0.99), at(ms, 0.999));
    }

    private static double at(double[] sorted, double share) {
        return sorted[(int) (share * sorted.length)];
    }
}
