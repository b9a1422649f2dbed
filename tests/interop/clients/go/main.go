// Two Go clients under orders: `go-clients franz-go BOOTSTRAP` or `go-clients sarama BOOTSTRAP`;
// `go-clients members`, `go-clients quotas`, `go-clients transactions` and `go-clients logins` are other programs, see
// members.go, quotas.go, transactions.go and login.go. All but the last log in as CLIENT_LOGIN in the environment says, if it is there.
//
// Orders come on standard input as JSON, one a line, and each gets one line of JSON back, {"error": ...} when it
// failed. Bytes are base 64, as encoding/json has them; a null key or value stays null.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

const (
	largestRequestBytes = 10_000_000
	timeout             = 20 * time.Second
)

// Row is one record as a client gives and gets it.
type Row struct {
	Timestamp int64    `json:"timestamp"`
	Key       []byte   `json:"key"`
	Value     []byte   `json:"value"`
	Headers   []Header `json:"headers"`
}

// Header is a record's header.
type Header struct {
	Name  string `json:"name"`
	Value []byte `json:"value"`
}

// Order is what is asked for; which fields matter depends on Do.
type Order struct {
	Do         string             `json:"do"`
	Topic      string             `json:"topic"`
	Partitions int32              `json:"partitions"`
	Configs    map[string]*string `json:"configs"`
	Name       string             `json:"name"`
	Codec      string             `json:"codec"`
	Idempotent bool               `json:"idempotent"`
	Rows       []Row              `json:"rows"`
	Count      int                `json:"count"`
	Times      []int64            `json:"times"`
}

// Answer is what came of it.
type Answer struct {
	Error      string   `json:"error,omitempty"`
	Topics     []string `json:"topics,omitempty"`
	Partitions int      `json:"partitions,omitempty"`
	Value      string   `json:"value,omitempty"`
	Rows       []Row    `json:"rows,omitempty"`
	Offsets    []int64  `json:"offsets,omitempty"`
}

// Client is what both clients can do.
type Client interface {
	Create(order Order) error
	Delete(topic string) error
	Topics() ([]string, error)
	Partitions(topic string) (int, error)
	Config(topic, name string) (string, error)
	SetConfigs(topic string, configs map[string]*string) error
	Produce(order Order) error
	Read(topic string, count int) ([]Row, error)
	OffsetsForTimes(topic string, times []int64) ([]int64, error)
}

func obey(client Client, order Order) (answer Answer, err error) {
	switch order.Do {
	case "create":
		err = client.Create(order)
	case "delete":
		err = client.Delete(order.Topic)
	case "topics":
		answer.Topics, err = client.Topics()
	case "partitions":
		answer.Partitions, err = client.Partitions(order.Topic)
	case "config":
		answer.Value, err = client.Config(order.Topic, order.Name)
	case "set_configs":
		err = client.SetConfigs(order.Topic, order.Configs)
	case "produce":
		err = client.Produce(order)
	case "read":
		answer.Rows, err = client.Read(order.Topic, order.Count)
	case "times":
		answer.Offsets, err = client.OffsetsForTimes(order.Topic, order.Times)
	default:
		err = fmt.Errorf("unknown order %q", order.Do)
	}
	return answer, err
}

func run(kind, bootstrap string) error {
	makers := map[string]func(string) (Client, error){"franz-go": newFranz, "sarama": newSarama}
	client, err := makers[kind](bootstrap)
	if err != nil {
		return err
	}
	lines := bufio.NewReaderSize(os.Stdin, largestRequestBytes)
	answers := json.NewEncoder(os.Stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return nil
		}
		var order Order
		if err := json.Unmarshal(line, &order); err != nil {
			return err
		}
		answer, err := obey(client, order)
		if err != nil {
			answer = Answer{Error: err.Error()}
		}
		if err := answers.Encode(answer); err != nil {
			return err
		}
	}
}

func main() {
	switch os.Args[1] {
	case "logins":
		logins()
		return
	case "members":
		members()
		return
	case "quotas":
		serveQuotas(os.Args[2], os.Args[3])
		return
	case "transactions":
		serveTransactions(os.Args[2], os.Args[3])
		return
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
