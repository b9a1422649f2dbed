package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

type franz struct {
	bootstrap string
	admin     *kadm.Client
}

func newFranz(bootstrap string) (Client, error) {
	client, err := newFranzClient(kgo.SeedBrokers(bootstrap))
	if err != nil {
		return nil, err
	}
	return &franz{bootstrap, kadm.NewClient(client)}, nil
}

func soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), timeout)
}

func (f *franz) Create(order Order) error {
	ctx, cancel := soon()
	defer cancel()
	_, err := f.admin.CreateTopic(ctx, order.Partitions, 1, order.Configs, order.Topic)
	return err
}

func (f *franz) Delete(topic string) error {
	ctx, cancel := soon()
	defer cancel()
	_, err := f.admin.DeleteTopic(ctx, topic)
	return err
}

func (f *franz) Topics() ([]string, error) {
	ctx, cancel := soon()
	defer cancel()
	topics, err := f.admin.ListTopics(ctx)
	return topics.Names(), err
}

func (f *franz) Partitions(topic string) (int, error) {
	ctx, cancel := soon()
	defer cancel()
	topics, err := f.admin.ListTopics(ctx, topic)
	if err != nil {
		return 0, err
	}
	return len(topics[topic].Partitions), topics[topic].Err
}

func (f *franz) Config(topic, name string) (string, error) {
	ctx, cancel := soon()
	defer cancel()
	resources, err := f.admin.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return "", err
	}
	resource, err := resources.On(topic, nil)
	if err != nil {
		return "", err
	}
	for _, config := range resource.Configs {
		if config.Key == name {
			return config.MaybeValue(), nil
		}
	}
	return "", fmt.Errorf("%s has no %s", topic, name)
}

func (f *franz) SetConfigs(topic string, configs map[string]*string) error {
	ctx, cancel := soon()
	defer cancel()
	var changes []kadm.AlterConfig
	for name, value := range configs {
		changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: value})
	}
	responses, err := f.admin.AlterTopicConfigs(ctx, changes, topic)
	for _, response := range responses {
		err = response.Err
	}
	return err
}

func (f *franz) Produce(order Order) error {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(f.bootstrap),
		kgo.ProducerBatchCompression(codecs[order.Codec]),
		kgo.ProducerBatchMaxBytes(largestRequestBytes),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	}
	if !order.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	client, err := newFranzClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := soon()
	defer cancel()
	return client.ProduceSync(ctx, records(order)...).FirstErr()
}

func records(order Order) []*kgo.Record {
	var found []*kgo.Record
	for _, row := range order.Rows {
		record := &kgo.Record{
			Topic: order.Topic, Timestamp: time.UnixMilli(row.Timestamp), Key: row.Key, Value: row.Value,
		}
		for _, header := range row.Headers {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: header.Name, Value: header.Value})
		}
		found = append(found, record)
	}
	return found
}

func (f *franz) Read(topic string, count int) ([]Row, error) {
	from := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}
	client, err := newFranzClient(kgo.SeedBrokers(f.bootstrap), kgo.ConsumePartitions(from))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := soon()
	defer cancel()
	var rows []Row
	for len(rows) < count {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("after %d records: %w", len(rows), err)
		}
		for _, record := range fetches.Records() {
			row := Row{record.Timestamp.UnixMilli(), record.Key, record.Value, []Header{}}
			for _, header := range record.Headers {
				row.Headers = append(row.Headers, Header{header.Key, header.Value})
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

func (f *franz) OffsetsForTimes(topic string, times []int64) ([]int64, error) {
	ctx, cancel := soon()
	defer cancel()
	var found []int64
	for _, at := range times {
		listed, err := f.admin.ListOffsetsAfterMilli(ctx, at, topic)
		if err != nil {
			return nil, err
		}
		offset, _ := listed.Lookup(topic, 0)
		found = append(found, offset.Offset)
	}
	return slices.Clip(found), nil
}
