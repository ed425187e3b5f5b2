package segment

import (
	"bytes"
	"os"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/vfs"
)

// LOUD-1: the bytes of owner, head and numbers.json; those of before they had a check are read too; and each flipped bit is
// damage, never another table or another number.
func TestRecords_every_flipped_bit(t *testing.T) {
	t.Parallel()
	table := uuid.MustParse("11111111-2222-4333-8444-555555555555")
	head := Head{Table: table, Sequence: 7, Metadata: "file:///w/00007.metadata.json"}
	for name, c := range map[string]struct {
		want  any
		write func(Lane) error
		read  func(Lane) (any, error)
	}{
		"owner": {table, func(l Lane) error { return l.WriteOwner(table) }, func(l Lane) (any, error) { return l.Owner() }},
		"head": {head, func(l Lane) error { return l.WriteHead(head) }, func(l Lane) (any, error) {
			h, _, err := l.Head()
			return h, err
		}},
		"numbers.json": {golden(t), func(l Lane) error { return l.WriteNumbers(golden(t)) }, func(l Lane) (any, error) {
			n, _, err := l.Numbers()
			return n, err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, l := simLaneOf(t)
			file := l.Path("", name)
			require.NoError(t, c.write(l))
			written, err := vfs.ReadFile(s, file)
			require.NoError(t, err)
			for _, form := range []string{name, unchecked[name]} {
				want, err := os.ReadFile("testdata/" + form)
				require.NoError(t, err)
				if form == name {
					require.Equal(t, string(want), string(written))
				}
				require.NoError(t, vfs.WriteFile(s, file, want))
				got, err := c.read(l)
				require.NoError(t, err, form)
				require.Equal(t, c.want, got, form)
			}
			for i := range len(written) * 8 {
				b := bytes.Clone(written)
				b[i/8] ^= 1 << (i % 8)
				require.NoError(t, vfs.WriteFile(s, file, b))
				_, err := c.read(l)
				require.ErrorIs(t, err, ErrRecord, "%q", b)
			}
			for n := range written {
				require.NoError(t, vfs.WriteFile(s, file, written[:n]))
				_, err := c.read(l)
				require.ErrorIs(t, err, ErrRecord, "%q", written[:n])
			}
		})
	}
}

// unchecked are the golden files of before.
var unchecked = map[string]string{"owner": "owner-unchecked", "head": "head-unchecked", "numbers.json": "numbers-unchecked.json"}
