package drain

import (
	"hash/crc32"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/otelarrow"
	"github.com/siglakecol/siglakecol/internal/segment"
)

// LAKE-1, LOUD-1: a file that was copied under another segment's name goes to poison/: its rows would be in the table twice.
func TestOnce_a_copy_under_another_name(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	schema, err := frame.EncodeSchema(otelarrow.WALSchema(otelarrow.Logs))
	require.NoError(t, err)
	copied := w.namer("events").Next(time.Now())
	named, err := frame.EncodeSchema(copied.Name(otelarrow.WALSchema(otelarrow.Logs)))
	require.NoError(t, err)
	rename := func(b []byte) []byte {
		body := append(named, b[frame.HeaderSize+len(schema):]...)
		h := frame.Header{Table: uuid.Nil, BodyLen: uint64(len(body)), CRC: crc32.ChecksumIEEE(body)}.Encode()
		return append(h[:], body...)
	}
	w.seal(spec{name: copied.FileName(), mangle: rename})
	copyOf := w.seal(spec{mangle: rename})
	w.seal(spec{})
	w.forget(copyOf)
	require.Equal(t, Report{Lanes: 1, Segments: 2, Rows: 6, Poisoned: 1}, w.once())
	w.accounted()
	require.Equal(t, []string{copyOf}, w.in("events", segment.Poison))
	note, err := w.lane("events").ReadNote(copyOf)
	require.NoError(t, err)
	require.Contains(t, note.Reason, copied.String())
}
