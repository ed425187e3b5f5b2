package lake

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// The proof is the table property siglake.consumed-proof: which segments a table has, how many rows of each, and
// from when on the list is complete. It is "1." and base64url without padding of
//
//	table uuid (16 bytes)
//	coverage, varint, Unix ms
//	writers, uvarint, and each of them (6 bytes)
//	commits, uvarint, oldest first, each: time, varint, ms since the previous commit's (the first: since coverage)
//	        entries, uvarint, each: writer number + 1, uvarint (0: the id is not of our form)
//	                our form:  time of the UUID, varint, ms since the commit; the UUID's other 10 bytes; sequence, uvarint
//	                otherwise: length, uvarint; the id
//	                rows, uvarint
//	CRC-32 (IEEE) of all before, 4 bytes little-endian
//
// About 22 characters per id. Nothing in it is ever guessed: what does not decode to the last byte is ErrProof.

const proofVersion = "1."

// skewMargin is how far the clocks of the machine that made a segment and of the one that commits it may differ
// before the coverage of the proof means nothing. A segment this close to the edge is looked up instead.
const skewMargin = 2 * time.Minute

// proof is a value; merge makes a new one.
type proof struct {
	table uuid.UUID
	// coverage: every id committed at or after it (Unix ms) is listed.
	coverage int64
	commits  []proofCommit // oldest first
}

type proofCommit struct {
	at      int64 // Unix ms
	entries []proofEntry
}

type proofEntry struct {
	id   string
	rows int64
}

// rows returns how many rows of each listed id are committed.
func (p proof) rows() map[string]int64 {
	out := map[string]int64{}
	for _, c := range p.commits {
		for _, e := range c.entries {
			out[e.id] = max(out[e.id], e.rows)
		}
	}
	return out
}

// covers tells whether a segment made at the given time would be listed had it ever been committed, by a list that is
// complete from coverage on (Unix ms; 0: there was no commit before).
func covers(coverage int64, made time.Time) bool {
	return made.UnixMilli() >= coverage+skewMargin.Milliseconds() || coverage == 0
}

// merge returns the proof after one more commit. Ids named again move to it with their new count. Beyond the bounds
// the oldest commits are dropped, and the coverage then starts after the newest of those dropped.
func (p proof) merge(at time.Time, entries []proofEntry, l limits) proof {
	named := make(map[string]struct{}, len(entries))
	for _, e := range entries {
		named[e.id] = struct{}{}
	}
	out := proof{table: p.table, coverage: p.coverage}
	total := len(entries)
	last := at.UnixMilli()
	for _, c := range p.commits {
		kept := slices.DeleteFunc(slices.Clone(c.entries), func(e proofEntry) bool {
			_, again := named[e.id]
			return again
		})
		last = max(last, c.at)
		if len(kept) > 0 {
			out.commits = append(out.commits, proofCommit{at: c.at, entries: kept})
			total += len(kept)
		}
	}
	out.commits = append(out.commits, proofCommit{at: last, entries: slices.Clone(entries)})
	for len(out.commits) > 1 && (total > l.proofEntries || out.size() > l.proofBytes) {
		total -= len(out.commits[0].entries)
		out.coverage = max(out.coverage, out.commits[0].at+1)
		out.commits = out.commits[1:]
	}
	return out
}

// size estimates the encoded length.
func (p proof) size() int {
	n := 64
	for _, c := range p.commits {
		n += 8
		for _, e := range c.entries {
			if _, own := parseOwnID(e.id); own {
				n += 18
			} else {
				n += len(e.id) + 4
			}
		}
	}
	return n * 4 / 3
}

// maxOwnID is the length of the longest id of our form: UUID, writer, 20 digits.
const maxOwnID = 36 + 1 + 12 + 1 + 20

func (p proof) encode() string {
	b := append([]byte(nil), p.table[:]...)
	b = binary.AppendVarint(b, p.coverage)
	writers := map[[6]byte]uint64{}
	var order [][6]byte
	for _, c := range p.commits {
		for _, e := range c.entries {
			if id, ok := parseOwnID(e.id); ok {
				if _, seen := writers[id.writer]; !seen {
					order = append(order, id.writer)
					writers[id.writer] = uint64(len(order))
				}
			}
		}
	}
	b = binary.AppendUvarint(b, uint64(len(order)))
	for _, w := range order {
		b = append(b, w[:]...)
	}
	b = binary.AppendUvarint(b, uint64(len(p.commits)))
	prev := p.coverage
	for _, c := range p.commits {
		b = binary.AppendVarint(b, c.at-prev)
		prev = c.at
		b = binary.AppendUvarint(b, uint64(len(c.entries)))
		for _, e := range c.entries {
			b = appendEntry(b, e, c.at, writers)
		}
	}
	b = binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	return proofVersion + base64.RawURLEncoding.EncodeToString(b)
}

func appendEntry(b []byte, e proofEntry, at int64, writers map[[6]byte]uint64) []byte {
	if id, ok := parseOwnID(e.id); ok {
		b = binary.AppendUvarint(b, writers[id.writer])
		b = binary.AppendVarint(b, id.made()-at)
		b = append(b, id.uuid[6:]...)
		b = binary.AppendUvarint(b, id.seq)
	} else {
		b = binary.AppendUvarint(b, 0)
		b = binary.AppendUvarint(b, uint64(len(e.id)))
		b = append(b, e.id...)
	}
	return binary.AppendUvarint(b, uint64(e.rows))
}

