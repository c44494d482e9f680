package srtm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Frame types of NSQ V2 and, from 16 on, of the SRTM extension.
const (
	frameResponse  = 0
	frameError     = 1
	frameAck       = 16
	frameMigrate   = 17
	frameThrottled = 18
)

// A publisher gets short frames only.
const maxFrameBytes = 1 << 20

var errFrame = errors.New("the broker broke the protocol")

// readFrame gives the next frame's type and data.
func readFrame(reader io.Reader) (uint32, []byte, error) {
	var head [8]byte
	if _, err := io.ReadFull(reader, head[:]); err != nil {
		return 0, nil, err
	}
	size, kind := binary.BigEndian.Uint32(head[:]), binary.BigEndian.Uint32(head[4:])
	if size < 4 || size > maxFrameBytes {
		return 0, nil, fmt.Errorf("%w: a frame of %d bytes", errFrame, size)
	}
	data := make([]byte, size-4)
	_, err := io.ReadFull(reader, data)
	return kind, data, err
}

// magic says that NSQ V2 follows.
const magic = "  V2"

// putIdentify appends IDENTIFY.
func putIdentify(out, body []byte) []byte {
	out = append(out, "IDENTIFY\n"...)
	return putBody(out, body)
}

// putAuth appends AUTH.
func putAuth(out []byte, token string) []byte {
	out = append(out, "AUTH\n"...)
	return putBody(out, []byte(token))
}

// putPublish appends PUB for one message, MPUB for several.
func putPublish(out []byte, topic string, bodies [][]byte) []byte {
	if len(bodies) == 1 {
		out = append(append(append(out, "PUB "...), topic...), '\n')
		return putBody(out, bodies[0])
	}
	out = append(append(append(out, "MPUB "...), topic...), '\n')
	size := 4
	for _, body := range bodies {
		size += 4 + len(body)
	}
	out = binary.BigEndian.AppendUint32(out, uint32(size))
	out = binary.BigEndian.AppendUint32(out, uint32(len(bodies)))
	for _, body := range bodies {
		out = putBody(out, body)
	}
	return out
}

func putBody(out, body []byte) []byte {
	out = binary.BigEndian.AppendUint32(out, uint32(len(body)))
	return append(out, body...)
}

// parseAck gives the messages accepted since IDENTIFY.
func parseAck(data []byte) (uint64, error) {
	if len(data) != 8 {
		return 0, fmt.Errorf("%w: an Ack of %d bytes", errFrame, len(data))
	}
	return binary.BigEndian.Uint64(data), nil
}

// parseMigrate gives topic and address.
func parseMigrate(data []byte) (topic, address string, err error) {
	texts := [2]string{}
	for i := range texts {
		if len(data) < 2 || len(data)-2 < int(binary.BigEndian.Uint16(data)) {
			return "", "", fmt.Errorf("%w: a Migrate that is too short", errFrame)
		}
		end := 2 + int(binary.BigEndian.Uint16(data))
		texts[i], data = string(data[2:end]), data[end:]
	}
	if len(data) > 0 {
		return "", "", fmt.Errorf("%w: a Migrate that is too long", errFrame)
	}
	return texts[0], texts[1], nil
}

// parseThrottled gives the microseconds that messages wait, and the topic.
func parseThrottled(data []byte) (retryAfterUs uint32, topic string, err error) {
	if len(data) < 5 {
		return 0, "", fmt.Errorf("%w: a Throttled of %d bytes", errFrame, len(data))
	}
	return binary.BigEndian.Uint32(data), string(data[4:]), nil
}
