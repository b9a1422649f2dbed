package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Login says how to reach a secured listener. Without a mechanism there is TLS alone, where Key, a PEM file with a key
// and its certificate, says who we are. Trust is a PEM file of authorities.
type Login struct {
	Mechanism string `json:"mechanism"`
	User      string `json:"user"`
	Password  string `json:"password"`
	Trust     string `json:"trust"`
	Key       string `json:"key"`
}

// loginOfAll is what CLIENT_LOGIN in the environment says, nil without it: all clients of this process log in so.
func loginOfAll() *Login {
	text, given := os.LookupEnv("CLIENT_LOGIN")
	if !given {
		return nil
	}
	login := &Login{}
	if err := json.Unmarshal([]byte(text), login); err != nil {
		panic(err)
	}
	return login
}

func (l *Login) tls() (*tls.Config, error) {
	trust, err := os.ReadFile(l.Trust)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(trust)
	if l.Key != "" {
		pair, err := tls.LoadX509KeyPair(l.Key, l.Key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// franz gives the options of franz-go.
func (l *Login) franz() ([]kgo.Opt, error) {
	if l == nil {
		return nil, nil
	}
	config, err := l.tls()
	options := []kgo.Opt{kgo.DialTLSConfig(config)}
	switch l.Mechanism {
	case "PLAIN":
		options = append(options, kgo.SASL(plain.Auth{User: l.User, Pass: l.Password}.AsMechanism()))
	case "SCRAM-SHA-256":
		options = append(options, kgo.SASL(scram.Auth{User: l.User, Pass: l.Password}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		options = append(options, kgo.SASL(scram.Auth{User: l.User, Pass: l.Password}.AsSha512Mechanism()))
	}
	return options, err
}

// newFranzClient makes a client that logs in as CLIENT_LOGIN says.
func newFranzClient(options ...kgo.Opt) (*kgo.Client, error) {
	more, err := loginOfAll().franz()
	if err != nil {
		return nil, err
	}
	return kgo.NewClient(append(options, more...)...)
}

// ofSarama changes a configuration of sarama, which needs another module for SCRAM.
func (l *Login) ofSarama(config *sarama.Config) {
	if l == nil {
		return
	}
	var err error
	config.Net.TLS.Enable = true
	if config.Net.TLS.Config, err = l.tls(); err != nil {
		panic(err)
	}
	if l.Mechanism != "" {
		config.Net.SASL.Enable = true
		config.Net.SASL.Mechanism = sarama.SASLMechanism(l.Mechanism)
		config.Net.SASL.User, config.Net.SASL.Password = l.User, l.Password
	}
}

// Trip is an order of `go-clients logins`: to produce a value and to read it in a group.
type Trip struct {
	Login     *Login `json:"login"`
	Bootstrap string `json:"bootstrap"`
	Topic     string `json:"topic"`
	Value     string `json:"value"`
}

func (t Trip) make() (string, error) {
	options, err := t.Login.franz()
	if err != nil {
		return "", err
	}
	options = append(options,
		kgo.SeedBrokers(t.Bootstrap), kgo.RequestRetries(0), kgo.ConsumerGroup(t.Topic), kgo.ConsumeTopics(t.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond))
	client, err := kgo.NewClient(options...)
	if err != nil {
		return "", err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 3*timeout)
	defer cancel()
	if err := client.Ping(ctx); err != nil {
		return "", err
	}
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: t.Topic, Value: []byte(t.Value)}).FirstErr(); err != nil {
		return "", err
	}
	for {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return "", err
		}
		for _, record := range fetches.Records() {
			return string(record.Value), client.CommitUncommittedOffsets(ctx)
		}
	}
}

// logins makes round trips by franz-go, each with a login of its own: JSON, one order a line in, one answer a line out.
func logins() {
	lines := bufio.NewScanner(os.Stdin)
	answers := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var trip Trip
		if err := json.Unmarshal(lines.Bytes(), &trip); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		value, err := trip.make()
		answer := Answer{Value: value}
		if err != nil {
			answer.Error = err.Error()
		}
		_ = answers.Encode(answer)
	}
}
