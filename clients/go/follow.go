package srtm

import (
	"errors"
	"math/rand/v2"
	"time"
)

const (
	// While there is a broker, questions to the controller are so much rarer.
	calmFactor = 10
	// Links that wait for acknowledgements at the same time; a further move waits for one of them.
	maxLeaving = 4
	// A link that held so long was no accident.
	lasting = time.Second

	leastWait = 100 * time.Millisecond
	mostWait  = time.Second
)

// placing is what the goroutine knows that follows the placement; guarded by the publisher's mutex.
type placing struct {
	// target is where a broker sent the publisher.
	target       string
	mustAsk      bool
	isFirst      bool
	avoid        string
	isRegistered bool
	lastAddress  string
	// waited is the last wait before another try; zero: all went well.
	waited time.Duration
}

// follow asks, connects, switches over, and waits until something disturbs it, until the publisher is closed or the
// controller refuses for good before the first place.
func (p *Publisher) follow() {
	defer p.following.Done()
	for p.ctx.Err() == nil {
		address := p.nextAddress()
		p.mutex.Lock()
		isFinal, isThere := p.verdict != nil, address == p.address()
		p.mutex.Unlock()
		switch {
		case isFinal:
			return
		case address == "":
			p.pause(false)
		case isThere:
			p.pause(true)
		default:
			p.move(address)
		}
	}
}

// nextAddress is where to go: as a broker says, else as the controller says; empty: nowhere for now.
func (p *Publisher) nextAddress() string {
	p.mutex.Lock()
	if p.active != nil && p.target != "" {
		defer p.mutex.Unlock()
		if len(p.leaving) >= maxLeaving {
			return ""
		}
		target := p.target
		p.target = ""
		return target
	}
	p.target = ""
	if p.active != nil && !p.mustAsk {
		defer p.mutex.Unlock()
		return p.active.address
	}
	var wait time.Duration
	if p.active == nil && !p.isFirst {
		wait = p.backoff()
	}
	p.isFirst = false
	p.mutex.Unlock()
	p.sleep(wait)
	return p.ask()
}

func (p *Publisher) ask() string {
	p.mutex.Lock()
	avoid, register := p.avoid, !p.options.Announced && !p.isRegistered
	p.mutex.Unlock()
	var address string
	var err error
	if register {
		address, err = p.controller.register(p.ctx)
	} else {
		address, err = p.controller.place(p.ctx, avoid)
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var notPlaced *NotPlacedError
	switch {
	case err == nil:
		p.isRegistered = true
		if address == "" {
			p.trouble = "the controller has no broker for the publisher yet"
		} else if p.avoid == avoid {
			p.mustAsk = false
		}
		return address
	case errors.Is(err, errUnknown):
		p.isRegistered = false
	case errors.As(err, &notPlaced) && p.lastAddress == "":
		p.verdict = notPlaced
		p.notify()
	}
	p.trouble = err.Error()
	if p.active != nil || errors.Is(err, errUnknown) || notPlaced != nil {
		return ""
	}
	// Without controller and broker: the broker that it had may be back.
	return p.lastAddress
}

func (p *Publisher) move(address string) {
	made, err := makeLink(address, p.options)
	p.mutex.Lock()
	if err != nil {
		p.trouble = address + ": " + err.Error()
		p.mustAsk, p.avoid = true, address
		p.mutex.Unlock()
		p.pause(false)
		return
	}
	defer p.mutex.Unlock()
	if p.isClosed {
		made.close()
		return
	}
	p.switchTo(made)
}

// switchTo sends what comes next to made; the former active link leaves.
func (p *Publisher) switchTo(made *link) {
	former := p.active
	p.active = made
	if p.avoid == made.address || !p.mustAsk {
		p.avoid = ""
	}
	p.lastAddress = made.address
	p.throttled = Throttled{}
	if former != nil {
		p.traffic.Moves++
		p.waiting = append(former.takeUnwritten(), p.waiting...)
		p.leaving = append(p.leaving, former)
		p.closeDrained()
	}
	go p.listen(made)
	go p.write(made)
	p.sendWaiting()
	p.notify()
}

// pause waits for a disturbance, or for the next try; without a broker the next try waits by itself.
func (p *Publisher) pause(isSettled bool) {
	p.mutex.Lock()
	hasBroker := p.active != nil
	isSettled = isSettled && !p.mustAsk
	var wait time.Duration
	if hasBroker && !isSettled {
		wait = p.backoff() * calmFactor
	}
	p.mutex.Unlock()
	if !hasBroker {
		return
	}
	var timer <-chan time.Time
	if !isSettled {
		timer = time.After(wait)
	}
	select {
	case <-p.ctx.Done():
	case <-p.disturbed:
	case <-timer:
	}
}

// backoff is up to 100 ms the first time, since thousands may have lost their broker at once; then 100 ms to 1 s,
// growing.
func (p *Publisher) backoff() time.Duration {
	if p.waited == 0 {
		p.waited = leastWait
		return rand.N(leastWait)
	}
	p.waited = leastWait + rand.N(min(mostWait, 3*p.waited)-leastWait+1)
	return p.waited
}

func (p *Publisher) sleep(wait time.Duration) {
	if wait == 0 {
		return
	}
	select {
	case <-p.ctx.Done():
	case <-time.After(wait):
	}
}

func (p *Publisher) disturb() {
	select {
	case p.disturbed <- struct{}{}:
	default:
	}
}
