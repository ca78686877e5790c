import java.io.BufferedReader;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.concurrent.locks.LockSupport;

/**
 * A slow network in front of Kafka brokers. Every connection carries one request at a time, as a broker's own request
 * handling does for one channel; answers to Produce requests are held while a schedule says so.
 *
 * Arguments: LISTEN_PORT:BROKER_PORT, one per broker, broker 0 first.
 * Standard input: "slow BROKER FROM_EPOCH_MS TO_EPOCH_MS DELAY_MS" sets a broker's schedule; its end ends the program.
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

    private static volatile Slow[] schedule;

    public static void main(String[] args) throws IOException {
        schedule = new Slow[args.length];
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
            Slow[] next = schedule.clone();
            next[Integer.parseInt(words[1])] = new Slow(
                Long.parseLong(words[2]), Long.parseLong(words[3]), (long) (Double.parseDouble(words[4]) * 1e6));
            schedule = next;
            System.out.println("scheduled " + line);
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
        try (client; Socket server = new Socket(InetAddress.getLoopbackAddress(), targetPort)) {
            client.setTcpNoDelay(true);
            server.setTcpNoDelay(true);
            Frame request = new Frame();
            Frame response = new Frame();
            DataInputStream fromClient = new DataInputStream(client.getInputStream());
            DataInputStream fromServer = new DataInputStream(server.getInputStream());
            while (request.read(fromClient)) {
                request.write(server.getOutputStream());
                if (!response.read(fromServer)) {
                    return;
                }
                if (request.apiKey() == PRODUCE) {
                    hold(broker);
                }
                response.write(client.getOutputStream());
            }
        } catch (IOException gone) {
            // one side hung up: so does the other, by try-with-resources
        }
    }

    private static void hold(int broker) {
        Slow slow = schedule[broker];
        if (slow == null || !slow.contains(System.currentTimeMillis())) {
            return;
        }
        long until = System.nanoTime() + slow.delayNs();
        for (long left = slow.delayNs(); left > 0; left = until - System.nanoTime()) {
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
            return (short) ((bytes[4] & 0xff) << 8 | bytes[5] & 0xff);
        }
    }
}
