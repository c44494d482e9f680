// Package srtm publishes to SRTM from Go, with only the standard library.
//
// A [Publisher] asks a controller where to publish and follows when it is moved. When a broker dies, it sends the
// unacknowledged messages again. It has a connection of its own because go-nsq's Producer cannot declare a publisher in
// IDENTIFY, and mistakes the frames of the extension for errors.
//
// What a publisher may count on:
//
//   - A move loses and repeats nothing while both brokers live. The publisher makes the new connection first, sends the
//     next messages there, and closes the old connection when everything sent on it was acknowledged.
//   - When a broker dies, the publisher sends the unacknowledged messages again elsewhere: delivery is at least once.
//   - Over a move or a death, later messages may arrive before earlier ones.
//   - At most WindowMessages messages and WindowBytes bytes wait for acknowledgements; then publishing waits.
//   - Without the controller it stays where it is; without its broker as well, it tries both.
//
// The buffer is in memory. There is one topic and one active connection per publisher.
package srtm
