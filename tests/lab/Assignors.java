import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

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
        StringBuilder out = new StringBuilder();
        Map<String, List<TopicPartition>> found = switch (parts[0].trim()) {
            case "range" -> new RangeAssignor().assign(counts, subscriptions);
            case "roundrobin" -> new RoundRobinAssignor().assign(counts, subscriptions);
            // plain sticky reads what is owned from its own user data: the protocol's field is the cooperative one's
            case "sticky" -> new StickyWithOwned().assign(counts, subscriptions);
            case "cooperative-sticky" -> cooperate(counts, subscriptions);
            case "uniform" -> assignOnBroker(new UniformAssignor(), counts, subscriptions);
            case "broker-range" ->
                assignOnBroker(new org.apache.kafka.coordinator.group.assignor.RangeAssignor(), counts, subscriptions);
            default -> throw new IllegalArgumentException(parts[0]);
        };
        for (Map.Entry<String, List<TopicPartition>> member : new TreeMap<>(found).entrySet()) {
            List<String> names = new ArrayList<>();
            for (TopicPartition partition : member.getValue())
                names.add(partition.topic() + ":" + partition.partition());
            names.sort(null);
            out.append(out.length() == 0 ? "" : " ").append(member.getKey()).append("=").append(String.join(",", names));
        }
        return out.toString();
    }

    /** Rebalances until no partition is taken back. */
    private static Map<String, List<TopicPartition>> cooperate(
        Map<String, Integer> counts, Map<String, Subscription> subscriptions
    ) {
        int partitions = counts.values().stream().mapToInt(Integer::intValue).sum();
        Map<String, Subscription> given = subscriptions;
        while (true) {
            Map<String, List<TopicPartition>> found = new CooperativeStickyAssignor().assign(counts, new HashMap<>(given));
            if (found.values().stream().mapToInt(List::size).sum() == partitions)
                return found;
            Map<String, Subscription> next = new HashMap<>();
            given.forEach((member, old) ->
                next.put(member, new Subscription(old.topics(), null, found.get(member), 1, Optional.empty())));
            given = next;
        }
    }

    /** By an assignor of KIP-848; ids of topics hash in the order of their names. */
    private static Map<String, List<TopicPartition>> assignOnBroker(
        ConsumerGroupPartitionAssignor assignor, Map<String, Integer> counts, Map<String, Subscription> subscriptions
    ) {
        List<String> names = new ArrayList<>(new TreeMap<>(counts).keySet());
        Set<Uuid> ids = new HashSet<>();
        for (int number = 0; number < names.size(); number++)
            ids.add(new Uuid(0, number + 1));
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        new TreeMap<>(subscriptions).forEach((member, subscription) -> {
            Map<Uuid, Set<Integer>> owned = new HashMap<>();
            for (TopicPartition partition : subscription.ownedPartitions()) {
                Uuid id = new Uuid(0, names.indexOf(partition.topic()) + 1);
                owned.computeIfAbsent(id, any -> new HashSet<>()).add(partition.partition());
                owners.computeIfAbsent(id, any -> new HashMap<>()).put(partition.partition(), member);
            }
            members.put(member, new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), Optional.empty(), ids, new Assignment(Collections.unmodifiableMap(owned))));
        });
        SubscribedTopicDescriber describer = new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid id) {
                return counts.get(names.get((int) id.getLeastSignificantBits() - 1));
            }

            @Override
            public Set<String> racksForPartition(Uuid id, int partition) {
                return Set.of();
            }
        };
        Map<String, MemberAssignment> assigned = assignor.assign(
            new GroupSpecImpl(members, SubscriptionType.HOMOGENEOUS, owners), describer).members();
        Map<String, List<TopicPartition>> found = new HashMap<>();
        for (String member : members.keySet()) {
            List<TopicPartition> own = new ArrayList<>();
            if (assigned.containsKey(member))
                assigned.get(member).partitions().forEach((id, numbers) -> numbers.forEach(number ->
                    own.add(new TopicPartition(names.get((int) id.getLeastSignificantBits() - 1), number))));
            found.put(member, own);
        }
        return found;
    }

    /** The sticky assignor before its cooperative wrapper takes partitions back for a round. */
    static class StickyWithOwned extends StickyAssignor {
        @Override
        protected MemberData memberData(Subscription subscription) {
            return new MemberData(subscription.ownedPartitions(), subscription.generationId());
        }
    }
}