// decodeProof reads a proof. All errors are ErrProof.
func decodeProof(s string) (proof, error) {
	text, ok := strings.CutPrefix(s, proofVersion)
	if !ok {
		version, _, _ := strings.Cut(s, ".")
		return proof{}, fmt.Errorf("%w: version %.16q, this program reads %q", ErrProof, version, strings.TrimSuffix(proofVersion, "."))
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return proof{}, fmt.Errorf("%w: %w", ErrProof, err)
	}
	if len(b) < 16+4 || binary.LittleEndian.Uint32(b[len(b)-4:]) != crc32.ChecksumIEEE(b[:len(b)-4]) {
		return proof{}, fmt.Errorf("%w: wrong checksum", ErrProof)
	}
	r := proofReader{b: b[:len(b)-4]}
	p := r.proof()
	if r.err == nil && len(r.b) > 0 {
		r.err = errors.New("bytes after the end")
	}
	if r.err != nil {
		return proof{}, fmt.Errorf("%w: %w", ErrProof, r.err)
	}
	return p, nil
}

// proofReader takes values off b until something is wrong, and then returns zeros.
type proofReader struct {
	b   []byte
	err error
}

func (r *proofReader) fail(text string) {
	if r.err == nil {
		r.err, r.b = errors.New(text), nil
	}
}

func (r *proofReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail("bad number")
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *proofReader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail("bad number")
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *proofReader) bytes(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail("too short")
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *proofReader) proof() proof {
	var p proof
	copy(p.table[:], r.bytes(16))
	p.coverage = r.varint()
	var writers [][6]byte
	for range r.uvarint() {
		var w [6]byte
		if copy(w[:], r.bytes(6)); r.err != nil {
			return p
		}
		writers = append(writers, w)
	}
	at := p.coverage
	for range r.uvarint() {
		at += r.varint()
		c := proofCommit{at: at}
		for range r.uvarint() {
			e := r.entry(at, writers)
			if r.err != nil {
				return p
			}
			c.entries = append(c.entries, e)
		}
		if r.err != nil {
			return p
		}
		p.commits = append(p.commits, c)
	}
	return p
}

func (r *proofReader) entry(at int64, writers [][6]byte) proofEntry {
	var e proofEntry
	switch n := r.uvarint(); {
	case n == 0:
		e.id = string(r.bytes(r.uvarint()))
	case n > uint64(len(writers)):
		r.fail("unknown writer")
	default:
		id := ownID{writer: writers[n-1]}
		id.setMade(at + r.varint())
		copy(id.uuid[6:], r.bytes(10))
		id.seq = r.uvarint()
		e.id = id.String()
	}
	rows := r.uvarint()
	if e.rows = int64(rows); e.rows < 0 {
		r.fail("row count")
	}
	return e
}

// ownID is a segment id of the form <uuid>-<12 hex digits of the writer>-<sequence>.
type ownID struct {
	uuid   uuid.UUID
	writer [6]byte
	seq    uint64
}

// parseOwnID is true only for the one spelling that String makes.
func parseOwnID(s string) (ownID, bool) {
	var id ownID
	if len(s) < 36+1+12+1+1 || len(s) > maxOwnID || s[36] != '-' || s[49] != '-' {
		return id, false
	}
	var err error
	if id.uuid, err = uuid.Parse(s[:36]); err != nil {
		return id, false
	}
	if _, err = hex.Decode(id.writer[:], []byte(s[37:49])); err != nil {
		return id, false
	}
	if id.seq, err = strconv.ParseUint(s[50:], 10, 64); err != nil {
		return id, false
	}
	var b [maxOwnID]byte
	return id, string(id.append(b[:0])) == s
}

func (id ownID) String() string { return string(id.append(make([]byte, 0, maxOwnID))) }

// append is String for who has room: a commit spells each id of the proof several times.
func (id ownID) append(b []byte) []byte {
	for i, end := range []int{4, 6, 8, 10, 16} {
		from := []int{0, 4, 6, 8, 10}[i]
		b = append(hex.AppendEncode(b, id.uuid[from:end]), '-')
	}
	b = append(hex.AppendEncode(b, id.writer[:]), '-')
	return strconv.AppendUint(b, id.seq, 10)
}

// made is the time in the id, Unix ms: the first 48 bits of a version 7 UUID.
func (id ownID) made() int64 {
	return int64(binary.BigEndian.Uint64(append([]byte{0, 0}, id.uuid[:6]...)))
}

func (id *ownID) setMade(ms int64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(ms))
	copy(id.uuid[:6], b[2:])
}

// madeAt is when a segment came to be, as far as id and file tell: the earlier of the two. False if neither does.
func madeAt(s Segment) (time.Time, bool) {
	id, ok := parseOwnID(s.ID)
	if ok && id.uuid.Version() == 7 {
		made := time.UnixMilli(id.made())
		if !s.ModTime.IsZero() && s.ModTime.Before(made) {
			made = s.ModTime
		}
		return made, true
	}
	return s.ModTime, !s.ModTime.IsZero()
}
