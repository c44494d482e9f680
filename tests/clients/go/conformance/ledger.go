package main

import (
	"fmt"
	"sync"
	"time"
)

// maxViolations bounds the report; the first few tell what is wrong.
const maxViolations = 20

// Ledger records every delivery on one channel and holds it against what was promised.
type Ledger struct {
	mu         sync.Mutex
	channel    string
	entries    []entry
	missing    int
	deliveries int
	requeues   int
	violations []string
	complete   chan struct{}
}

type entry struct {
	// expected is how many deliveries the test asked for; a timeout of the broker's may add some where atLeast is set.
	expected int
	atLeast  bool
	seen     int
	// notBefore is the earliest time of the next delivery.
	notBefore time.Time
}

// NewLedger expects each message once.
func NewLedger(channel string, messages int) *Ledger {
	ledger := &Ledger{channel: channel, entries: make([]entry, messages), missing: messages, complete: make(chan struct{})}
	for i := range ledger.entries {
		ledger.entries[i].expected = 1
	}
	return ledger
}

// Expect sets how many deliveries message i must have; atLeast allows more.
func (l *Ledger) Expect(i, deliveries int, atLeast bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.missing += deliveries - l.entries[i].expected
	l.entries[i].expected = deliveries
	l.entries[i].atLeast = atLeast
}

// NotBefore says that the next delivery of message i must not come earlier.
func (l *Ledger) NotBefore(i int, earliest time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[i].notBefore = earliest
}

// Requeued says that message i was handed back and must not come again before earliest.
func (l *Ledger) Requeued(i int, earliest time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requeues++
	l.entries[i].notBefore = earliest
}

// Delivered records a delivery and returns how many there were of this message, this one included.
func (l *Ledger) Delivered(i int, attempts uint16, at time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i < 0 || i >= len(l.entries) {
		l.violate("a message that was never published: %d", i)
		return 0
	}
	e := &l.entries[i]
	e.seen++
	l.deliveries++
	if int(attempts) != e.seen {
		l.violate("message %d: delivery %d says attempts %d", i, e.seen, attempts)
	}
	if at.Before(e.notBefore) {
		l.violate("message %d: delivery %d came %v early", i, e.seen, e.notBefore.Sub(at))
	}
	if e.seen > e.expected && !e.atLeast {
		l.violate("message %d: delivery %d of %d", i, e.seen, e.expected)
	}
	if e.seen <= e.expected {
		l.missing--
		if l.missing == 0 {
			close(l.complete)
		}
	}
	return e.seen
}

// Violation notes a broken promise that the caller saw.
func (l *Ledger) Violation(format string, arguments ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.violate(format, arguments...)
}

func (l *Ledger) violate(format string, arguments ...any) {
	if len(l.violations) < maxViolations {
		l.violations = append(l.violations, l.channel+": "+fmt.Sprintf(format, arguments...))
	}
}

// Wait returns when every expected delivery has come; at the deadline it notes what has not.
func (l *Ledger) Wait(deadline time.Time) {
	select {
	case <-l.complete:
		return
	case <-time.After(time.Until(deadline)):
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.violate("%d deliveries did not come in time", l.missing)
	for i, e := range l.entries {
		if e.seen < e.expected {
			l.violate("message %d: %d deliveries of %d", i, e.seen, e.expected)
		}
	}
}

func (l *Ledger) addTo(report *Report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	report.Deliveries[l.channel] = l.deliveries
	report.Requeues[l.channel] = l.requeues
	report.Violations = append(report.Violations, l.violations...)
}

func newReport(published int, ledgers ...*Ledger) *Report {
	report := &Report{
		Published:  published,
		Deliveries: map[string]int{},
		Requeues:   map[string]int{},
		Violations: []string{},
	}
	for _, ledger := range ledgers {
		ledger.addTo(report)
	}
	return report
}
