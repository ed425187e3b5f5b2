package drain

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

func TestJoined_says_each_thing_once(t *testing.T) {
	t.Parallel()
	require.NoError(t, Joined(nil, errors.Join()))
	a := func() error { return fmt.Errorf("open table: %w", io.ErrUnexpectedEOF) }
	both := fmt.Errorf("%w: %w", io.EOF, io.ErrNoProgress)
	err := Joined(errors.Join(a(), errors.Join(a(), both)), nil, a(), both)
	require.EqualError(t, err, a().Error()+"\n"+both.Error())
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.ErrorIs(t, err, io.ErrNoProgress)
}

// A record of a lane that is damaged stops the lane with an error that names it, once however many segments meet it. Moved away,
// the drain goes on, and no row is lost or doubled.
func TestOnce_names_a_damaged_record_once(t *testing.T) {
	flipped := func(b []byte) []byte { b[len(b)/3] ^= 1; return b } // still a UUID, in either
	garbage := func([]byte) []byte { return []byte("garbage") }
	for _, c := range []struct {
		how    string
		name   string
		damage func([]byte) []byte
	}{
		{"garbage", "owner", garbage},
		{"garbage", "head", garbage},
		{"one_bit", "owner", flipped},
		{"one_bit", "head", flipped},
	} {
		name := c.name
		t.Run(name+"/"+c.how, func(t *testing.T) {
			w := onDisk(t)
			for range 4 {
				w.seal(spec{})
			}
			w.once()
			for _, id := range w.in("events", segment.Committed) { // to be retired, and asked for in the table before
				w.age(w.lane("events").Path(segment.Committed, id), 48*time.Hour)
			}
			w.seal(spec{})
			file := w.lane("events").Path("", name)
			b, err := vfs.ReadFile(w.fs, file)
			require.NoError(t, err)
			require.NoError(t, vfs.WriteFile(w.fs, file, c.damage(b)))
			err = w.once().Failures["default/events"]
			require.ErrorContains(t, err, "restore it, or move it out of the log")
			require.Equal(t, 1, strings.Count(err.Error(), file), err)
			require.NoError(t, w.fs.Remove(file))
			require.Empty(t, w.once().Failures)
			w.accounted()
			require.Equal(t, map[segment.State]int{segment.Committed: 1}, w.states("events"))
		})
	}
}
