package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Transactional producers by franz-go or sarama, under the orders of TransactionalClient.java: one a line from standard
// input, each with a line of standard output, "ok ..." or "refused ...".

const (
	pollEvery = 500 * time.Millisecond
	// pause is how long a client waits before it asks again for a producer id whose transaction is still being ended.
	pause = 20 * time.Millisecond
)

// Transactional is one client's producers, by name.
type Transactional interface {
	Open(name, id string, timeout time.Duration) error
	Begin(name string) error
	Send(name, topic string, partition int32, values []string) error
	End(name string, commit bool) error
	Close(name string) error
	Copy(work CopyWork) error
	Committed(topic string, partition int32, last string) ([]string, error)
}

// CopyWork is what to copy by transactions, with a group's offsets; the first transaction is aborted.
type CopyWork struct {
	id, group, protocol, from, to string
	count, batch                  int
}

func serveTransactions(kind, bootstrap string) {
	var client Transactional = &franzTransactions{bootstrap, map[string]*kgo.Client{}}
	if kind == "sarama" {
		client = &saramaTransactions{[]string{bootstrap}, map[string]sarama.SyncProducer{}}
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		values, err := obeyTransactional(client, strings.Split(lines.Text(), " "))
		if err != nil {
			fmt.Println("refused", strings.ReplaceAll(err.Error(), "\n", " "))
			continue
		}
		fmt.Println(strings.TrimSpace("ok " + strings.Join(values, " ")))
	}
}

func obeyTransactional(client Transactional, words []string) (values []string, err error) {
	switch words[0] {
	case "open":
		err = client.Open(words[1], words[2], milliseconds(words[3]))
	case "begin":
		err = client.Begin(words[1])
	case "send":
		err = client.Send(words[1], words[2], partitionOf(words[3]), words[4:])
	case "commit", "abort":
		err = client.End(words[1], words[0] == "commit")
	case "close":
		err = client.Close(words[1])
	case "copy":
		count, _ := strconv.Atoi(words[6])
		batch, _ := strconv.Atoi(words[7])
		err = client.Copy(CopyWork{words[1], words[2], words[3], words[4], words[5], count, batch})
	case "read":
		values, err = client.Committed(words[1], partitionOf(words[2]), words[3])
	default:
		err = fmt.Errorf("unknown order %q", words[0])
	}
	return values, err
}

func partitionOf(text string) int32 {
	number, _ := strconv.Atoi(text)
	return int32(number)
}

type franzTransactions struct {
	bootstrap string
	producers map[string]*kgo.Client
}

func (f *franzTransactions) Open(name, id string, within time.Duration) error {
	client, err := newFranzClient(
		kgo.SeedBrokers(f.bootstrap), kgo.TransactionalID(id), kgo.TransactionTimeout(within),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RetryTimeout(timeout),
	)
	if err != nil {
		return err
	}
	f.producers[name] = client
	ctx, cancel := soon()
	defer cancel()
	for {
		_, _, err = client.ProducerID(ctx)
		if !errors.Is(err, kerr.ConcurrentTransactions) || ctx.Err() != nil {
			return err
		}
		time.Sleep(pause)
	}
}

func (f *franzTransactions) Begin(name string) error { return f.producers[name].BeginTransaction() }

func (f *franzTransactions) Send(name, topic string, partition int32, values []string) error {
	var records []*kgo.Record
	for _, value := range values {
		records = append(records, &kgo.Record{Topic: topic, Partition: partition, Value: []byte(value)})
	}
	ctx, cancel := soon()
	defer cancel()
	return f.producers[name].ProduceSync(ctx, records...).FirstErr()
}

func (f *franzTransactions) End(name string, commit bool) error {
	ctx, cancel := soon()
	defer cancel()
	return f.producers[name].EndTransaction(ctx, kgo.TransactionEndTry(commit))
}

func (f *franzTransactions) Close(name string) error {
	f.producers[name].Close()
	delete(f.producers, name)
	return nil
}

func (f *franzTransactions) Copy(work CopyWork) error {
	background := context.Background()
	if work.protocol == "consumer" {
		background = context.WithValue(background, "opt_in_kafka_next_gen_balancer_beta", true)
	}
	login, err := loginOfAll().franz()
	if err != nil {
		return err
	}
	session, err := kgo.NewGroupTransactSession(append(login,
		kgo.SeedBrokers(f.bootstrap), kgo.TransactionalID(work.id), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ConsumerGroup(work.group), kgo.ConsumeTopics(work.from), kgo.WithContext(background),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RequireStableFetchOffsets(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)...)
	if err != nil {
		return err
	}
	defer session.Close()
	ctx, cancel := soon()
	defer cancel()
	for copied, first := 0, true; copied < work.count; {
		records := session.PollRecords(ctx, work.batch).Records()
		if ctx.Err() != nil {
			return fmt.Errorf("only %d records were copied in time", copied)
		}
		if len(records) == 0 {
			continue
		}
		if err := session.Begin(); err != nil {
			return err
		}
		for _, record := range records {
			value := append([]byte("copied:"), record.Value...)
			session.Produce(ctx, &kgo.Record{Topic: work.to, Partition: record.Partition, Value: value}, nil)
		}
		if err := session.Client().Flush(ctx); err != nil {
			return err
		}
		committed, err := session.End(ctx, kgo.TransactionEndTry(!first))
		if err != nil {
			return err
		}
		if committed {
			copied += len(records)
		}
		first = false
	}
	return nil
}

func (f *franzTransactions) Committed(topic string, partition int32, last string) ([]string, error) {
	from := map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().AtStart()}}
	client, err := newFranzClient(
		kgo.SeedBrokers(f.bootstrap), kgo.ConsumePartitions(from), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := soon()
	defer cancel()
	var values []string
	for len(values) == 0 || values[len(values)-1] != last {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("only these came: %v: %w", values, err)
		}
		for _, record := range fetches.Records() {
			values = append(values, string(record.Value))
		}
	}
	return values, nil
}

