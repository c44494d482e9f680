package srtm

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"regexp"
	"time"
)

var topicName = regexp.MustCompile(`^[.a-zA-Z0-9_-]{1,64}(#ephemeral)?$`)

const maxTopicBytes = 64

// Options say who a publisher is, where its controller is, and how much it keeps. Zero values stand for the defaults.
type Options struct {
	// Controller is its HTTP address: host:port, or with http:// or https:// before it. Several, of which one leads, have commas
	// between them.
	Controller string
	// Topic is the one topic that it publishes to.
	Topic string
	// ID is unique within the topic: 1 to 128 printable ASCII characters without blanks.
	ID string
	// Group is the correlation group key, up to 128 bytes: publishers that send at about the same time share one.
	Group string
	// Rate is how many messages per second it means to send, at most 1e9. Default: 1.
	Rate float64
	// Batch is how many messages it sends at once, 1 to 65536. Default: 1.
	Batch int
	// AckEveryMessages asks for one acknowledgement for so many messages (1 to 65536) instead of one per command.
	AckEveryMessages int
	// AckInterval is the longest wait for such an acknowledgement, 1 ms to 1 s. Default: the broker's.
	AckInterval time.Duration
	// Announced leaves the declaration at the controller to someone else. A publisher that the controller does not
	// know then goes to the topic's first broker and is known by its announcement there.
	Announced bool
	// WindowMessages bounds the messages without an acknowledgement; a larger batch goes alone. Default: 10,000.
	WindowMessages int
	// WindowBytes bounds the bytes of commands likewise. Default: 16 MiB.
	WindowBytes int
	// Heartbeat is the interval of the broker's heartbeats, 1 to 60 s; a broker that is silent for twice as long counts
	// as dead. Default: 10 s.
	Heartbeat time.Duration
	// TLS is spoken with controller and brokers by this configuration: RootCAs, and Certificates where they want one.
	// With it, a scheme that is left out is https. Default: none is spoken.
	TLS *tls.Config
	// Token is shown to controller and brokers that ask for it.
	Token string
}

func (o Options) withDefaults() Options {
	setDefault(&o.Rate, 1)
	setDefault(&o.Batch, 1)
	setDefault(&o.WindowMessages, 10_000)
	setDefault(&o.WindowBytes, 16<<20)
	setDefault(&o.Heartbeat, 10*time.Second)
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// check names the first option that a broker or the controller would refuse.
func (o Options) check() error {
	switch {
	case !topicName.MatchString(o.Topic) || len(o.Topic) > maxTopicBytes:
		return invalid("Topic", o.Topic, "1 to 64 of . - _ a-z A-Z 0-9, and optionally the ending #ephemeral")
	case len(o.ID) < 1 || len(o.ID) > 128 || !isPrintable(o.ID):
		return invalid("ID", o.ID, "1 to 128 printable ASCII characters without blanks")
	case len(o.Group) > 128:
		return invalid("Group", o.Group, "up to 128 bytes")
	case !(o.Rate > 0 && o.Rate <= 1e9):
		return invalid("Rate", o.Rate, "messages per second, above 0 and at most 1e9")
	case o.Batch < 1 || o.Batch > 65536:
		return invalid("Batch", o.Batch, "1 to 65536 messages")
	case o.Heartbeat < time.Second || o.Heartbeat > time.Minute:
		return invalid("Heartbeat", o.Heartbeat, "1 to 60 s")
	}
	return nil
}

func isPrintable(text string) bool {
	for _, character := range []byte(text) {
		if character < '!' || character > '~' {
			return false
		}
	}
	return true
}

func invalid(field string, value any, allowed string) error {
	return fmt.Errorf("srtm: %s %q is not valid: %s", field, fmt.Sprint(value), allowed)
}

// declaration is a publisher as the controller wants it declared; with the topic, as brokers want it announced.
type declaration struct {
	ID    string  `json:"id"`
	Topic string  `json:"topic,omitempty"`
	Group string  `json:"group,omitempty"`
	Rate  float64 `json:"rate"`
	Batch int     `json:"batch"`
}

func (o Options) declaration() declaration {
	return declaration{ID: o.ID, Group: o.Group, Rate: o.Rate, Batch: o.Batch}
}

func (o Options) wantsAcks() bool {
	return o.AckEveryMessages > 0 || o.AckInterval > 0
}

// identify is the JSON body of IDENTIFY.
func (o Options) identify() ([]byte, error) {
	announced := o.declaration()
	announced.Topic = o.Topic
	extension := map[string]any{"publisher": announced}
	if o.wantsAcks() {
		extension["ack_every_messages"] = o.AckEveryMessages
		extension["ack_interval_ms"] = o.AckInterval.Milliseconds()
	}
	return json.Marshal(map[string]any{
		"client_id":           o.ID,
		"user_agent":          "srtm-go/0.1.0",
		"feature_negotiation": true,
		"heartbeat_interval":  o.Heartbeat.Milliseconds(),
		"srtm":                extension,
	})
}
