package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/IBM/sarama"
)

type saramaClient struct {
	bootstrap []string
	admin     sarama.ClusterAdmin
}

func saramaConfig() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Producer.Return.Successes = true
	config.Producer.MaxMessageBytes = largestRequestBytes
	config.Producer.Partitioner = sarama.NewManualPartitioner
	loginOfAll().ofSarama(config)
	return config
}

func newSarama(bootstrap string) (Client, error) {
	sarama.MaxRequestSize = largestRequestBytes * 2
	admin, err := sarama.NewClusterAdmin([]string{bootstrap}, saramaConfig())
	return &saramaClient{[]string{bootstrap}, admin}, err
}

func (s *saramaClient) Create(order Order) error {
	detail := &sarama.TopicDetail{NumPartitions: order.Partitions, ReplicationFactor: 1, ConfigEntries: order.Configs}
	return s.admin.CreateTopic(order.Topic, detail, false)
}

func (s *saramaClient) Delete(topic string) error { return s.admin.DeleteTopic(topic) }

func (s *saramaClient) Topics() ([]string, error) {
	topics, err := s.admin.ListTopics()
	var names []string
	for name := range topics {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, err
}

func (s *saramaClient) Partitions(topic string) (int, error) {
	described, err := s.admin.DescribeTopics([]string{topic})
	if err != nil {
		return 0, err
	}
	if described[0].Err != sarama.ErrNoError {
		return 0, described[0].Err
	}
	return len(described[0].Partitions), nil
}

func (s *saramaClient) Config(topic, name string) (string, error) {
	resource := sarama.ConfigResource{Type: sarama.TopicResource, Name: topic, ConfigNames: []string{name}}
	entries, err := s.admin.DescribeConfig(resource)
	if err != nil {
		return "", err
	}
	for _, entry := range entries {
		if entry.Name == name {
			return entry.Value, nil
		}
	}
	return "", fmt.Errorf("%s has no %s", topic, name)
}

func (s *saramaClient) SetConfigs(topic string, configs map[string]*string) error {
	changes := map[string]sarama.IncrementalAlterConfigsEntry{}
	for name, value := range configs {
		changes[name] = sarama.IncrementalAlterConfigsEntry{
			Operation: sarama.IncrementalAlterConfigsOperationSet, Value: value,
		}
	}
	return s.admin.IncrementalAlterConfig(sarama.TopicResource, topic, changes, false)
}

func (s *saramaClient) Produce(order Order) error {
	codecs := map[string]sarama.CompressionCodec{
		"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
		"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
	}
	config := saramaConfig()
	config.Producer.Compression = codecs[order.Codec]
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Idempotent = order.Idempotent
	config.Net.MaxOpenRequests = 1
	producer, err := sarama.NewSyncProducer(s.bootstrap, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	return producer.SendMessages(messages(order))
}

func messages(order Order) []*sarama.ProducerMessage {
	var found []*sarama.ProducerMessage
	for _, row := range order.Rows {
		message := &sarama.ProducerMessage{Topic: order.Topic, Timestamp: time.UnixMilli(row.Timestamp)}
		if row.Key != nil {
			message.Key = sarama.ByteEncoder(row.Key)
		}
		if row.Value != nil {
			message.Value = sarama.ByteEncoder(row.Value)
		}
		for _, header := range row.Headers {
			message.Headers = append(message.Headers, sarama.RecordHeader{Key: []byte(header.Name), Value: header.Value})
		}
		found = append(found, message)
	}
	return found
}

func (s *saramaClient) Read(topic string, count int) ([]Row, error) {
	consumer, err := sarama.NewConsumer(s.bootstrap, saramaConfig())
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
	if err != nil {
		return nil, err
	}
	defer partition.Close()
	var rows []Row
	late := time.After(timeout)
	for len(rows) < count {
		select {
		case message := <-partition.Messages():
			row := Row{message.Timestamp.UnixMilli(), message.Key, message.Value, []Header{}}
			for _, header := range message.Headers {
				row.Headers = append(row.Headers, Header{string(header.Key), header.Value})
			}
			rows = append(rows, row)
		case <-late:
			return nil, fmt.Errorf("only %d records came", len(rows))
		}
	}
	return rows, nil
}

func (s *saramaClient) OffsetsForTimes(topic string, times []int64) ([]int64, error) {
	client, err := sarama.NewClient(s.bootstrap, saramaConfig())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var found []int64
	for _, at := range times {
		offset, err := client.GetOffset(topic, 0, at)
		if err != nil {
			return nil, err
		}
		found = append(found, offset)
	}
	return found, nil
}
