package main

import (
	"sync"
	"time"

	"github.com/nsqio/go-nsq"
)

const (
	timeoutMessages = 400
	msgTimeout      = 2 * time.Second
	touchEvery      = 400 * time.Millisecond
	touches         = 12
)

// timeouts lets a declared part of the messages time out once, keeps another part in flight far longer than the message
// timeout by touching it, and finishes the rest at once. The late FIN of a message that has timed out must do no harm.
func timeouts(options Options) (*Report, error) {
	deadline := time.Now().Add(options.Deadline)
	ledger := NewLedger("reader", timeoutMessages)
	for i := range timeoutMessages {
		if timesOut(i) {
			ledger.Expect(i, 2, false)
		} else if !isTouched(i) {
			// A machine that stalls for the whole timeout may cause a delivery more, which the broker's count shows.
			ledger.Expect(i, 1, true)
		}
	}
	config, err := newConfig(options)
	if err != nil {
		return nil, err
	}
	config.MsgTimeout = msgTimeout
	config.MaxInFlight = timeoutMessages
	var starts, late sync.Map
	var touching sync.WaitGroup
	consumer, err := newConsumer(options, "reader", config, 4, func(message *nsq.Message) {
		i := numberOf(message.Body)
		delivery := ledger.Delivered(i, message.Attempts, time.Now())
		switch {
		case timesOut(i) && delivery == 1:
			late.Store(i, message)
			// The timeout runs from the sending, which comes after the publishing.
			if start, known := starts.Load(i); known {
				ledger.NotBefore(i, start.(time.Time).Add(msgTimeout))
			}
		case isTouched(i) && delivery == 1:
			touching.Add(1)
			go func() {
				defer touching.Done()
				touch(message)
			}()
		default:
			message.Finish()
			if first, held := late.LoadAndDelete(i); held {
				first.(*nsq.Message).Finish()
			}
		}
	})
	if err != nil {
		return nil, err
	}
	if err := publishTimeouts(options, &starts); err != nil {
		return nil, err
	}
	ledger.Wait(deadline)
	touching.Wait()
	if err := stop(deadline, consumer); err != nil {
		return nil, err
	}
	return newReport(timeoutMessages, ledger), nil
}

func timesOut(i int) bool { return i%20 == 3 }

func isTouched(i int) bool { return i%20 == 11 }

// touch holds a message for more than twice its timeout, then finishes it.
func touch(message *nsq.Message) {
	ticker := time.NewTicker(touchEvery)
	defer ticker.Stop()
	for range touches {
		<-ticker.C
		message.Touch()
	}
	message.Finish()
}

func publishTimeouts(options Options, starts *sync.Map) error {
	producer, err := newProducer(options)
	if err != nil {
		return err
	}
	defer producer.Stop()
	for i := range timeoutMessages {
		starts.Store(i, time.Now())
		if err := producer.Publish(options.Topic, bodyOf(i)); err != nil {
			return err
		}
	}
	return nil
}
