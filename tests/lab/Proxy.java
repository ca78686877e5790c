import java.io.BufferedReader;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintWriter;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;

/**
 * A slow network in front of Kafka brokers. Every connection carries one request at a time, as a broker's own request
 * handling does for one channel; answers to Produce requests are held while a schedule says so.
 *
 * Arguments: LISTEN_PORT:BROKER_PORT, one per broker, broker 0 first.
 * Standard input, whose end ends the program:
 *   "slow BROKER FROM_EPOCH_MS TO_EPOCH_MS DELAY_MS" sets a broker's delay; "also BROKER ..." adds a further one;
 *   "note" starts to note Produce requests, "write FILE" ends it and writes what was noted, one tab-separated line each:
 *   broker, connection, partitions, bytes, then System.nanoTime() when the request was here, when the broker had
 *   answered, when the hold was over and when the answer was written; the bytes of its batches, and the client's id.
 * Written in Java because 1,000 requests/s through Python threads would cost the clients their processor.
 * Requests with acks=0 have no answer and would stop their connection; the lab has none.
 */
public class Proxy {
    private static final short PRODUCE = 0;

    private record Slow(long fromMs, long toMs, long delayNs) {
        boolean contains(long nowMs) {
            return fromMs <= nowMs && nowMs < toMs;
        }
    }

    private static final String HEADER =
        "broker\tconnection\tpartitions\tbytes\tarrived_ns\tanswered_ns\treleased_ns\twritten_ns\tbatch_bytes\tclient_id";

    private record Note(String clientId, long... numbers) {
        String format() {
            return Arrays.stream(numbers).mapToObj(Long::toString).collect(Collectors.joining("\t")) + "\t" + clientId;
        }
    }

    private static volatile Slow[][] schedule;
    private static volatile Queue<Note> notes;
    private static final AtomicLong connections = new AtomicLong();

