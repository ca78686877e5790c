import java.io.BufferedOutputStream;
import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.FileInputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Plays a series of records at their instants and stays, its metrics readable:
 * PlayTraffic SETTINGS_FILE TOPIC WARM_UP_TOPIC SERIES_FILE START_FILE LATENCIES_FILE [LINES_FILE].
 *
 * SERIES_FILE holds a long and two ints per record, big-endian: nanoseconds from the start, bytes of the value, number
 * of the key (-1: none). Values are one letter repeated, or the lines of LINES_FILE in turn, cut or repeated. Before
 * the series two other producers of this process send to WARM_UP_TOPIC, flat out one record per request and then the
 * series' first seconds, so that the client is compiled ("-": none do); it says "warm" and waits for START_FILE, which has the start as
 * epoch milliseconds. With `transactional.id` it commits after every 200 records. LATENCIES_FILE gets two longs per record: nanoseconds from the start when send() was called, and
 * until its callback (-1: failed).
 */
public class PlayTraffic {
    private static final int WARM_UP_REQUESTS = 20_000;
    private static final long WARM_UP_FLAT_OUT_NS = 5_000_000_000L;
    private static final long WARM_UP_NS = 3_000_000_000L;
    private static final int TRANSACTION_RECORDS = 200;
    private static final String FLAT_OUT = "flat out";

    private final byte[][] values;
    private final byte[] series;

    public static void main(String[] args) throws Exception {
        PlayTraffic play = new PlayTraffic(args[3], args.length > 6 ? args[6] : null);
        if (!args[2].equals("-")) {
            play.warmUp(args[0], args[2]);
        }
        System.out.println("warm");
        while (!Files.exists(Path.of(args[4]))) {
            Thread.sleep(20);
        }
        long startMs = Long.parseLong(Files.readString(Path.of(args[4])));
        KafkaProducer<byte[], byte[]> producer = create(args[0], "");
        boolean isTransactional = settings(args[0]).containsKey("transactional.id");
        if (isTransactional) {
            producer.initTransactions();
        }
        // Otherwise the first send() waits for metadata, and a burst with it.
        producer.partitionsFor(args[1]);
        long late = System.currentTimeMillis() - startMs;
        System.out.println(late > 0 ? "late by " + late + " ms" : "ready");
        long[][] times = play.play(producer, args[1], startMs, Long.MAX_VALUE, isTransactional);
        write(args[5], times);
        long failed = Arrays.stream(times[1]).filter(each -> each < 0).count();
        System.out.printf("sent acked=%d failed=%d%n", times[1].length - failed, failed);
        // Not closed: its metrics stay readable until the process is ended. The exporter's thread keeps it.
    }

    PlayTraffic(String seriesFile, String linesFile) throws Exception {
        series = Files.readAllBytes(Path.of(seriesFile));
        List<String> lines = linesFile == null ? List.of("x".repeat(4096)) : Files.readAllLines(Path.of(linesFile));
        values = lines.stream().map(line -> line.getBytes(StandardCharsets.US_ASCII)).toArray(byte[][]::new);
    }

    private void warmUp(String settingsFile, String topic) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = create(settingsFile, FLAT_OUT)) {
            long endNs = System.nanoTime() + WARM_UP_FLAT_OUT_NS;
            for (int i = 0; i < WARM_UP_REQUESTS && System.nanoTime() < endNs; i++) {
                producer.send(new ProducerRecord<>(topic, null, value(i, 512)));
                if (i % 50 == 49) {
                    producer.flush();
                }
            }
        }
        try (KafkaProducer<byte[], byte[]> producer = create(settingsFile, "first seconds")) {
            producer.partitionsFor(topic);
            play(producer, topic, System.currentTimeMillis(), WARM_UP_NS, false);
        }
    }

    private static Properties settings(String settingsFile) throws Exception {
        Properties settings = new Properties();
        try (FileInputStream in = new FileInputStream(settingsFile)) {
            settings.load(in);
        }
        return settings;
    }

    private static KafkaProducer<byte[], byte[]> create(String settingsFile, String kind) throws Exception {
        Properties settings = settings(settingsFile);
        if (!kind.isEmpty()) {
            settings.remove("transactional.id");
        }
        if (kind.equals(FLAT_OUT)) {
            settings.put("batch.size", "1");
            settings.put("linger.ms", "0");
        }
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private long[][] play(
            KafkaProducer<byte[], byte[]> producer, String topic, long startMs, long untilNs, boolean isTransactional)
            throws Exception {
        DataInputStream in = new DataInputStream(new ByteArrayInputStream(series));
        int count = series.length / 16;
        long[] sent = new long[count];
        long[] latency = new long[count];
        Arrays.fill(latency, -1);
        long startNs = System.nanoTime() + (startMs - System.currentTimeMillis()) * 1_000_000;
        for (int i = 0; i < count; i++) {
            int index = i;
            long dueNs = in.readLong();
            byte[] value = value(i, in.readInt());
            int number = in.readInt();
            byte[] key = number < 0 ? null : String.format("key-%05d", number).getBytes(StandardCharsets.US_ASCII);
            if (dueNs >= untilNs) {
                break;
            }
            sleepUntilNs(startNs + dueNs);
            if (isTransactional && i % TRANSACTION_RECORDS == 0) {
                if (i > 0) {
                    producer.commitTransaction();
                }
                producer.beginTransaction();
            }
            long sentNs = System.nanoTime();
            sent[i] = sentNs - startNs;
            producer.send(new ProducerRecord<>(topic, key, value), (metadata, error) -> {
                if (error == null) {
                    latency[index] = System.nanoTime() - sentNs;
                }
            });
        }
        if (isTransactional) {
            producer.commitTransaction();
        }
        producer.flush();
        return new long[][] {sent, latency};
    }

    private byte[] value(int number, int size) {
        byte[] line = values[number % values.length];
        byte[] value = new byte[size];
        for (int at = 0; at < size; at += line.length) {
            System.arraycopy(line, 0, value, at, Math.min(line.length, size - at));
        }
        return value;
    }

    private static void sleepUntilNs(long instantNs) {
        for (long left = instantNs - System.nanoTime(); left > 0; left = instantNs - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
    }

    private static void write(String file, long[][] columns) throws Exception {
        try (DataOutputStream out = new DataOutputStream(new BufferedOutputStream(Files.newOutputStream(Path.of(file))))) {
            for (int i = 0; i < columns[0].length; i++) {
                for (long[] column : columns) {
                    out.writeLong(column[i]);
                }
            }
        }
    }
}
