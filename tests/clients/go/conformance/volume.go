package main

import (
	"fmt"
	"time"

	"github.com/nsqio/go-nsq"
)

// How the volume scenario publishes.
const (
	singleMessages   = 6_000
	batchMessages    = 4_000
	batchSize        = 100
	deferredMessages = 500
	allMessages      = singleMessages + batchMessages + deferredMessages
	laterDelay       = 300 * time.Millisecond
)

// volume publishes by PUB, MPUB and DPUB to two channels: three consumers share one, a fourth reads the other alone. A
// declared part of the messages is handed back once, at once or with a delay.
func volume(options Options) (*Report, error) {
	deadline := time.Now().Add(options.Deadline)
	shared, alone := NewLedger("shared", allMessages), NewLedger("alone", allMessages)
	for i := range allMessages {
		if handBack(i) {
			shared.Expect(i, 2, false)
		}
	}
	var consumers []*nsq.Consumer
	config, err := newConfig(options)
	if err != nil {
		return nil, err
	}
	config.MaxInFlight = 200
	for range 3 {
		consumer, err := newConsumer(options, "shared", config, 4, func(message *nsq.Message) {
			answerShared(shared, message)
		})
		if err != nil {
			return nil, err
		}
		consumers = append(consumers, consumer)
	}
	consumer, err := newConsumer(options, "alone", config, 2, func(message *nsq.Message) {
		alone.Delivered(numberOf(message.Body), message.Attempts, time.Now())
		message.Finish()
	})
	if err != nil {
		return nil, err
	}
	consumers = append(consumers, consumer)

	if err := publishVolume(options, shared, alone); err != nil {
		return nil, err
	}
	shared.Wait(deadline)
	alone.Wait(deadline)
	if err := stop(deadline, consumers...); err != nil {
		return nil, err
	}
	return newReport(allMessages, shared, alone), nil
}

// handBack declares which messages the shared channel's consumers requeue at their first delivery.
func handBack(i int) bool {
	return i%50 == 7 || i%50 == 13
}

func answerShared(ledger *Ledger, message *nsq.Message) {
	i := numberOf(message.Body)
	delivery := ledger.Delivered(i, message.Attempts, time.Now())
	if !handBack(i) || delivery != 1 {
		message.Finish()
		return
	}
	delay := time.Duration(0)
	if i%50 == 13 {
		delay = laterDelay
	}
	ledger.Requeued(i, time.Now().Add(delay))
	message.RequeueWithoutBackoff(delay)
}

func publishVolume(options Options, ledgers ...*Ledger) error {
	producer, err := newProducer(options)
	if err != nil {
		return err
	}
	defer producer.Stop()
	answers := make(chan *nsq.ProducerTransaction, allMessages)
	sent := 0
	for i := range singleMessages {
		if err := producer.PublishAsync(options.Topic, bodyOf(i), answers); err != nil {
			return fmt.Errorf("PUB: %w", err)
		}
		sent++
	}
	for first := singleMessages; first < singleMessages+batchMessages; first += batchSize {
		bodies := make([][]byte, batchSize)
		for k := range bodies {
			bodies[k] = bodyOf(first + k)
		}
		if err := producer.MultiPublishAsync(options.Topic, bodies, answers); err != nil {
			return fmt.Errorf("MPUB: %w", err)
		}
		sent++
	}
	for i := singleMessages + batchMessages; i < allMessages; i++ {
		delay := time.Duration(200+i%1_000) * time.Millisecond
		for _, ledger := range ledgers {
			ledger.NotBefore(i, time.Now().Add(delay))
		}
		if err := producer.DeferredPublishAsync(options.Topic, delay, bodyOf(i), answers); err != nil {
			return fmt.Errorf("DPUB: %w", err)
		}
		sent++
	}
	for range sent {
		if answer := <-answers; answer.Error != nil {
			return fmt.Errorf("publish: %w", answer.Error)
		}
	}
	return nil
}
