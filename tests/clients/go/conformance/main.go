// Command conformance drives the stock Go client, go-nsq, against one broker and checks what a user relies on: no message
// lost, none delivered more often than was asked for, attempts counted, nothing delivered early.
//
// It prints one JSON report; a broken promise is listed in it, and only a scenario that cannot be run exits non-zero.
// Topic and channels must exist before: go-nsq does not tell when a subscription has taken effect.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"
)

// Options say where the broker is and what to run.
type Options struct {
	Address  string
	Topic    string
	Deadline time.Duration
	// Settings of go-nsq's, as name=value.
	Settings []string
}

// Report is what the program prints.
type Report struct {
	Scenario   string         `json:"scenario"`
	Published  int            `json:"published"`
	Deliveries map[string]int `json:"deliveries"`
	Requeues   map[string]int `json:"requeues"`
	Violations []string       `json:"violations"`
}

var scenarios = map[string]func(Options) (*Report, error){
	"volume":        volume,
	"timeouts":      timeouts,
	"max-in-flight": maxInFlight,
}

func main() {
	var options Options
	scenario := flag.String("scenario", "", "volume, timeouts or max-in-flight")
	flag.StringVar(&options.Address, "nsqd-tcp-address", "127.0.0.1:4150", "the broker")
	flag.StringVar(&options.Topic, "topic", "", "a topic that exists, with the scenario's channels and no messages")
	flag.DurationVar(&options.Deadline, "deadline", time.Minute, "give up after this")
	flag.Func("setting", "one of go-nsq's settings as name=value; may be repeated", func(setting string) error {
		options.Settings = append(options.Settings, setting)
		_, err := newConfig(options)
		return err
	})
	flag.Parse()

	run, ok := scenarios[*scenario]
	if !ok || options.Topic == "" {
		flag.Usage()
		os.Exit(2)
	}
	report, err := run(options)
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
	report.Scenario = *scenario
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}
