package main

import (
	"sync/atomic"
	"time"

	"github.com/nsqio/go-nsq"
)

const (
	readyMessages = 2_000
	readyCount    = 7
)

// maxInFlight checks RDY from both sides: the broker sends as many messages as the consumer is ready for before the
// first is answered, and never one more.
func maxInFlight(options Options) (*Report, error) {
	deadline := time.Now().Add(options.Deadline)
	ledger := NewLedger("reader", readyMessages)
	config, err := newConfig(options)
	if err != nil {
		return nil, err
	}
	config.MaxInFlight = readyCount
	var held, most atomic.Int64
	allHeld := make(chan struct{})
	consumer, err := newConsumer(options, "reader", config, 4*readyCount, func(message *nsq.Message) {
		now := held.Add(1)
		if now > most.Load() {
			most.Store(now)
		}
		if now > readyCount {
			ledger.Violation("%d messages in flight with RDY %d", now, readyCount)
		}
		delivery := ledger.Delivered(numberOf(message.Body), message.Attempts, time.Now())
		if now == readyCount && delivery == 1 {
			select {
			case <-allHeld:
			default:
				close(allHeld)
			}
		}
		select {
		case <-allHeld:
		case <-time.After(time.Until(deadline)):
			ledger.Violation("RDY %d, but no more than %d messages came", readyCount, most.Load())
		}
		held.Add(-1)
		message.Finish()
	})
	if err != nil {
		return nil, err
	}
	producer, err := newProducer(options)
	if err != nil {
		return nil, err
	}
	defer producer.Stop()
	bodies := make([][]byte, readyMessages)
	for i := range bodies {
		bodies[i] = bodyOf(i)
	}
	if err := producer.MultiPublish(options.Topic, bodies); err != nil {
		return nil, err
	}
	ledger.Wait(deadline)
	if err := stop(deadline, consumer); err != nil {
		return nil, err
	}
	return newReport(readyMessages, ledger), nil
}
