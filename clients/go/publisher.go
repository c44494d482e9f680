package srtm

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrClosed is the answer of a publisher after Close.
var ErrClosed = errors.New("srtm: the publisher is closed")

// ErrEmpty is the answer to a message without content and to a batch without messages, which no broker accepts.
var ErrEmpty = errors.New("srtm: the message or the batch is empty: publish at least one byte and one message")

// RefusedError says that a broker refused an earlier message for what it is (size, topic, a limit that rejects). It is
// told once, and the message is not sent again.
type RefusedError struct{ Text string }

func (e *RefusedError) Error() string { return "srtm: the broker refused a message: " + e.Text }

// Traffic counts messages since the publisher began.
type Traffic struct {
	// Published were taken from the program.
	Published uint64
	// Acknowledged were accepted by a broker.
	Acknowledged uint64
	// Refused were refused by a broker for what they are.
	Refused uint64
	// Resent were sent again although a broker that was lost may have accepted them: possible duplicates.
	Resent uint64
	// Moves counts moves from one live broker to another.
	Moves uint64
}

// Throttled is a broker's notice that the topic's limit holds messages back.
type Throttled struct {
	// RetryAfter is how long messages wait at least for a token.
	RetryAfter time.Duration
	// At is when the notice came; zero: none came.
	At time.Time
}

// Publisher publishes to one topic where the controller says. Its methods may be called from several goroutines.
type Publisher struct {
	options    Options
	controller *controller
	ctx        context.Context
	cancel     context.CancelFunc
	following  sync.WaitGroup
	// disturbed wakes the goroutine that follows the placement.
	disturbed chan struct{}

	mutex   sync.Mutex
	changed chan struct{}
	active  *link
	leaving []*link
	// waiting are the commands that no link has, oldest first.
	waiting      []*command
	heldMessages int
	heldBytes    int
	traffic      Traffic
	throttled    Throttled
	trouble      string
	refusal      error
	verdict      error
	isClosed     bool
	placing
}

// Start begins to look for a place and returns at once: messages published meanwhile wait in the buffer.
func Start(options Options) (*Publisher, error) {
	options = options.withDefaults()
	if err := options.check(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Publisher{
		options:    options,
		controller: newController(options),
		ctx:        ctx,
		cancel:     cancel,
		disturbed:  make(chan struct{}, 1),
		changed:    make(chan struct{}),
		trouble:    "the controller has not answered yet",
		placing:    placing{mustAsk: true, isFirst: true},
	}
	p.following.Add(1)
	go p.follow()
	return p, nil
}

// Publish publishes one message; it waits while the window is full. A [RefusedError] is about an earlier message, and
// this one was not taken; nor was it with any other error.
func (p *Publisher) Publish(ctx context.Context, body []byte) error {
	return p.PublishBatch(ctx, [][]byte{body})
}

// PublishBatch publishes messages in one command: a broker accepts all of them or none. Errors are those of Publish.
func (p *Publisher) PublishBatch(ctx context.Context, bodies [][]byte) error {
	if len(bodies) == 0 {
		return ErrEmpty
	}
	for _, body := range bodies {
		if len(body) == 0 {
			return ErrEmpty
		}
	}
	c := &command{messages: len(bodies), data: putPublish(nil, p.options.Topic, bodies)}
	return p.when(ctx, func() bool { return p.hasRoom(c) }, func() {
		p.heldMessages += c.messages
		p.heldBytes += len(c.data)
		p.traffic.Published += uint64(c.messages)
		p.waiting = append(p.waiting, c)
		p.sendWaiting()
	})
}

// Flush waits until everything published was acknowledged, or refused for good. When ctx ends first, the messages are
// still kept and tried.
func (p *Publisher) Flush(ctx context.Context) error {
	return p.when(ctx, func() bool { return p.heldMessages == 0 }, func() {})
}

// Close flushes and closes the connections, also when flushing fails; what was not acknowledged is given up.
func (p *Publisher) Close(ctx context.Context) error {
	err := p.Flush(ctx)
	p.mutex.Lock()
	p.isClosed = true
	for _, l := range p.links() {
		l.close()
	}
	p.active, p.leaving = nil, nil
	p.notify()
	p.mutex.Unlock()
	p.cancel()
	p.following.Wait()
	return err
}

// Traffic tells what it has done so far.
func (p *Publisher) Traffic() Traffic {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.traffic
}

// Unacknowledged counts messages published and neither acknowledged nor refused.
func (p *Publisher) Unacknowledged() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.heldMessages
}

// Broker is the address of the broker that gets what is published; empty while there is none.
func (p *Publisher) Broker() string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.address()
}

// Throttled is the present broker's last notice.
func (p *Publisher) Throttled() Throttled {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.throttled
}

// Trouble says why it has no broker, or why it lost the last one.
func (p *Publisher) Trouble() string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.trouble
}

// when waits until the condition is met and then acts, with the mutex held.
func (p *Publisher) when(ctx context.Context, isMet func() bool, act func()) error {
	for {
		p.mutex.Lock()
		err, refusal := p.failure()
		if err == nil && isMet() {
			act()
			p.mutex.Unlock()
			return nil
		}
		if refusal {
			p.refusal = nil
		}
		changed := p.changed
		p.mutex.Unlock()
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// failure is what the program must hear first, and whether it is a refusal, which is told once.
func (p *Publisher) failure() (err error, isRefusal bool) {
	switch {
	case p.isClosed:
		return ErrClosed, false
	case p.refusal != nil:
		return p.refusal, true
	default:
		return p.verdict, false
	}
}

// notify wakes those who wait in when.
func (p *Publisher) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Publisher) hasRoom(c *command) bool {
	fitsMessages := p.heldMessages+c.messages <= p.options.WindowMessages
	fitsBytes := p.heldBytes+len(c.data) <= p.options.WindowBytes
	return p.heldMessages == 0 || fitsMessages && fitsBytes
}

func (p *Publisher) release(c *command) {
	p.heldMessages -= c.messages
	p.heldBytes -= len(c.data)
}

// sendWaiting gives the active link everything that waits.
func (p *Publisher) sendWaiting() {
	if p.active == nil {
		return
	}
	for _, c := range p.waiting {
		if c.mayRepeat {
			p.traffic.Resent += uint64(c.messages)
		}
		p.active.send(c)
	}
	p.waiting = nil
}

func (p *Publisher) address() string {
	if p.active == nil {
		return ""
	}
	return p.active.address
}

func (p *Publisher) links() []*link {
	links := append([]*link{}, p.leaving...)
	if p.active != nil {
		links = append(links, p.active)
	}
	return links
}
