package main

import (
	"fmt"
	"os"
	"sort"
	"strings"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// quotas sets a quota of the user and the default client id, says what is there, and deletes it again. A further one,
// which cannot be, is tried first.
func quotas(kind, bootstrap string) error {
	if kind == "sarama" {
		return quotasOfSarama(bootstrap)
	}
	return quotasOfFranz(bootstrap)
}

// quotaUser is looked for by match type 0, which is exact.
const quotaKey, quotaUser = "producer_byte_rate", "al/ice"

func quotasOfFranz(bootstrap string) error {
	client, err := newFranzClient(kgo.SeedBrokers(bootstrap))
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	user := quotaUser
	entity := kadm.ClientQuotaEntity{{Type: "user", Name: &user}, {Type: "client-id", Name: nil}}
	alter := func(op kadm.AlterClientQuotaOp) error {
		ctx, cancel := soon()
		defer cancel()
		altered, err := admin.AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{{Entity: entity, Ops: []kadm.AlterClientQuotaOp{op}}})
		if err != nil {
			return err
		}
		return altered[0].Err
	}
	show := func() error {
		ctx, cancel := soon()
		defer cancel()
		described, err := admin.DescribeClientQuotas(ctx, false, []kadm.DescribeClientQuotaComponent{
			{Type: "user", MatchName: &user, MatchType: kadm.QuotasMatchType(0)},
		})
		var lines []string
		for _, each := range described {
			for _, value := range each.Values {
				var parts []string
				for _, part := range each.Entity {
					name := "default"
					if part.Name != nil {
						name = *part.Name
					}
					parts = append(parts, part.Type+"="+name)
				}
				lines = append(lines, line(parts, value.Key, value.Value))
			}
		}
		say(lines)
		return err
	}
	return inOrder(alter, show)
}

func inOrder(alter func(kadm.AlterClientQuotaOp) error, show func() error) error {
	fmt.Println("refused", alter(kadm.AlterClientQuotaOp{Key: quotaKey, Value: 0}) != nil)
	if err := alter(kadm.AlterClientQuotaOp{Key: quotaKey, Value: 1000000}); err != nil {
		return err
	}
	if err := show(); err != nil {
		return err
	}
	if err := alter(kadm.AlterClientQuotaOp{Key: quotaKey, Remove: true}); err != nil {
		return err
	}
	return show()
}

func quotasOfSarama(bootstrap string) error {
	admin, err := sarama.NewClusterAdmin([]string{bootstrap}, saramaConfig())
	if err != nil {
		return err
	}
	defer admin.Close()
	entity := []sarama.QuotaEntityComponent{
		{EntityType: sarama.QuotaEntityUser, MatchType: sarama.QuotaMatchExact, Name: quotaUser},
		{EntityType: sarama.QuotaEntityClientID, MatchType: sarama.QuotaMatchDefault},
	}
	alter := func(op kadm.AlterClientQuotaOp) error {
		return admin.AlterClientQuotas(entity, sarama.ClientQuotasOp{Key: op.Key, Value: op.Value, Remove: op.Remove}, false)
	}
	show := func() error {
		described, err := admin.DescribeClientQuotas([]sarama.QuotaFilterComponent{
			{EntityType: sarama.QuotaEntityUser, MatchType: sarama.QuotaMatchExact, Match: quotaUser},
		}, false)
		var lines []string
		for _, each := range described {
			for key, value := range each.Values {
				var parts []string
				for _, part := range each.Entity {
					name := part.Name
					if part.MatchType == sarama.QuotaMatchDefault {
						name = "default"
					}
					parts = append(parts, string(part.EntityType)+"="+name)
				}
				lines = append(lines, line(parts, key, value))
			}
		}
		say(lines)
		return err
	}
	return inOrder(alter, show)
}

func line(parts []string, key string, value float64) string {
	sort.Strings(parts)
	return fmt.Sprintf("%s %s=%g", strings.Join(parts, " "), key, value)
}

func say(lines []string) {
	sort.Strings(lines)
	fmt.Println("there are", len(lines), strings.Join(lines, ", "))
}

func serveQuotas(kind, bootstrap string) {
	if err := quotas(kind, bootstrap); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
