// Sends keyless records in bursts through franz-go, Sarama or kafka-go.
//
// Argument: a JSON object with client, bootstrap, topic, count, rate, burst, bytes, step and linger_ms (-1: the client's
// default). Standard output: a JSON list, when each record was handed over, in nanoseconds from the first.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

type setting struct {
	Client, Bootstrap, Topic        string
	Count, Rate, Burst, Bytes, Step int
	Linger                          int `json:"linger_ms"`
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// pace hands over the values of each burst when it is due, late ones at once.
func (s setting) pace(send func(values [][]byte, noteHandedOver func())) []int64 {
	at := make([]int64, 0, s.Count)
	start := time.Now()
	for first := 0; first < s.Count; first += s.Burst {
		time.Sleep(time.Until(start.Add(time.Duration(first) * time.Second / time.Duration(s.Rate))))
		var values [][]byte
		for number := first; number < min(first+s.Burst, s.Count); number++ {
			values = append(values, make([]byte, s.Bytes+number*7%11*s.Step))
		}
		send(values, func() { at = append(at, time.Since(start).Nanoseconds()) })
	}
	return at
}

func (s setting) linger() time.Duration { return time.Duration(s.Linger) * time.Millisecond }

func sendFranz(s setting, partitioner kgo.Partitioner) []int64 {
	options := []kgo.Opt{
		kgo.SeedBrokers(s.Bootstrap), kgo.DefaultProduceTopic(s.Topic), kgo.RecordPartitioner(partitioner),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
	}
	if s.Linger >= 0 {
		options = append(options, kgo.ProducerLinger(s.linger()))
	}
	client, err := kgo.NewClient(options...)
	check(err)
	check(client.Ping(context.Background()))
	at := s.pace(func(values [][]byte, note func()) {
		for _, value := range values {
			note()
			client.Produce(context.Background(), &kgo.Record{Value: value}, func(_ *kgo.Record, err error) { check(err) })
		}
	})
	check(client.Flush(context.Background()))
	client.Close()
	return at
}

func sendSarama(s setting, partitioner sarama.PartitionerConstructor) []int64 {
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Producer.Partitioner = partitioner
	if s.Linger >= 0 {
		config.Producer.Flush.Frequency = s.linger()
	}
	producer, err := sarama.NewAsyncProducer([]string{s.Bootstrap}, config)
	check(err)
	failed := make(chan error)
	go func() {
		var last error
		for err := range producer.Errors() {
			last = err
		}
		failed <- last
	}()
	at := s.pace(func(values [][]byte, note func()) {
		for _, value := range values {
			note()
			producer.Input() <- &sarama.ProducerMessage{Topic: s.Topic, Value: sarama.ByteEncoder(value)}
		}
	})
	producer.AsyncClose()
	check(<-failed)
	return at
}

func sendSegmentio(s setting, balancer kafka.Balancer) []int64 {
	writer := &kafka.Writer{
		Addr: kafka.TCP(s.Bootstrap), Topic: s.Topic, Balancer: balancer, Async: true, RequiredAcks: kafka.RequireOne,
		Completion: func(_ []kafka.Message, err error) { check(err) },
	}
	if s.Linger >= 0 {
		writer.BatchTimeout = s.linger()
	}
	at := s.pace(func(values [][]byte, note func()) {
		var messages []kafka.Message
		for _, value := range values {
			note()
			messages = append(messages, kafka.Message{Value: value})
		}
		check(writer.WriteMessages(context.Background(), messages...))
	})
	check(writer.Close())
	return at
}

func main() {
	var s setting
	check(json.Unmarshal([]byte(os.Args[1]), &s))
	var at []int64
	switch library, choice, _ := strings.Cut(s.Client, ", "); library + " " + choice {
	case "franz-go uniform bytes":
		at = sendFranz(s, kgo.UniformBytesPartitioner(65536, true, true, nil))
	case "franz-go sticky key":
		at = sendFranz(s, kgo.StickyKeyPartitioner(nil))
	case "franz-go least backup":
		at = sendFranz(s, kgo.LeastBackupPartitioner())
	case "Sarama random":
		at = sendSarama(s, sarama.NewRandomPartitioner)
	case "Sarama round robin":
		at = sendSarama(s, sarama.NewRoundRobinPartitioner)
	case "kafka-go round robin":
		at = sendSegmentio(s, &kafka.RoundRobin{})
	case "kafka-go least bytes":
		at = sendSegmentio(s, &kafka.LeastBytes{})
	default:
		check(fmt.Errorf("unknown client %q", s.Client))
	}
	check(json.NewEncoder(os.Stdout).Encode(at))
}
