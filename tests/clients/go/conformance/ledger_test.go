package main

import (
	"strings"
	"testing"
	"time"
)

// A checker that finds nothing proves nothing: each broken promise must be seen.
func TestLedgerSeesBrokenPromises(t *testing.T) {
	start := time.Unix(1_000, 0)
	for _, row := range []struct {
		name   string
		script func(*Ledger)
		want   string
	}{
		{"lost", func(l *Ledger) { l.Delivered(0, 1, start) }, "message 1: 0 deliveries of 1"},
		{"twice", func(l *Ledger) { l.Delivered(0, 1, start); l.Delivered(0, 2, start) }, "message 0: delivery 2 of 1"},
		{"attempts", func(l *Ledger) { l.Delivered(0, 2, start) }, "message 0: delivery 1 says attempts 2"},
		{"early", func(l *Ledger) {
			l.NotBefore(0, start.Add(time.Second))
			l.Delivered(0, 1, start)
		}, "message 0: delivery 1 came 1s early"},
		{"early again", func(l *Ledger) {
			l.Expect(0, 2, false)
			l.Delivered(0, 1, start)
			l.Requeued(0, start.Add(time.Second))
			l.Delivered(0, 2, start.Add(400*time.Millisecond))
		}, "message 0: delivery 2 came 600ms early"},
		{"unknown", func(l *Ledger) { l.Delivered(7, 1, start) }, "a message that was never published: 7"},
	} {
		ledger := NewLedger("c", 2)
		row.script(ledger)
		ledger.Wait(time.Now())
		found := strings.Join(newReport(2, ledger).Violations, "\n")
		if !strings.Contains(found, "c: "+row.want) {
			t.Errorf("%s: %q does not tell %q", row.name, found, row.want)
		}
	}
}

func TestLedgerIsContentWithWhatWasAskedFor(t *testing.T) {
	start := time.Unix(1_000, 0)
	ledger := NewLedger("c", 3)
	ledger.Expect(1, 2, false)
	ledger.Expect(2, 2, true)
	for _, delivery := range []struct {
		message  int
		attempts uint16
	}{{0, 1}, {1, 1}, {1, 2}, {2, 1}, {2, 2}, {2, 3}} {
		ledger.Delivered(delivery.message, delivery.attempts, start)
	}
	ledger.Wait(time.Now().Add(time.Minute))
	report := newReport(3, ledger)
	if len(report.Violations) != 0 || report.Deliveries["c"] != 6 {
		t.Errorf("%+v", report)
	}
}
