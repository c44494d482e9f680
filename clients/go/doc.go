// Package srtm publishes to SRTM from Go, with the standard library alone.
//
// A [Publisher] asks a controller where to publish, follows when it is moved, and sends again what a broker that died
// had not acknowledged. It has a connection of its own instead of go-nsq's Producer: that one cannot announce a
// publisher in IDENTIFY, and takes the frames that the extension adds for errors.
//
// What a publisher may count on:
//
//   - A move loses and repeats nothing while both brokers live: the new connection is made first, what comes next goes
//     there, and the old one is closed when everything sent on it was acknowledged.
//   - When a broker dies, what it had not acknowledged is sent again elsewhere: at least once.
//   - Over a move or a death, later messages may arrive before earlier ones.
//   - At most WindowMessages messages and WindowBytes bytes wait for acknowledgements; then publishing waits.
//   - Without the controller it stays where it is; without its broker as well, it tries both.
//
// The buffer lives in memory; there is one topic and one active connection per publisher.
package srtm
