package srtm

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
)

// makeTimeout is the longest wait for a connection and the answer to IDENTIFY; a broker that needs longer counts as out
// of reach.
const makeTimeout = 5 * time.Second

// command is a publish command.
type command struct {
	messages int
	data     []byte
	// mayRepeat says that a broker that was lost may have accepted it.
	mayRepeat bool
}

// link is a connection whose broker has answered IDENTIFY. Its fields are guarded by the publisher's mutex, except the
// connection and what its writer is told.
type link struct {
	address string
	since   time.Time
	// outstanding are the commands without an acknowledgement, oldest first; the last unwritten of them are still to be
	// written.
	outstanding  []*command
	unwritten    int
	accepted     uint64
	isCumulative bool

	conn      net.Conn
	reader    *bufio.Reader
	heartbeat time.Duration
	wake      chan struct{}
	closed    chan struct{}
	closing   sync.Once
	owesNop   bool
}

// lostError says why a link ended.
type lostError struct {
	reason string
	// mayReturn says that the broker lives: the next connection may go there as well.
	mayReturn bool
}

func (e *lostError) Error() string { return e.reason }

// makeLink connects and announces the publisher.
func makeLink(address string, options Options) (*link, error) {
	body, err := options.identify()
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(makeTimeout)
	conn, err := (&net.Dialer{Deadline: deadline}).Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	l := &link{
		address:   address,
		conn:      conn,
		reader:    bufio.NewReader(conn),
		heartbeat: options.Heartbeat,
		wake:      make(chan struct{}, 1),
		closed:    make(chan struct{}),
	}
	if err := l.begin(options.TLS, deadline); err != nil {
		l.conn.Close()
		return nil, err
	}
	if err := l.greet(body, options.Token); err != nil {
		l.conn.Close()
		return nil, err
	}
	l.since = time.Now()
	return l, nil
}

// begin says which protocol follows, and agrees on TLS before anything else is said: a first IDENTIFY asks for it, and the
// OK comes within.
func (l *link) begin(config *tls.Config, deadline time.Time) error {
	if err := l.conn.SetDeadline(deadline); err != nil {
		return err
	}
	if _, err := l.conn.Write([]byte(magic)); err != nil || config == nil {
		return err
	}
	wish := []byte(`{"user_agent":"srtm-go/0.1.0","feature_negotiation":true,"tls_v1":true}`)
	answer, err := l.identify(wish)
	switch {
	case err != nil:
		return err
	case !answer.TLSv1:
		return errors.New("the broker offers no TLS")
	}
	config = config.Clone()
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(l.address)
		if err != nil {
			return err
		}
		config.ServerName = host
	}
	l.conn = tls.Client(l.conn, config)
	l.reader = bufio.NewReader(l.conn)
	_, err = l.response()
	return err
}

func (l *link) greet(body []byte, token string) error {
	answer, err := l.identify(body)
	if err != nil {
		return err
	}
	if answer.AuthRequired && token != "" {
		if _, err := l.conn.Write(putAuth(nil, token)); err != nil {
			return err
		}
		if _, err := l.response(); err != nil {
			return err
		}
	}
	// The answer alone counts: a broker of version 1 grants acks to whoever uses the extension.
	l.isCumulative = answer.Srtm.AckEveryMessages > 0
	return l.conn.SetDeadline(time.Time{})
}

// agreed is a broker's answer to IDENTIFY.
type agreed struct {
	TLSv1        bool `json:"tls_v1"`
	AuthRequired bool `json:"auth_required"`
	Srtm         struct {
		AckEveryMessages int `json:"ack_every_messages"`
	} `json:"srtm"`
}

func (l *link) identify(body []byte) (answer agreed, err error) {
	if _, err = l.conn.Write(putIdentify(nil, body)); err != nil {
		return answer, err
	}
	data, err := l.response()
	// A broker without negotiation answers OK, which is no JSON.
	_ = json.Unmarshal(data, &answer)
	return answer, err
}

// response is the broker's next answer.
func (l *link) response() ([]byte, error) {
	for {
		kind, data, err := readFrame(l.reader)
		switch {
		case err != nil:
			return nil, err
		case kind == frameError:
			return nil, fmt.Errorf("the broker refused: %s", data)
		case kind == frameResponse && string(data) != "_heartbeat_":
			return data, nil
		}
	}
}

// close ends the connection; the goroutines that serve it end by themselves.
func (l *link) close() {
	l.closing.Do(func() {
		close(l.closed)
		l.conn.Close()
	})
}

func (l *link) send(c *command) {
	l.outstanding = append(l.outstanding, c)
	l.unwritten++
	l.wakeWriter()
}

func (l *link) wakeWriter() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// takeUnwritten takes back the commands that the writer has not fetched.
func (l *link) takeUnwritten() []*command {
	kept := len(l.outstanding) - l.unwritten
	taken := l.outstanding[kept:]
	l.outstanding, l.unwritten = l.outstanding[:kept:kept], 0
	return taken
}

// takeOutstanding takes back everything without an acknowledgement.
func (l *link) takeOutstanding() []*command {
	taken := l.outstanding
	for _, c := range taken[:len(taken)-l.unwritten] {
		c.mayRepeat = true
	}
	l.outstanding, l.unwritten = nil, 0
	return taken
}

// fetch gives the writer everything that is to be written.
func (l *link) fetch() []byte {
	var out []byte
	if l.owesNop {
		out = append(out, "NOP\n"...)
	}
	for _, c := range l.outstanding[len(l.outstanding)-l.unwritten:] {
		out = append(out, c.data...)
	}
	l.owesNop, l.unwritten = false, 0
	return out
}

// acceptOldest takes the command that an OK is about.
func (l *link) acceptOldest() (*command, error) {
	if len(l.outstanding) == l.unwritten {
		return nil, errors.New("the broker broke the protocol: more acknowledged than was sent")
	}
	c := l.outstanding[0]
	l.outstanding = l.outstanding[1:]
	l.accepted += uint64(c.messages)
	return c, nil
}

// acceptUpTo takes the commands that a running count is about.
func (l *link) acceptUpTo(total uint64) ([]*command, error) {
	var accepted []*command
	for l.accepted < total {
		c, err := l.acceptOldest()
		if err != nil {
			return accepted, err
		}
		accepted = append(accepted, c)
	}
	if l.accepted > total {
		return accepted, errors.New("the broker broke the protocol: a count that fell or cuts a batch in two")
	}
	return accepted, nil
}

// refuses says that an error is about the oldest command, which will never be accepted as it is. A broker that stops
// refuses everything with the word exiting: others will take it.
func refuses(text string) bool {
	code, _, _ := strings.Cut(text, " ")
	switch code {
	case "E_BAD_TOPIC", "E_BAD_MESSAGE", "E_BAD_BODY":
		return true
	case "E_PUB_FAILED", "E_MPUB_FAILED":
		return !strings.HasSuffix(text, "exiting")
	}
	return false
}
