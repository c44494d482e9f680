package srtm

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// broker keeps what it accepts.
type broker struct {
	address string
	acks    bool

	mutex      sync.Mutex
	bodies     []string
	identities []string
	conns      []net.Conn
	held       []func()
	refused    string
	refusal    string
	nops       int
	closed     int
	isMute     bool
	isDead     bool
}

func startBroker(t *testing.T, acks bool) *broker {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &broker{address: listener.Addr().String(), acks: acks}
	t.Cleanup(func() { listener.Close(); b.kill() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go b.serve(conn)
		}
	}()
	return b
}

func (b *broker) with(act func()) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	act()
}

func (b *broker) get(read func() int) int {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return read()
}

func (b *broker) accepted() []string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return append([]string{}, b.bodies...)
}

// send writes to the newest connection.
func (b *broker) send(data []byte) {
	b.with(func() { b.conns[len(b.conns)-1].Write(data) })
}

func (b *broker) kill() {
	b.with(func() {
		b.isDead = true
		for _, conn := range b.conns {
			conn.Close()
		}
	})
}

func (b *broker) unmute() {
	b.with(func() {
		b.isMute = false
		for _, answer := range b.held {
			answer()
		}
		b.held = nil
	})
}

func (b *broker) serve(conn net.Conn) {
	defer conn.Close()
	isDead := false
	b.with(func() {
		if isDead = b.isDead; !isDead {
			b.conns = append(b.conns, conn)
		}
	})
	if isDead {
		return
	}
	defer b.with(func() { b.closed++ })
	reader := bufio.NewReader(conn)
	io.CopyN(io.Discard, reader, 4)
	var accepted uint64
	for {
		line, err := reader.ReadString('\n')
		if err != nil {
			return
		}
		if line == "NOP\n" {
			b.with(func() { b.nops++ })
			continue
		}
		var size [4]byte
		io.ReadFull(reader, size[:])
		body := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(reader, body); err != nil {
			return
		}
		if !b.execute(conn, strings.Fields(line)[0], body, &accepted) {
			return
		}
	}
}

func (b *broker) execute(conn net.Conn, verb string, body []byte, accepted *uint64) bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	bodies := []string{string(body)}
	switch verb {
	case "IDENTIFY":
		b.identities = append(b.identities, string(body))
		answer := `{"srtm":{"version":2,"publisher":true}}`
		if b.acks {
			answer = `{"srtm":{"version":2,"publisher":true,"ack_every_messages":64}}`
		}
		conn.Write(frame(frameResponse, []byte(answer)))
		return true
	case "MPUB":
		bodies = nil
		for rest := body[4:]; len(rest) > 0; {
			end := 4 + binary.BigEndian.Uint32(rest)
			bodies = append(bodies, string(rest[4:end]))
			rest = rest[end:]
		}
	}
	if b.refused != "" && bodies[0] == b.refused {
		conn.Write(frame(frameError, []byte(b.refusal)))
		return false
	}
	b.bodies = append(b.bodies, bodies...)
	*accepted += uint64(len(bodies))
	answer := frame(frameResponse, []byte("OK"))
	if b.acks {
		answer = frame(frameAck, binary.BigEndian.AppendUint64(nil, *accepted))
	}
	if b.isMute {
		b.held = append(b.held, func() { conn.Write(answer) })
	} else {
		conn.Write(answer)
	}
	return true
}

func frame(kind uint32, data []byte) []byte {
	out := binary.BigEndian.AppendUint32(nil, uint32(len(data)+4))
	return append(binary.BigEndian.AppendUint32(out, kind), data...)
}

func migrate(topic, address string) []byte {
	data := append(binary.BigEndian.AppendUint16(nil, uint16(len(topic))), topic...)
	data = append(binary.BigEndian.AppendUint16(data, uint16(len(address))), address...)
	return frame(frameMigrate, data)
}

// fakeController answers by a table from "METHOD target" to status and body.
type fakeController struct {
	address string
	mutex   sync.Mutex
	answers map[string]answer
	asked   []string
}

type answer struct {
	status int
	body   string
}

func startController(t *testing.T) *fakeController {
	t.Helper()
	c := &fakeController{answers: map[string]answer{}}
	server := httptest.NewServer(http.HandlerFunc(c.serve))
	t.Cleanup(server.Close)
	c.address = server.URL
	return c
}

func (c *fakeController) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	request := r.Method + " " + r.URL.EscapedPath()
	if avoid := r.URL.Query().Get("avoid"); avoid != "" {
		request += "?avoid=" + avoid
	}
	c.mutex.Lock()
	c.asked = append(c.asked, strings.TrimSpace(request+" "+string(body)))
	known, found := c.answers[request]
	c.mutex.Unlock()
	if !found {
		known = answer{404, `{"message":"nothing here"}`}
	}
	w.WriteHeader(known.status)
	io.WriteString(w, known.body)
}

func (c *fakeController) answer(request string, status int, body string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.answers[request] = answer{status, body}
}

// fail answers every question that it knows with 503.
func (c *fakeController) fail() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for request := range c.answers {
		c.answers[request] = answer{503, `{"message":"starting"}`}
	}
}

func (c *fakeController) forget() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.answers = map[string]answer{}
}

func (c *fakeController) questions() []string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return append([]string{}, c.asked...)
}

func (c *fakeController) last() string {
	questions := c.questions()
	return questions[len(questions)-1]
}

// places answers with first, and with second when first is to be avoided.
func (c *fakeController) places(first, second *broker) {
	c.answer("POST /v1/topics/t/publishers", 200, `{"publishers":[`+placed(first)+`]}`)
	c.answer("GET /v1/topics/t/publishers/s%2F1", 200, placed(first))
	c.answer("GET /v1/topics/t/publishers/s%2F1?avoid="+first.address, 200, placed(second))
}

func placed(b *broker) string {
	return fmt.Sprintf(`{"id":"s/1","rate":1.0,"batch":1,"broker":{"broker":"b","tcp_address":%q}}`, b.address)
}

func startCluster(t *testing.T, acks bool) (first, second *broker, c *fakeController) {
	t.Helper()
	first, second, c = startBroker(t, acks), startBroker(t, acks), startController(t)
	c.places(first, second)
	return first, second, c
}

// until waits for a condition that other goroutines bring about.
func until(t *testing.T, isMet func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !isMet(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain")
		}
	}
}

func extension(t *testing.T, identity string) string {
	t.Helper()
	var body struct{ Srtm json.RawMessage }
	if err := json.Unmarshal([]byte(identity), &body); err != nil {
		t.Fatal(err)
	}
	return string(body.Srtm)
}
