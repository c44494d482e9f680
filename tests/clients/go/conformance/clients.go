package main

import (
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nsqio/go-nsq"
)

// bodyOf names a message by its number; the tail makes sizes differ.
func bodyOf(i int) []byte {
	return []byte(fmt.Sprintf("%d %s", i, strings.Repeat("x", i%97)))
}

// numberOf is the inverse of bodyOf, -1 for any other body.
func numberOf(body []byte) int {
	number, _, _ := strings.Cut(string(body), " ")
	i, err := strconv.Atoi(number)
	if err != nil || string(bodyOf(i)) != string(body) {
		return -1
	}
	return i
}

func newConfig(options Options) (*nsq.Config, error) {
	config := nsq.NewConfig()
	for _, setting := range options.Settings {
		name, value, _ := strings.Cut(setting, "=")
		if err := config.Set(name, value); err != nil {
			return nil, err
		}
	}
	// A failing handler would make go-nsq slow down by itself; requeues here are asked for, not failures.
	config.MaxBackoffDuration = 0
	config.MaxAttempts = 0
	return config, nil
}

func logger() *log.Logger {
	return log.New(os.Stderr, "", log.Lmicroseconds)
}

func newProducer(options Options) (*nsq.Producer, error) {
	config, err := newConfig(options)
	if err != nil {
		return nil, err
	}
	producer, err := nsq.NewProducer(options.Address, config)
	if err != nil {
		return nil, err
	}
	producer.SetLogger(logger(), nsq.LogLevelWarning)
	return producer, producer.Ping()
}

// newConsumer connects a consumer whose handlers answer every message themselves.
func newConsumer(options Options, channel string, config *nsq.Config, handlers int, handle func(*nsq.Message)) (*nsq.Consumer, error) {
	consumer, err := nsq.NewConsumer(options.Topic, channel, config)
	if err != nil {
		return nil, err
	}
	consumer.SetLogger(logger(), nsq.LogLevelError)
	consumer.AddConcurrentHandlers(nsq.HandlerFunc(func(message *nsq.Message) error {
		message.DisableAutoResponse()
		handle(message)
		return nil
	}), handlers)
	return consumer, consumer.ConnectToNSQD(options.Address)
}

// stop ends consumers in order: each sends CLS and waits for what it has in flight.
func stop(deadline time.Time, consumers ...*nsq.Consumer) error {
	for _, consumer := range consumers {
		consumer.Stop()
	}
	for _, consumer := range consumers {
		select {
		case <-consumer.StopChan:
		case <-time.After(time.Until(deadline)):
			return fmt.Errorf("a consumer did not stop before the deadline")
		}
	}
	return nil
}
