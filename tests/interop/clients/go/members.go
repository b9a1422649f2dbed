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

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Members of groups by franz-go, under orders from standard input, one a line:
//
//	open MEMBER bootstrap=... group=... topics=a,b SETTING=VALUE ...
//	close MEMBER      leaves the group
//	abandon MEMBER    ends without leaving, which franz-go does for static members
//
// Each event is a line of standard output: the member, what happened, and to which partitions or records.

var balancers = map[string]kgo.GroupBalancer{
	"range":              kgo.RangeBalancer(),
	"roundrobin":         kgo.RoundRobinBalancer(),
	"sticky":             kgo.StickyBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer(),
}

var telling sync.Mutex

func tell(member, event string, places []string) {
	telling.Lock()
	defer telling.Unlock()
	fmt.Println(strings.Join(append([]string{member, event}, places...), " "))
}

type member struct {
	name string
	end  context.CancelFunc
	done chan struct{}
}

func milliseconds(text string) time.Duration {
	number, _ := strconv.Atoi(text)
	return time.Duration(number) * time.Millisecond
}

func (m *member) called(event string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(ctx context.Context, client *kgo.Client, partitions map[string][]int32) {
		if event == "revoked" {
			_ = client.CommitUncommittedOffsets(ctx)
		}
		var places []string
		for topic, indexes := range partitions {
			for _, index := range indexes {
				places = append(places, fmt.Sprintf("%s:%d", topic, index))
			}
		}
		tell(m.name, event, places)
	}
}

func (m *member) options(settings map[string]string) []kgo.Opt {
	options := []kgo.Opt{
		kgo.SeedBrokers(settings["bootstrap"]),
		kgo.ClientID(m.name),
		kgo.ConsumerGroup(settings["group"]),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.SessionTimeout(milliseconds(settings["session_ms"])),
		kgo.HeartbeatInterval(milliseconds(settings["heartbeat_ms"])),
		kgo.MetadataMaxAge(milliseconds(settings["refresh_ms"])),
		kgo.MetadataMinAge(milliseconds(settings["refresh_ms"]) / 2),
		kgo.OnPartitionsAssigned(m.called("assigned")),
		kgo.OnPartitionsRevoked(m.called("revoked")),
		kgo.OnPartitionsLost(m.called("lost")),
	}
	if pattern, given := settings["pattern"]; given {
		options = append(options, kgo.ConsumeRegex(), kgo.ConsumeTopics(pattern))
	} else {
		options = append(options, kgo.ConsumeTopics(strings.Split(settings["topics"], ",")...))
	}
	if balancer, given := balancers[settings["assignor"]]; given {
		options = append(options, kgo.Balancers(balancer))
	}
	if instance, given := settings["instance"]; given {
		options = append(options, kgo.InstanceID(instance))
	}
	return options
}

func (m *member) run(ctx context.Context, settings map[string]string) error {
	client, err := newFranzClient(m.options(settings)...)
	if err != nil {
		return err
	}
	defer client.CloseAllowingRebalance()
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil && ctx.Err() == nil {
			return err
		}
		var places []string
		fetches.EachRecord(func(record *kgo.Record) {
			places = append(places, fmt.Sprintf("%s:%d:%d", record.Topic, record.Partition, record.Offset))
		})
		if places != nil {
			tell(m.name, "read", places)
			err := client.CommitUncommittedOffsets(context.Background())
			if err != nil && !errors.Is(err, kerr.RebalanceInProgress) {
				return err
			}
		}
		client.AllowRebalance()
	}
	return nil
}

func (m *member) work(ctx context.Context, settings map[string]string) {
	defer close(m.done)
	if err := m.run(ctx, settings); err != nil {
		tell(m.name, "failed", []string{strings.ReplaceAll(err.Error(), " ", "_")})
		return
	}
	tell(m.name, "closed", nil)
}

func members() {
	open := map[string]*member{}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Split(lines.Text(), " ")
		if words[0] != "open" {
			open[words[1]].end()
			continue
		}
		settings := map[string]string{}
		for _, word := range words[2:] {
			name, value, _ := strings.Cut(word, "=")
			settings[name] = value
		}
		ctx, cancel := context.WithCancel(context.Background())
		open[words[1]] = &member{words[1], cancel, make(chan struct{})}
		go open[words[1]].work(ctx, settings)
	}
	for _, each := range open {
		each.end()
		<-each.done
	}
}
