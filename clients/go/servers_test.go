package srtm

import (
	"fmt"
	"testing"
)

func rest(t *turn) (bases []string) {
	for base := t.next(); base != ""; base = t.next() {
		bases = append(bases, base)
	}
	return bases
}

func TestAllAreAskedInTurnFromTheOneThatAnsweredLast(t *testing.T) {
	s := newServers("a:1, http://b:2/,c:3,", "http")
	equalAll(t, rest(s.turn()), []string{"http://a:1", "http://b:2", "http://c:3"})
	s.answered("http://b:2")
	equalAll(t, rest(s.turn()), []string{"http://b:2", "http://c:3", "http://a:1"})
	equalAll(t, rest(newServers("", "http").turn()), []string{"http://"})
	equalAll(t, rest(newServers("a:1,http://b:2", "https").turn()), []string{"https://a:1", "http://b:2"})
}

func TestTheLeaderIsNextAndNobodyIsAskedTwice(t *testing.T) {
	s := newServers("a,b,c", "http")
	one := s.turn()
	equal(t, one.next(), "http://a")
	one.ledTo("c")
	equal(t, one.next(), "http://c")
	one.ledTo("http://a/")
	one.ledTo("http://d")
	equalAll(t, rest(one), []string{"http://d", "http://b"})
	s.answered("http://d")
	equalAll(t, rest(s.turn()), []string{"http://d", "http://a", "http://b", "http://c"})
}

func TestControllersThatNameEverOthersEnd(t *testing.T) {
	one, asked := newServers("a", "http").turn(), 0
	for one.next() != "" {
		asked++
		one.ledTo(fmt.Sprintf("x%d", asked))
	}
	equal(t, asked, 1+maxStrangers)
}
