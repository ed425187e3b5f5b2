package segment

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

const (
	suffix        = ".arrow"
	partialSuffix = ".arrow.partial"

	uuidLen   = 36
	writerLen = 12 // hex digits
)

// ID names a segment for ever. IDs sort roughly by time; no age, order or cursor is derived from comparing them.
type ID struct {
	UUID   uuid.UUID // version 7
	Writer [6]byte   // fresh per process life and lane
	Seq    uint64    // gapless from 1 within the writer
}

// String returns <uuidv7>-<writer, 12 hex digits>-<seq, decimal>.
func (id ID) String() string {
	b := make([]byte, 0, uuidLen+1+writerLen+1+20)
	b = append(b, id.UUID.String()...)
	b = append(b, '-')
	b = hex.AppendEncode(b, id.Writer[:])
	b = append(b, '-')
	return string(strconv.AppendUint(b, id.Seq, 10))
}

// FileName is the name of the segment in every state but active.
func (id ID) FileName() string { return id.String() + suffix }

// PartialName is the name of the segment in active/.
func (id ID) PartialName() string { return id.String() + partialSuffix }

// ErrNotID says that a string is no segment id of ours.
var ErrNotID = errors.New("segment: not a segment name")

// ParseID is the inverse of ID.String. It accepts nothing that String does not return. ErrNotID otherwise.
func ParseID(s string) (ID, error) {
	id, ok := parseID(s)
	if !ok {
		return ID{}, fmt.Errorf("%w: %.80q", ErrNotID, s)
	}
	return id, nil
}

func parseID(s string) (ID, bool) {
	if len(s) < uuidLen+1+writerLen+2 || s[uuidLen] != '-' {
		return ID{}, false
	}
	u, err := uuid.Parse(s[:uuidLen])
	if err != nil || u.Version() != 7 || u.Variant() != uuid.RFC4122 {
		return ID{}, false
	}
	id := ID{UUID: u}
	writer, seq, ok := strings.Cut(s[uuidLen+1:], "-")
	if !ok || len(writer) != writerLen {
		return ID{}, false
	}
	if _, err := hex.Decode(id.Writer[:], []byte(writer)); err != nil {
		return ID{}, false
	}
	id.Seq, err = strconv.ParseUint(seq, 10, 64)
	if err != nil || id.Seq == 0 || id.String() != s { // upper case, leading zeros, signs
		return ID{}, false
	}
	return id, true
}

// ParseName reads a file name: <id>.arrow, or <id>.arrow.partial with partial true. ErrNotID otherwise.
func ParseName(file string) (id ID, partial bool, err error) {
	s, partial := strings.CutSuffix(file, partialSuffix)
	if !partial {
		var ok bool
		if s, ok = strings.CutSuffix(file, suffix); !ok {
			return ID{}, false, fmt.Errorf("%w: %.80q", ErrNotID, file)
		}
	}
	id, err = ParseID(s)
	return id, partial, err
}