type saramaTransactions struct {
	bootstrap []string
	producers map[string]sarama.SyncProducer
}

func (s *saramaTransactions) config() *sarama.Config {
	config := saramaConfig()
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Net.MaxOpenRequests = 1
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	return config
}

func (s *saramaTransactions) producer(id string, within time.Duration) (sarama.SyncProducer, error) {
	config := s.config()
	config.Producer.Transaction.ID = id
	config.Producer.Transaction.Timeout = within
	return sarama.NewSyncProducer(s.bootstrap, config)
}

func (s *saramaTransactions) Open(name, id string, within time.Duration) error {
	late := time.Now().Add(timeout)
	for {
		producer, err := s.producer(id, within)
		if err == nil {
			s.producers[name] = producer
		}
		if !errors.Is(err, sarama.ErrConcurrentTransactions) || time.Now().After(late) {
			return err
		}
		time.Sleep(pause)
	}
}

func (s *saramaTransactions) Begin(name string) error { return s.producers[name].BeginTxn() }

func (s *saramaTransactions) Send(name, topic string, partition int32, values []string) error {
	var sent []*sarama.ProducerMessage
	for _, value := range values {
		sent = append(sent, &sarama.ProducerMessage{
			Topic: topic, Partition: partition, Value: sarama.StringEncoder(value),
		})
	}
	err := s.producers[name].SendMessages(sent)
	var failed sarama.ProducerErrors
	if errors.As(err, &failed) {
		return failed[0].Err
	}
	return err
}

func (s *saramaTransactions) End(name string, commit bool) error {
	if commit {
		return s.producers[name].CommitTxn()
	}
	return s.producers[name].AbortTxn()
}

func (s *saramaTransactions) Close(name string) error {
	producer := s.producers[name]
	delete(s.producers, name)
	return producer.Close()
}

// copying is a group's handler which gives its records in batches to a transaction each.
type copying struct {
	work     CopyWork
	producer sarama.SyncProducer
	copied   int
	first    bool
	done     context.CancelFunc
	failed   error
	turn     sync.Mutex // each partition is claimed by a goroutine of its own, and the producer is one
}

func (c *copying) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (c *copying) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (c *copying) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	var pending []*sarama.ConsumerMessage
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			pending = append(pending, message)
			if len(pending) < c.work.batch && message.Offset+1 < claim.HighWaterMarkOffset() {
				continue
			}
		case <-time.After(pollEvery):
		case <-session.Context().Done():
			return nil
		}
		if len(pending) == 0 {
			continue
		}
		if err := c.copy(pending); err != nil {
			return err
		}
		pending = nil
	}
}

func (c *copying) copy(messages []*sarama.ConsumerMessage) error {
	c.turn.Lock()
	defer c.turn.Unlock()
	for ended := false; !ended; {
		if ended, c.failed = c.transaction(messages); c.failed != nil {
			c.done()
			return c.failed
		}
	}
	if c.copied += len(messages); c.copied >= c.work.count {
		c.done()
	}
	return nil
}

func (c *copying) transaction(messages []*sarama.ConsumerMessage) (bool, error) {
	if err := c.producer.BeginTxn(); err != nil {
		return false, err
	}
	for _, message := range messages {
		value := append([]byte("copied:"), message.Value...)
		_, _, err := c.producer.SendMessage(&sarama.ProducerMessage{
			Topic: c.work.to, Partition: message.Partition, Value: sarama.ByteEncoder(value),
		})
		if err != nil {
			return false, err
		}
		if err := c.producer.AddMessageToTxn(message, c.work.group, nil); err != nil {
			return false, err
		}
	}
	if c.first {
		c.first = false
		return false, c.producer.AbortTxn()
	}
	return true, c.producer.CommitTxn()
}

func (s *saramaTransactions) Copy(work CopyWork) error {
	producer, err := s.producer(work.id, time.Minute)
	if err != nil {
		return err
	}
	defer producer.Close()
	group, err := sarama.NewConsumerGroup(s.bootstrap, work.group, s.config())
	if err != nil {
		return err
	}
	defer group.Close()
	ctx, cancel := soon()
	defer cancel()
	handler := &copying{work: work, producer: producer, first: true, done: cancel}
	for ctx.Err() == nil {
		if err := group.Consume(ctx, []string{work.from}, handler); err != nil {
			return err
		}
	}
	if handler.failed == nil && handler.copied < work.count {
		return fmt.Errorf("only %d records were copied in time", handler.copied)
	}
	return handler.failed
}

func (s *saramaTransactions) Committed(topic string, partition int32, last string) ([]string, error) {
	consumer, err := sarama.NewConsumer(s.bootstrap, s.config())
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	reader, err := consumer.ConsumePartition(topic, partition, sarama.OffsetOldest)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	var values []string
	late := time.After(timeout)
	for len(values) == 0 || values[len(values)-1] != last {
		select {
		case message := <-reader.Messages():
			values = append(values, string(message.Value))
		case <-late:
			return nil, fmt.Errorf("only these came: %v", values)
		}
	}
	return values, nil
}