    public static void main(String[] args) throws IOException {
        schedule = new Slow[args.length][0];
        for (int broker = 0; broker < args.length; broker++) {
            String[] ports = args[broker].split(":");
            ServerSocket server = new ServerSocket(Integer.parseInt(ports[0]), 50, InetAddress.getLoopbackAddress());
            int index = broker;
            daemon(() -> accept(server, index, Integer.parseInt(ports[1])));
        }
        System.out.println("ready");
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.trim().split(" ");
            switch (words[0]) {
                case "slow", "also" -> plan(words);
                case "note" -> notes = new ConcurrentLinkedQueue<>();
                case "write" -> write(words[1]);
                default -> throw new IllegalArgumentException(line);
            }
            System.out.println("done " + line);
        }
    }

    private static void plan(String[] words) {
        Slow added = new Slow(
            Long.parseLong(words[2]), Long.parseLong(words[3]), (long) (Double.parseDouble(words[4]) * 1e6));
        int broker = Integer.parseInt(words[1]);
        Slow[][] next = schedule.clone();
        Slow[] before = words[0].equals("also") ? next[broker] : new Slow[0];
        next[broker] = Arrays.copyOf(before, before.length + 1);
        next[broker][before.length] = added;
        schedule = next;
    }

    private static void write(String file) throws IOException {
        Queue<Note> written = notes;
        notes = null;
        try (PrintWriter out = new PrintWriter(file)) {
            out.println(HEADER);
            written.forEach(note -> out.println(note.format()));
        }
    }

    private static void accept(ServerSocket server, int broker, int targetPort) {
        while (true) {
            try {
                Socket client = server.accept();
                daemon(() -> serve(client, broker, targetPort));
            } catch (IOException closed) {
                return;
            }
        }
    }

    private static void serve(Socket client, int broker, int targetPort) {
        long connection = connections.incrementAndGet();
        try (client; Socket server = new Socket(InetAddress.getLoopbackAddress(), targetPort)) {
            client.setTcpNoDelay(true);
            server.setTcpNoDelay(true);
            Frame request = new Frame();
            Frame response = new Frame();
            DataInputStream fromClient = new DataInputStream(client.getInputStream());
            DataInputStream fromServer = new DataInputStream(server.getInputStream());
            while (request.read(fromClient)) {
                long arrivedNs = System.nanoTime();
                request.write(server.getOutputStream());
                if (!response.read(fromServer)) {
                    return;
                }
                if (request.apiKey() != PRODUCE) {
                    response.write(client.getOutputStream());
                    continue;
                }
                long answeredNs = System.nanoTime();
                hold(broker, answeredNs);
                long releasedNs = System.nanoTime();
                response.write(client.getOutputStream());
                Queue<Note> open = notes;
                if (open != null) {
                    open.add(new Note(request.clientId(), broker, connection, request.partitions(), request.length,
                        arrivedNs, answeredNs, releasedNs, System.nanoTime(), request.batchBytes()));
                }
            }
        } catch (IOException gone) {
            // one side hung up: so does the other, by try-with-resources
        }
    }

    private static void hold(int broker, long answeredNs) {
        Slow[] plans = schedule[broker];
        if (plans.length == 0) {
            return;
        }
        long nowMs = System.currentTimeMillis();
        long delayNs = 0;
        for (Slow slow : plans) {
            delayNs = Math.max(delayNs, slow.contains(nowMs) ? slow.delayNs() : 0);
        }
        long until = answeredNs + delayNs;
        for (long left = until - System.nanoTime(); left > 0; left = until - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
    }

    private static void daemon(Runnable work) {
        Thread thread = new Thread(null, work, "proxy", 64 * 1024);
        thread.setDaemon(true);
        thread.start();
    }

    /** A length-prefixed message and its reused buffer. */
    private static final class Frame {
        private byte[] bytes = new byte[16 * 1024];
        private int length;

        boolean read(DataInputStream in) throws IOException {
            int first = in.read();
            if (first < 0) {
                return false;
            }
            bytes[0] = (byte) first;
            in.readFully(bytes, 1, 3);
            length = 4 + ((bytes[0] & 0xff) << 24 | (bytes[1] & 0xff) << 16 | (bytes[2] & 0xff) << 8 | bytes[3] & 0xff);
            if (length > bytes.length) {
                byte[] larger = new byte[length + length / 2];
                System.arraycopy(bytes, 0, larger, 0, 4);
                bytes = larger;
            }
            in.readFully(bytes, 4, length - 4);
            return true;
        }

        void write(OutputStream out) throws IOException {
            out.write(bytes, 0, length);
        }

        short apiKey() {
            return (short) read16(4);
        }

        String clientId() {
            return new String(bytes, 14, Math.max(0, (short) read16(12)), StandardCharsets.UTF_8);
        }

        /** Partitions in a Produce request of one topic, versions 9 to 13 (which have compact arrays). */
        int partitions() {
            return (bytes[partitionsAt()] & 0xff) - 1;
        }

        private int partitionsAt() {
            int version = read16(6);
            int position = 12 + 2 + Math.max(0, (short) read16(12)) + 1; // client id, no tagged fields
            position += Math.max(1, bytes[position] & 0xff) + 2 + 4 + 1; // transactional id, acks, timeout, topic count
            return position + (version >= 13 ? 16 : Math.max(1, bytes[position] & 0xff)); // topic id or name
        }

        /** Bytes of the record batches of the same request. */
        long batchBytes() {
            int position = partitionsAt() + 1;
            long sum = 0;
            for (int left = partitions(); left > 0; left--) {
                position += 4; // the partition's number
                int size = 0;
                for (int shift = 0; ; shift += 7) {
                    int next = bytes[position++];
                    size |= (next & 0x7f) << shift;
                    if (next >= 0) {
                        break;
                    }
                }
                sum += size - 1;
                position += size - 1 + 1; // its records, no tagged fields
            }
            return sum;
        }

        private int read16(int position) {
            return (bytes[position] & 0xff) << 8 | bytes[position + 1] & 0xff;
        }
    }
}
