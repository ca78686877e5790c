import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractPartitionAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractStickyAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.TopicPartition;

/**
 * Kafka's own assignors. A line in: assignor, topics as name=count, members as id=topic:number,... , all separated by
 * blanks, the three parts by '|'. A line out: id=topic:number,... of every member, ascending.
 */
public class Assignors {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; )
            System.out.println(assign(line.split("\\|", -1)));
    }

    private static String assign(String[] parts) {
        Map<String, Integer> counts = new HashMap<>();
        for (String topic : parts[1].trim().split(" "))
            counts.put(topic.split("=")[0], Integer.parseInt(topic.split("=")[1]));
        List<String> topics = new ArrayList<>(new TreeMap<>(counts).keySet());
        Map<String, Subscription> subscriptions = new HashMap<>();
        for (String member : parts[2].trim().split(" ")) {
            String[] halves = member.split("=", -1);
            List<TopicPartition> owned = new ArrayList<>();
            for (String partition : halves[1].split(","))
                if (!partition.isEmpty())
                    owned.add(new TopicPartition(partition.split(":")[0], Integer.parseInt(partition.split(":")[1])));
            subscriptions.put(halves[0], new Subscription(topics, null, owned, 1, Optional.empty()));
        }
        AbstractPartitionAssignor assignor = switch (parts[0].trim()) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            // plain sticky reads what is owned from its own user data: the protocol's field is the cooperative one's
            default -> new CooperativeStickyAssignor();
        };
        StringBuilder out = new StringBuilder();
        Map<String, List<TopicPartition>> found = assignor instanceof AbstractStickyAssignor sticky
            ? new StickyWithOwned().assign(counts, subscriptions)
            : assignor.assign(counts, subscriptions);
        for (Map.Entry<String, List<TopicPartition>> member : new TreeMap<>(found).entrySet()) {
            List<String> names = new ArrayList<>();
            for (TopicPartition partition : member.getValue())
                names.add(partition.topic() + ":" + partition.partition());
            names.sort(null);
            out.append(out.length() == 0 ? "" : " ").append(member.getKey()).append("=").append(String.join(",", names));
        }
        return out.toString();
    }

    /** The sticky assignor before its cooperative wrapper takes partitions back for a round. */
    static class StickyWithOwned extends StickyAssignor {
        @Override
        protected MemberData memberData(Subscription subscription) {
            return new MemberData(subscription.ownedPartitions(), subscription.generationId());
        }
    }
}
