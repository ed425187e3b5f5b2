package segment

import (
	"crypto/rand"
	"encoding/binary"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Namer gives out the ids of one writer. Safe for use by many goroutines.
type Namer struct {
	writer [6]byte
	mu     sync.Mutex
	last   stamp  // of the newest id
	seq    uint64 // of the newest id
}

// NewNamer returns the Namer of a writer that has named nothing yet. The writer must be fresh: random, and not
// used by any other process life or lane.
func NewNamer(writer [6]byte) *Namer { return &Namer{writer: writer} }

// Next returns the next id: seq one higher than the last, UUID the later of now and last + 1, so ids of one
// writer sort in the order given out even when the clock steps back.
func (n *Namer) Next(now time.Time) ID {
	n.mu.Lock()
	defer n.mu.Unlock()
	st := newStamp(now)
	if !n.last.less(st) {
		st = n.last.next()
	}
	n.last = st
	n.seq++
	return ID{UUID: st.uuid(), Writer: n.writer, Seq: n.seq}
}

// stamp is the payload of a version 7 UUID as one 122 bit number: the 48 bits of the millisecond and the 12
// random bits beside it, then the 62 random bits of the second half.
type stamp struct{ hi, lo uint64 }

const (
	hiBits = 60
	loBits = 62
)

func newStamp(now time.Time) stamp {
	var b [10]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	ms := uint64(max(now.UnixMilli(), 0))
	return stamp{
		hi: (ms<<12 | uint64(binary.BigEndian.Uint16(b[8:]))&0xfff) & (1<<hiBits - 1),
		lo: binary.BigEndian.Uint64(b[:]) & (1<<loBits - 1),
	}
}

func (s stamp) less(o stamp) bool { return s.hi < o.hi || s.hi == o.hi && s.lo < o.lo }

func (s stamp) next() stamp {
	if s.lo++; s.lo == 1<<loBits {
		s.lo = 0
		s.hi++
	}
	return s
}

func (s stamp) uuid() uuid.UUID {
	var u uuid.UUID
	binary.BigEndian.PutUint64(u[:8], s.hi>>12<<16|0x7000|s.hi&0xfff)
	binary.BigEndian.PutUint64(u[8:], 1<<63|s.lo)
	return u
}
