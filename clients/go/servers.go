package srtm

import (
	"slices"
	"strings"
	"sync"
)

// Leaders outside of the list that one question is led to at most.
const maxStrangers = 4

// servers are controllers of which one leads. Whoever answered last is asked first.
type servers struct {
	bases  []string
	scheme string
	mutex  sync.Mutex
	last   string
}

// newServers takes a list with commas between the addresses.
func newServers(addresses, scheme string) *servers {
	var bases []string
	for address := range strings.SplitSeq(addresses, ",") {
		if address = strings.TrimSpace(address); address != "" {
			bases = append(bases, withScheme(address, scheme))
		}
	}
	if len(bases) == 0 {
		bases = []string{withScheme("", scheme)}
	}
	return &servers{bases: bases, scheme: scheme, last: bases[0]}
}

// turn begins one question's way through them.
func (s *servers) turn() *turn {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	place := max(slices.Index(s.bases, s.last), 0)
	toAsk := []string{s.last}
	for _, base := range slices.Concat(s.bases[place:], s.bases[:place]) {
		if base != s.last {
			toAsk = append(toAsk, base)
		}
	}
	return &turn{toAsk: toAsk, scheme: s.scheme}
}

// answered notes that this one has answered.
func (s *servers) answered(base string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.last = base
}

// turn says who is to be asked next; nobody twice.
type turn struct {
	toAsk, asked []string
	strangers    int
	scheme       string
}

// next is empty where all were asked.
func (t *turn) next() string {
	if len(t.toAsk) == 0 {
		return ""
	}
	base := t.toAsk[0]
	t.toAsk = t.toAsk[1:]
	t.asked = append(t.asked, base)
	return base
}

// ledTo puts the leader first that the one asked last has named.
func (t *turn) ledTo(leader string) {
	base := withScheme(leader, t.scheme)
	if slices.Contains(t.asked, base) {
		return
	}
	if place := slices.Index(t.toAsk, base); place >= 0 {
		t.toAsk = slices.Delete(t.toAsk, place, place+1)
	} else if t.strangers++; t.strangers > maxStrangers {
		return
	}
	t.toAsk = slices.Insert(t.toAsk, 0, base)
}

func withScheme(address, scheme string) string {
	base := strings.TrimRight(address, "/")
	if strings.Contains(base, "://") {
		return base
	}
	return scheme + "://" + base
}
