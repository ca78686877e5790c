// Answers where franz-go, Sarama and kafka-go place keys.
//
// Arguments: partition counts. Standard input: a key in hex a line, an empty line is the empty key.
// Standard output: strategy, partition count, key in hex, partition, separated by tabs.
package main

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"os"
	"strconv"

	"github.com/IBM/sarama"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

type choose func(key []byte, partitions int) int

func franz(partitioner kgo.Partitioner) choose {
	topic := partitioner.ForTopic("t")
	return func(key []byte, partitions int) int {
		record := &kgo.Record{Topic: "t", Key: key}
		return topic.Partition(record, partitions)
	}
}

func franzByBackup(partitioner kgo.Partitioner) choose {
	topic := partitioner.ForTopic("t").(kgo.TopicBackupPartitioner)
	return func(key []byte, partitions int) int {
		return topic.PartitionByBackup(&kgo.Record{Topic: "t", Key: key}, partitions, noBackup{partitions})
	}
}

// noBackup is an iterator over partitions without buffered records.
type noBackup struct{ partitions int }

func (n noBackup) Next() (int, int64) { return 0, 0 }
func (n noBackup) Rem() int           { return n.partitions }

func sara(constructor sarama.PartitionerConstructor) choose {
	partitioner := constructor("t")
	return func(key []byte, partitions int) int {
		chosen, err := partitioner.Partition(&sarama.ProducerMessage{Topic: "t", Key: sarama.ByteEncoder(key)}, int32(partitions))
		if err != nil {
			panic(err)
		}
		return int(chosen)
	}
}

func segmentio(balancer kafka.Balancer) choose {
	return func(key []byte, partitions int) int {
		all := make([]int, partitions)
		for i := range all {
			all[i] = i
		}
		return balancer.Balance(kafka.Message{Topic: "t", Key: key}, all...)
	}
}

func fnv1a(key []byte) uint32 {
	hash := fnv.New32a()
	hash.Write(key)
	return hash.Sum32()
}

func main() {
	strategies := []struct {
		name string
		choose
	}{
		{"franz-go-default", franzByBackup(kgo.UniformBytesPartitioner(65536, true, true, nil))},
		{"franz-go-sarama-hasher", franz(kgo.StickyKeyPartitioner(kgo.SaramaHasher(fnv1a)))},
		{"franz-go-sarama-compat-hasher", franz(kgo.StickyKeyPartitioner(kgo.SaramaCompatHasher(fnv1a)))},
		{"sarama-hash", sara(sarama.NewHashPartitioner)},
		{"sarama-reference-hash", sara(sarama.NewReferenceHashPartitioner)},
		{"sarama-crc", sara(sarama.NewConsistentCRCHashPartitioner)},
		{"sarama-murmur2", sara(sarama.NewMurmur2Partitioner)},
		{"sarama-abs-first", sara(sarama.NewCustomPartitioner(sarama.WithAbsFirst(), sarama.WithCustomHashFunction(crc32.NewIEEE)))},
		{"sarama-hash-unsigned", sara(sarama.NewCustomPartitioner(sarama.WithHashUnsigned()))},
		{"sarama-custom-crc", sara(sarama.NewCustomHashPartitioner(crc32.NewIEEE))},
		{"kafka-go-hash", segmentio(&kafka.Hash{})},
		{"kafka-go-reference-hash", segmentio(&kafka.ReferenceHash{})},
		{"kafka-go-hash-crc32", segmentio(&kafka.Hash{Hasher: crc32.NewIEEE()})},
		{"kafka-go-crc32", segmentio(kafka.CRC32Balancer{})},
		{"kafka-go-crc32-consistent", segmentio(kafka.CRC32Balancer{Consistent: true})},
		{"kafka-go-murmur2", segmentio(kafka.Murmur2Balancer{})},
	}
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		key, err := hex.DecodeString(lines.Text())
		if err != nil {
			panic(err)
		}
		for _, argument := range os.Args[1:] {
			partitions, err := strconv.Atoi(argument)
			if err != nil {
				panic(err)
			}
			for _, strategy := range strategies {
				fmt.Fprintf(out, "%s\t%d\t%s\t%d\n", strategy.name, partitions, lines.Text(), strategy.choose(key, partitions))
			}
		}
	}
}
