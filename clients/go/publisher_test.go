package srtm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func start(t *testing.T, c *fakeController, change func(*Options)) *Publisher {
	t.Helper()
	options := Options{Controller: c.address, Topic: "t", ID: "s/1"}
	if change != nil {
		change(&options)
	}
	p, err := Start(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		// Most tests have closed it already.
		_ = p.Close(ctx)
	})
	return p
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func publish(t *testing.T, p *Publisher, bodies ...string) {
	t.Helper()
	for _, body := range bodies {
		must(t, p.Publish(t.Context(), []byte(body)))
	}
}

func numbered(from, to int) []string {
	var bodies []string
	for number := from; number < to; number++ {
		bodies = append(bodies, strconv.Itoa(number))
	}
	return bodies
}

func equal[T comparable](t *testing.T, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func equalAll(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func TestAMoveTakesEveryMessageOnce(t *testing.T) {
	for _, acks := range []bool{false, true} {
		t.Run(fmt.Sprintf("acks=%v", acks), func(t *testing.T) { moveOnce(t, acks) })
	}
}

func moveOnce(t *testing.T, acks bool) {
	first, second, c := startCluster(t, acks)
	p := start(t, c, func(o *Options) {
		o.Group, o.Rate = "g7", 5
		if acks {
			o.AckEveryMessages, o.AckInterval = 64, 5*time.Millisecond
		}
	})
	publish(t, p, numbered(0, 100)...)
	must(t, p.Flush(t.Context()))
	first.with(func() { first.isMute = true })
	publish(t, p, "100")
	until(t, func() bool { return len(first.accepted()) == 101 })
	first.send(frame(frameThrottled, append(binary.BigEndian.AppendUint32(nil, 12_000), 't')))
	until(t, func() bool { return p.Throttled().RetryAfter == 12*time.Millisecond })
	first.send(append(migrate("other", "nowhere:1"), migrate("t", second.address)...))
	until(t, func() bool { return p.Broker() == second.address })
	// The old link stays until its acknowledgement comes.
	var batch [][]byte
	for _, body := range numbered(101, 200) {
		batch = append(batch, []byte(body))
	}
	must(t, p.PublishBatch(t.Context(), batch))
	until(t, func() bool { return p.Unacknowledged() == 1 })
	equal(t, first.get(func() int { return first.closed }), 0)
	first.unmute()
	until(t, func() bool { return first.get(func() int { return first.closed }) == 1 })
	must(t, p.Close(t.Context()))
	equalAll(t, first.accepted(), numbered(0, 101))
	equalAll(t, second.accepted(), numbered(101, 200))
	equal(t, p.Traffic(), Traffic{Published: 200, Acknowledged: 200, Moves: 1})
	want := `{"publisher":{"id":"s/1","topic":"t","group":"g7","rate":5,"batch":1}}`
	if acks {
		want = `{"ack_every_messages":64,"ack_interval_ms":5,` + want[1:]
	}
	for _, b := range []*broker{first, second} {
		b.with(func() {
			equal(t, len(b.identities), 1)
			equal(t, extension(t, b.identities[0]), want)
		})
	}
	declared := `{"publishers":[{"id":"s/1","group":"g7","rate":5,"batch":1}]}`
	equalAll(t, c.questions(), []string{"POST /v1/topics/t/publishers " + declared})
}

func TestManyMovesTakeEveryMessageOnce(t *testing.T) {
	for seed := range uint64(3) {
		chance := rand.New(rand.NewPCG(seed, 0))
		brokers := []*broker{startBroker(t, seed == 1), startBroker(t, seed == 1), startBroker(t, seed == 1)}
		c := startController(t)
		c.places(brokers[0], brokers[1])
		p := start(t, c, func(o *Options) {
			o.WindowMessages = 20
			if seed == 1 {
				o.AckEveryMessages = 64
			}
		})
		for number := range 600 {
			publish(t, p, strconv.Itoa(number))
			here := slices.IndexFunc(brokers, func(b *broker) bool { return b.address == p.Broker() })
			if here >= 0 && chance.Float64() < 0.1 {
				brokers[here].send(migrate("t", brokers[chance.IntN(3)].address))
			}
			if chance.Float64() < 0.2 {
				time.Sleep(time.Millisecond)
			}
		}
		must(t, p.Close(t.Context()))
		var all []string
		for _, b := range brokers {
			all = append(all, b.accepted()...)
		}
		slices.SortFunc(all, func(a, b string) int { return len(a)*1000 - len(b)*1000 + strings.Compare(a, b) })
		equalAll(t, all, numbered(0, 600))
		equal(t, p.Traffic().Resent, 0)
		if p.Traffic().Moves < 3 {
			t.Fatalf("only %d moves", p.Traffic().Moves)
		}
	}
}

func TestADeathRepeatsButLosesNothing(t *testing.T) {
	first, second, c := startCluster(t, false)
	first.with(func() { first.isMute = true })
	p := start(t, c, nil)
	publish(t, p, numbered(0, 50)...)
	until(t, func() bool { return len(first.accepted()) == 50 })
	first.kill()
	publish(t, p, numbered(50, 100)...)
	must(t, p.Flush(t.Context()))
	if resent := p.Traffic().Resent; resent < 50 || resent > 100 {
		t.Fatalf("%d resent", resent)
	}
	if !strings.Contains(p.Trouble(), first.address) {
		t.Fatal(p.Trouble())
	}
	must(t, p.Close(t.Context()))
	equalAll(t, second.accepted(), numbered(0, 100))
	equal(t, c.last(), "GET /v1/topics/t/publishers/s%2F1?avoid="+first.address)
}

func TestWaitsGrowAndAreSpread(t *testing.T) {
	var p Publisher
	if first := p.backoff(); first >= leastWait {
		t.Fatal(first)
	}
	var sum time.Duration
	for range 1000 {
		wait := p.backoff()
		if wait < leastWait || wait > mostWait {
			t.Fatal(wait)
		}
		sum += wait
	}
	if sum/1000 < 3*leastWait {
		t.Fatal(sum / 1000)
	}
}

func TestABrokerThatClosesAtOnceIsTriedAgain(t *testing.T) {
	first, _, c := startCluster(t, false)
	first.with(func() { first.isDead = true })
	c.answer("GET /v1/topics/t/publishers/s%2F1?avoid="+first.address, 200, placed(first))
	p := start(t, c, nil)
	publish(t, p, "a")
	until(t, func() bool { return len(c.questions()) == 4 })
	first.with(func() { first.isDead = false })
	must(t, p.Close(t.Context()))
	equalAll(t, first.accepted(), []string{"a"})
}

func TestWithoutControllerAndBrokerItTriesBoth(t *testing.T) {
	first, _, c := startCluster(t, false)
	p := start(t, c, nil)
	publish(t, p, "a")
	must(t, p.Flush(t.Context()))
	c.fail()
	first.kill()
	until(t, func() bool { return p.Broker() == "" })
	publish(t, p, "b")
	first.with(func() { first.isDead = false })
	must(t, p.Flush(t.Context()))
	equal(t, p.Broker(), first.address)
	equalAll(t, first.accepted(), []string{"a", "b"})
}

func TestAnUnreachableTargetIsReportedAndTheOldBrokerKept(t *testing.T) {
	first, second, c := startCluster(t, false)
	second.with(func() { second.isDead = true })
	avoiding := "GET /v1/topics/t/publishers/s%2F1?avoid=" + second.address
	c.answer(avoiding, 200, placed(first))
	p := start(t, c, nil)
	publish(t, p, "a")
	must(t, p.Flush(t.Context()))
	first.send(migrate("t", second.address))
	until(t, func() bool { return c.last() == avoiding })
	publish(t, p, "b")
	must(t, p.Flush(t.Context()))
	equal(t, p.Broker(), first.address)
	equalAll(t, first.accepted(), []string{"a", "b"})
}

func TestARefusedMessageIsToldOnceAndNotSentAgain(t *testing.T) {
	first, _, c := startCluster(t, false)
	first.with(func() { first.refused, first.refusal = "bad", "E_BAD_MESSAGE PUB message too big" })
	p := start(t, c, nil)
	must(t, p.Publish(t.Context(), []byte("bad")))
	err := p.Flush(t.Context())
	var refused *RefusedError
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "too big") {
		t.Fatal(err)
	}
	publish(t, p, "good")
	must(t, p.Flush(t.Context()))
	equal(t, p.Traffic(), Traffic{Published: 2, Acknowledged: 1, Refused: 1})
	equalAll(t, first.accepted(), []string{"good"})
	equal(t, c.last(), "GET /v1/topics/t/publishers/s%2F1")
	for text, isRefusal := range map[string]bool{
		"E_PUB_FAILED PUB failed limit of 5 exceeded": true,
		"E_MPUB_FAILED MPUB failed exiting":           false,
		"E_INVALID who knows":                         false,
	} {
		equal(t, refuses(text), isRefusal)
	}
}

func TestAControllerMayRefuseForGood(t *testing.T) {
	_, _, c := startCluster(t, false)
	c.answer("POST /v1/topics/t/publishers", 400, `{"message":"too many publishers"}`)
	p := start(t, c, nil)
	// It may be told here already.
	_ = p.Publish(t.Context(), []byte("a"))
	err := p.Flush(t.Context())
	var notPlaced *NotPlacedError
	if !errors.As(err, &notPlaced) || !strings.Contains(err.Error(), "too many publishers") {
		t.Fatal(err)
	}
}

func TestAForgetfulControllerIsToldAgain(t *testing.T) {
	first, second, c := startCluster(t, false)
	p := start(t, c, nil)
	publish(t, p, "a")
	must(t, p.Flush(t.Context()))
	// It has forgotten everything, and has one broker left.
	c.forget()
	c.answer("POST /v1/topics/t/publishers", 200, `{"publishers":[`+placed(second)+`]}`)
	first.kill()
	publish(t, p, "b")
	must(t, p.Flush(t.Context()))
	equalAll(t, second.accepted(), []string{"b"})
}

func TestWhoOnlyAnnouncesGoesToTheTopicsFirstBroker(t *testing.T) {
	first, _, c := startCluster(t, false)
	c.forget()
	placement := fmt.Sprintf(`{"topic":"t","brokers":[{"broker":"b","tcp_address":%q}]}`, first.address)
	c.answer("GET /v1/topics/t/placement", 200, placement)
	p := start(t, c, func(o *Options) { o.Announced = true })
	publish(t, p, "a")
	must(t, p.Close(t.Context()))
	equalAll(t, first.accepted(), []string{"a"})
	equalAll(t, c.questions(), []string{"GET /v1/topics/t/publishers/s%2F1", "GET /v1/topics/t/placement"})
	if err := p.Publish(t.Context(), []byte("b")); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}

func TestTheWindowMakesPublishingWait(t *testing.T) {
	first, _, c := startCluster(t, false)
	first.with(func() { first.isMute = true })
	p := start(t, c, func(o *Options) { o.WindowMessages = 2 })
	publish(t, p, "a", "b")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := p.Publish(ctx, []byte("c")); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	equal(t, p.Unacknowledged(), 2)
	until(t, func() bool { return len(first.accepted()) == 2 })
	first.unmute()
	publish(t, p, "d")
	must(t, p.Close(t.Context()))
	equalAll(t, first.accepted(), []string{"a", "b", "d"})
}

func TestManyGoroutinesShareAPublisher(t *testing.T) {
	first, _, c := startCluster(t, false)
	p := start(t, c, func(o *Options) { o.WindowMessages = 7 })
	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			for number := range 50 {
				if err := p.Publish(t.Context(), fmt.Appendf(nil, "%d-%d", worker, number)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	must(t, p.Close(t.Context()))
	bodies := first.accepted()
	slices.Sort(bodies)
	equal(t, len(slices.Compact(bodies)), 200)
}

func TestHeartbeatsAreAnsweredAndBrokenBrokersLeft(t *testing.T) {
	first, second, c := startCluster(t, false)
	p := start(t, c, nil)
	until(t, func() bool { return p.Broker() == first.address })
	heartbeat := frame(frameResponse, []byte("_heartbeat_"))
	first.send(heartbeat)
	until(t, func() bool { return first.get(func() int { return first.nops }) == 1 })
	first.send(frame(frameResponse, []byte("OK")))
	until(t, func() bool { return p.Broker() == second.address })
	if !strings.Contains(p.Trouble(), "more acknowledged than was sent") {
		t.Fatal(p.Trouble())
	}
}

func TestWhatABrokerWouldRefuseIsNamed(t *testing.T) {
	for _, row := range []struct {
		field  string
		change func(*Options)
	}{
		{"Topic", func(o *Options) { o.Topic = "a b" }},
		{"Topic", func(o *Options) { o.Topic = strings.Repeat("x", 65) }},
		{"ID", func(o *Options) { o.ID = "" }},
		{"ID", func(o *Options) { o.ID = "a b" }},
		{"ID", func(o *Options) { o.ID = strings.Repeat("x", 129) }},
		{"Group", func(o *Options) { o.Group = strings.Repeat("x", 129) }},
		{"Rate", func(o *Options) { o.Rate = math.NaN() }},
		{"Rate", func(o *Options) { o.Rate = 1e10 }},
		{"Batch", func(o *Options) { o.Batch = -1 }},
		{"Heartbeat", func(o *Options) { o.Heartbeat = 1 }},
	} {
		options := Options{Controller: "c:1", Topic: "t", ID: "s"}
		row.change(&options)
		if _, err := Start(options); err == nil || !strings.HasPrefix(err.Error(), "srtm: "+row.field+" ") {
			t.Errorf("%s: %v", row.field, err)
		}
	}
	p := start(t, startController(t), nil)
	for _, bodies := range [][][]byte{nil, {[]byte("")}, {[]byte("a"), nil}} {
		if err := p.PublishBatch(t.Context(), bodies); !errors.Is(err, ErrEmpty) {
			t.Error(err)
		}
	}
}

func TestBrokenFramesAreRefused(t *testing.T) {
	for _, head := range [][]byte{{0, 0, 0, 3, 0, 0, 0, 0}, bytes.Repeat([]byte{0xff}, 8)} {
		if _, _, err := readFrame(bytes.NewReader(head)); !errors.Is(err, errFrame) {
			t.Error(err)
		}
	}
	for _, data := range []string{"", "\x00\x09t\x00\x01b", "\x00\x01t\x00\x02b", "\x00\x01t\x00\x01bb"} {
		if _, _, err := parseMigrate([]byte(data)); !errors.Is(err, errFrame) {
			t.Errorf("%q: %v", data, err)
		}
	}
	topic, address, err := parseMigrate([]byte("\x00\x01t\x00\x03b:1"))
	must(t, err)
	equal(t, topic+" "+address, "t b:1")
}

func TestOfSeveralControllersTheOneThatLeadsIsAsked(t *testing.T) {
	first, _, leader := startCluster(t, false)
	follower := startController(t)
	notLeading := fmt.Sprintf(`{"error":"this controller does not lead","leader":%q}`, leader.address)
	follower.answer("POST /v1/topics/t/publishers", 421, notLeading)
	// Nobody listens at the first.
	p := start(t, leader, func(o *Options) { o.Controller = "127.0.0.1:1, " + follower.address + "/" })
	publish(t, p, "m")
	must(t, p.Flush(t.Context()))
	first.kill()
	until(t, func() bool { return len(leader.questions()) > 1 })
	equal(t, len(follower.questions()), 1)
}

func TestWhereNobodyLeadsYetThePublisherAsksAgain(t *testing.T) {
	first, _, c := startCluster(t, false)
	c.answer("POST /v1/topics/t/publishers", 421, `{"error":"it does not know which one does"}`)
	p := start(t, c, nil)
	until(t, func() bool { return len(c.questions()) > 1 })
	c.answer("POST /v1/topics/t/publishers", 200, `{"publishers":[`+placed(first)+`]}`)
	publish(t, p, "m")
	must(t, p.Flush(t.Context()))
}
