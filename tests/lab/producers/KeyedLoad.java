import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Keyed producers at a steady rate: KeyedLoad BOOTSTRAP FROM_EPOCH_MS TO_EPOCH_MS STREAM...
 *
 * A STREAM is "topic=clicks;client.id=clicks-web;keys=user-:400:1.2;rate=50;bytes=200;..." where
 *   keys=PREFIX:COUNT:EXPONENT   Zipf over COUNT keys (exponent 0: uniform);
 *   heavy=PART                   this part of all records has the first key, whatever the law says;
 *   place=default|range          the client's partitioner, or PARTITION = key number * partitions / COUNT;
 *   transaction.records=N        commits after every N records, aborts every fifth time (needs transactional.id);
 * and anything else is the producer's own setting. Each record falls at a random instant of its slot of 1/rate s.
 */
public class KeyedLoad {
    private static final List<String> OWN = List.of("topic", "keys", "rate", "bytes", "heavy", "place", "transaction.records");

    public static void main(String[] args) throws Exception {
        long fromMs = Long.parseLong(args[1]);
        long toMs = Long.parseLong(args[2]);
        List<Thread> threads = new ArrayList<>();
        for (int i = 3; i < args.length; i++) {
            KeyedLoad load = new KeyedLoad(args[0], args[i]);
            Thread thread = new Thread(() -> load.run(fromMs, toMs), load.topic);
            thread.start();
            threads.add(thread);
        }
        System.out.println("ready");
        for (Thread thread : threads) {
            thread.join();
        }
        // The exporter's thread is no daemon; its pages are wanted until the capture ends the process.
    }

    private final Map<String, String> own = new HashMap<>();
    private final String topic;
    private final KafkaProducer<byte[], byte[]> producer;
    private final int partitions;
    private final Random random;
    private final AtomicLong acked = new AtomicLong();
    private final AtomicLong failed = new AtomicLong();
    private final double heavy;
    private final double[] cumulative;
    private final byte[][] keys;
    private final byte[] value;

    KeyedLoad(String bootstrap, String stream) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        for (String pair : stream.split(";")) {
            String[] sides = pair.split("=", 2);
            if (OWN.contains(sides[0])) {
                own.put(sides[0], sides[1]);
            } else {
                settings.put(sides[0], sides[1]);
            }
        }
        topic = own.get("topic");
        random = new Random(topic.hashCode());
        String[] spec = own.get("keys").split(":");
        int count = Integer.parseInt(spec[1]);
        heavy = Double.parseDouble(own.getOrDefault("heavy", "0"));
        double exponent = Double.parseDouble(spec[2]);
        keys = new byte[count][];
        cumulative = new double[count];
        double sum = 0;
        for (int i = 0; i < count; i++) {
            keys[i] = String.format("%s%05d", spec[0], i).getBytes(StandardCharsets.UTF_8);
            sum += Math.pow(i + 1, -exponent);
            cumulative[i] = sum;
        }
        String words = "{\"topic\":\"" + topic + "\",\"note\":\"every value is the same\",\"filler\":\"";
        value = (words + "abcdefgh".repeat(1000)).substring(0, Integer.parseInt(own.get("bytes")))
            .getBytes(StandardCharsets.UTF_8);
        producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        partitions = producer.partitionsFor(topic).size();
    }

    private void run(long fromMs, long toMs) {
        double rate = Double.parseDouble(own.get("rate"));
        long total = Math.round((toMs - fromMs) / 1000.0 * rate);
        long perTransaction = Long.parseLong(own.getOrDefault("transaction.records", "0"));
        long committed = 0;
        long aborted = 0;
        sleepUntil(fromMs);
        if (perTransaction > 0) {
            producer.initTransactions(); // writes to the coordinator's log, so not before the first window
        }
        for (long i = 0; i < total; i++) {
            sleepUntil(fromMs + (i + random.nextDouble()) / rate * 1000.0);
            if (perTransaction > 0 && i % perTransaction == 0) {
                producer.beginTransaction();
            }
            send();
            if (perTransaction > 0 && (i % perTransaction == perTransaction - 1 || i == total - 1)) {
                producer.flush();
                if (i / perTransaction % 5 == 4) {
                    producer.abortTransaction();
                    aborted++;
                } else {
                    producer.commitTransaction();
                    committed++;
                }
            }
        }
        producer.flush();
        System.out.printf("sent topic=%s acked=%d failed=%d committed=%d aborted=%d%n",
            topic, acked.get(), failed.get(), committed, aborted);
        // Not closed: its metrics stay readable until the capture ends the process.
    }

    private void send() {
        int number = pickKey();
        Integer partition = "range".equals(own.get("place")) ? number * partitions / keys.length : null;
        producer.send(new ProducerRecord<>(topic, partition, keys[number], value), (metadata, error) ->
            (error == null ? acked : failed).incrementAndGet());
    }

    private int pickKey() {
        if (heavy > 0 && random.nextDouble() < heavy) {
            return 0;
        }
        double target = random.nextDouble() * cumulative[cumulative.length - 1];
        int low = 0;
        int high = cumulative.length - 1;
        while (low < high) {
            int middle = (low + high) >>> 1;
            if (cumulative[middle] < target) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low;
    }

    private static void sleepUntil(double instantMs) {
        for (double left = instantMs - System.currentTimeMillis(); left > 0;
                left = instantMs - System.currentTimeMillis()) {
            LockSupport.parkNanos((long) (left * 1e6) + 1);
        }
    }
}
