package srtm

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// write serves a link's output until it is closed.
func (p *Publisher) write(l *link) {
	for {
		select {
		case <-l.closed:
			return
		case <-l.wake:
		}
		p.mutex.Lock()
		out := l.fetch()
		p.mutex.Unlock()
		if len(out) == 0 {
			continue
		}
		if _, err := l.conn.Write(out); err != nil {
			// The broker may have said why: listen hears that, or the end.
			return
		}
	}
}

// listen serves a link's input until it ends.
func (p *Publisher) listen(l *link) {
	for {
		if err := l.conn.SetReadDeadline(time.Now().Add(2 * l.heartbeat)); err != nil {
			p.lost(l, err)
			return
		}
		kind, data, err := readFrame(l.reader)
		if err == nil {
			err = p.hear(l, kind, data)
		}
		if err != nil {
			p.lost(l, err)
			return
		}
	}
}

func (p *Publisher) hear(l *link, kind uint32, data []byte) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	switch {
	case kind == frameResponse && string(data) == "_heartbeat_":
		l.owesNop = true
		l.wakeWriter()
		return nil
	case kind == frameResponse && string(data) == "OK" && !l.isCumulative:
		c, err := l.acceptOldest()
		if err != nil {
			return err
		}
		p.acknowledged(c)
		return nil
	case kind == frameAck && l.isCumulative:
		total, err := parseAck(data)
		if err != nil {
			return err
		}
		accepted, err := l.acceptUpTo(total)
		p.acknowledged(accepted...)
		return err
	case kind == frameError:
		return p.complained(l, string(data))
	case kind == frameMigrate:
		topic, address, err := parseMigrate(data)
		if err == nil && topic == p.options.Topic {
			p.toldToMove(l, address)
		}
		return err
	case kind == frameThrottled:
		retryAfterUs, topic, err := parseThrottled(data)
		if err == nil && topic == p.options.Topic && l == p.active {
			p.throttled = Throttled{RetryAfter: time.Duration(retryAfterUs) * time.Microsecond, At: time.Now()}
		}
		return err
	}
	return fmt.Errorf("%w: an unexpected answer of type %d: %.64q", errFrame, kind, data)
}

func (p *Publisher) acknowledged(commands ...*command) {
	for _, c := range commands {
		p.traffic.Acknowledged += uint64(c.messages)
		p.release(c)
	}
	p.waited = 0
	p.closeDrained()
	p.notify()
}

// complained deals with an error frame: the broker closes the connection after it.
func (p *Publisher) complained(l *link, text string) error {
	isAboutMessage := refuses(text) && len(l.outstanding) > l.unwritten
	if isAboutMessage {
		c := l.outstanding[0]
		l.outstanding = l.outstanding[1:]
		p.traffic.Refused += uint64(c.messages)
		p.refusal = &RefusedError{Text: text}
		p.release(c)
	}
	return &lostError{reason: "the broker refused: " + text, mayReturn: isAboutMessage}
}

func (p *Publisher) toldToMove(l *link, address string) {
	if l == p.active {
		p.target = address
	} else {
		// Two brokers send it to different places: the controller knows.
		p.mustAsk = true
	}
	p.disturb()
}

// lost gives up a link: what it has not acknowledged waits again, and the controller is asked where to go.
func (p *Publisher) lost(l *link, err error) {
	l.close()
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.isClosed || l != p.active && !slices.Contains(p.leaving, l) {
		// It was closed from this side.
		return
	}
	p.trouble = l.address + ": " + reason(err)
	if time.Since(l.since) >= lasting {
		p.waited = 0
	}
	p.waiting = append(l.takeOutstanding(), p.waiting...)
	if l == p.active {
		var told *lostError
		p.active, p.mustAsk, p.avoid = nil, true, l.address
		if errors.As(err, &told) && told.mayReturn {
			p.avoid = ""
		}
		p.disturb()
	} else {
		p.leaving = slices.DeleteFunc(p.leaving, func(other *link) bool { return other == l })
		if p.target != "" {
			p.disturb()
		}
	}
	p.sendWaiting()
	p.notify()
}

// closeDrained closes the leaving links that have nothing outstanding any more.
func (p *Publisher) closeDrained() {
	p.leaving = slices.DeleteFunc(p.leaving, func(l *link) bool {
		isDrained := len(l.outstanding) == 0
		if isDrained {
			l.close()
			if p.target != "" {
				p.disturb()
			}
		}
		return isDrained
	})
}

func reason(err error) string {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the broker closed the connection"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "no sign of life in time"
	}
	return err.Error()
}
