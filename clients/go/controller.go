package srtm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// Longest wait for an answer; with many publishers registering at once a controller needs a while.
const controllerTimeout = 10 * time.Second

const maxAnswerBytes = 1 << 20

// errUnknown says that the controller does not know the publisher (404).
var errUnknown = errors.New("the controller does not know the publisher")

// NotPlacedError says that the controller will not place the publisher, and why; trying again is of no use.
type NotPlacedError struct{ Reason string }

func (e *NotPlacedError) Error() string { return "srtm: " + e.Reason }

// controller is its HTTP, as far as publishers need it.
type controller struct {
	options Options
	servers *servers
	client  *http.Client
}

type brokerAddress struct {
	TCPAddress string `json:"tcp_address"`
}

type publisherView struct {
	ID     string         `json:"id"`
	Broker *brokerAddress `json:"broker"`
}

func newController(options Options) *controller {
	client, scheme := &http.Client{Timeout: controllerTimeout}, "http"
	if options.TLS != nil {
		client.Transport = &http.Transport{TLSClientConfig: options.TLS.Clone(), Proxy: http.ProxyFromEnvironment}
		scheme = "https"
	}
	return &controller{options: options, servers: newServers(options.Controller, scheme), client: client}
}

// register declares the publisher and gives its broker's address; empty while it has none.
func (c *controller) register(ctx context.Context) (string, error) {
	body, err := json.Marshal(map[string]any{"publishers": []declaration{c.options.declaration()}})
	if err != nil {
		return "", err
	}
	var answer struct {
		Publishers []publisherView `json:"publishers"`
	}
	if err := c.ask(ctx, http.MethodPost, "/publishers", body, &answer); err != nil {
		return "", err
	}
	if len(answer.Publishers) == 0 {
		return "", errors.New("the controller's answer names no publisher")
	}
	return answer.Publishers[0].address()
}

// place gives the broker's address; empty while there is none. avoid is one that did not answer.
func (c *controller) place(ctx context.Context, avoid string) (string, error) {
	path := "/publishers/" + url.PathEscape(c.options.ID)
	if avoid != "" {
		path += "?avoid=" + url.QueryEscape(avoid)
	}
	var view publisherView
	err := c.ask(ctx, http.MethodGet, path, nil, &view)
	if errors.Is(err, errUnknown) && c.options.Announced {
		return c.firstBroker(ctx)
	}
	if err != nil {
		return "", err
	}
	return view.address()
}

func (c *controller) firstBroker(ctx context.Context) (string, error) {
	var answer struct {
		Brokers []brokerAddress `json:"brokers"`
	}
	err := c.ask(ctx, http.MethodGet, "/placement", nil, &answer)
	if err != nil || len(answer.Brokers) == 0 {
		return "", err
	}
	return answer.Brokers[0].TCPAddress, nil
}

// ask gets the answer of the first that answers and leads, each within the time that there is.
func (c *controller) ask(ctx context.Context, method, path string, body []byte, answer any) error {
	target := "/v1/topics/" + url.PathEscape(c.options.Topic) + path
	turn := c.servers.turn()
	failure := errors.New("no controller was asked")
	for base := turn.next(); base != "" && ctx.Err() == nil; base = turn.next() {
		request, err := http.NewRequestWithContext(ctx, method, base+target, bytes.NewReader(body))
		if err != nil {
			return &NotPlacedError{Reason: err.Error()}
		}
		status, content, err := c.exchange(request)
		switch {
		case err != nil:
			failure = err
		case status == http.StatusMisdirectedRequest:
			failure = judge(status, content, answer)
			if leader := leaderOf(content); leader != "" {
				turn.ledTo(leader)
			}
		default:
			c.servers.answered(base)
			return judge(status, content, answer)
		}
	}
	return failure
}

func (c *controller) exchange(request *http.Request) (status int, content []byte, err error) {
	request.Header.Set("Content-Type", "application/json")
	if c.options.Token != "" {
		request.Header.Set("Authorization", "Bearer "+c.options.Token)
	}
	response, err := c.client.Do(request)
	if err != nil {
		return 0, nil, fmt.Errorf("the controller is out of reach: %w", err)
	}
	defer response.Body.Close()
	content, err = io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	if err != nil {
		return 0, nil, fmt.Errorf("the controller's answer broke off: %w", err)
	}
	return response.StatusCode, content, nil
}

// leaderOf is the URL that a controller names which does not lead; empty where it knows none.
func leaderOf(content []byte) string {
	var said struct{ Leader string }
	// What is no JSON names nobody.
	_ = json.Unmarshal(content, &said)
	return said.Leader
}

func judge(status int, content []byte, answer any) error {
	switch {
	case status >= 200 && status < 300:
		return json.Unmarshal(content, answer)
	case status == http.StatusNotFound:
		return errUnknown
	}
	var said struct{ Message, Error string }
	// What is no JSON has no reason to tell.
	_ = json.Unmarshal(content, &said)
	reason := fmt.Sprintf("the controller answered %d: %s%s", status, said.Message, said.Error)
	isLater := status == http.StatusRequestTimeout || status == http.StatusTooManyRequests
	passes := status >= 500 || isLater || status == http.StatusMisdirectedRequest
	if passes || status < 400 {
		return errors.New(reason)
	}
	return &NotPlacedError{Reason: reason}
}

func (v publisherView) address() (string, error) {
	switch {
	case v.ID == "":
		return "", errors.New("the controller's answer names no publisher")
	case v.Broker == nil:
		return "", nil
	}
	return v.Broker.TCPAddress, nil
}
