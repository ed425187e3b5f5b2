package mirror

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

const recordFormat = 1

// record is the file mirror-retention.json of a root: since when segments with an object in the mirror are known to be
// committed. It proves nothing: the tables are asked again before an object goes. Without it every object waits once
// more.
type record struct {
	Format    int             `json:"format"`
	Committed []committedRuns `json:"committed"` // in order of time, then writer
}

// committedRuns are numbers of one writer that were first found committed at one time.
type committedRuns struct {
	At      time.Time     `json:"at"`
	Writer  string        `json:"writer"` // 12 hex digits
	Numbers segment.Spans `json:"numbers"`
}

// readRecord returns the record of a root, an empty one if it has none.
//
//	errors  segment.ErrRecord if it is damaged, segment.ErrFormat if a newer version wrote it
func readRecord(root *segment.Root) (sinces, error) {
	b, err := vfs.ReadFile(root.FS(), recordName(root))
	if errors.Is(err, fs.ErrNotExist) {
		return sinces{}, nil
	}
	if err != nil {
		return nil, err
	}
	return parseRecord(b)
}

func recordName(root *segment.Root) string {
	return filepath.Join(root.Dir(), segment.RetentionName)
}

func parseRecord(b []byte) (sinces, error) {
	var r record
	if err := segment.DecodeRecord(b, &r); err != nil {
		return nil, fmt.Errorf("read %s: %w", segment.RetentionName, err)
	}
	if r.Format > recordFormat {
		return nil, fmt.Errorf("read %s: %w: %d, this version knows %d", segment.RetentionName, segment.ErrFormat, r.Format, recordFormat)
	}
	if r.Format != recordFormat {
		return nil, fmt.Errorf("read %s: %w: format %d", segment.RetentionName, segment.ErrRecord, r.Format)
	}
	out := sinces{}
	for _, c := range r.Committed {
		var w [6]byte
		if n, err := hex.Decode(w[:], []byte(c.Writer)); err != nil || n != len(w) || segment.WriterName(w) != c.Writer {
			return nil, fmt.Errorf("read %s: %w: writer %.40q", segment.RetentionName, segment.ErrRecord, c.Writer)
		}
		for _, s := range c.Numbers {
			if s[0] < 1 || s[0] > s[1] {
				return nil, fmt.Errorf("read %s: %w: numbers %d to %d", segment.RetentionName, segment.ErrRecord, s[0], s[1])
			}
		}
		out[w] = append(out[w], since{at: c.At, numbers: segment.NewSpans(c.Numbers...)})
	}
	return out, nil
}

// since are numbers of one writer and when they were first found committed.
type since struct {
	at      time.Time
	numbers segment.Spans
}

// sinces is a record in memory, by writer.
type sinces map[[6]byte][]since

// of tells since when a segment is known to be committed.
func (s sinces) of(id segment.ID) (time.Time, bool) {
	for _, c := range s[id.Writer] {
		if c.numbers.Has(id.Seq) {
			return c.at, true
		}
	}
	return time.Time{}, false
}

// add takes in what was found at other times.
func (s sinces) add(found sightings) {
	for at, numbers := range found {
		runs := segment.SpansOf(numbers)
		for i, c := range s[at.writer] {
			if c.at.Equal(at.time()) {
				s[at.writer][i].numbers = c.numbers.With(runs)
				runs = nil
				break
			}
		}
		if runs != nil {
			s[at.writer] = append(s[at.writer], since{at: at.time(), numbers: runs})
		}
	}
}

// drop forgets a segment.
func (s sinces) drop(id segment.ID) {
	one := segment.SpansOf([]uint64{id.Seq})
	for i, c := range s[id.Writer] {
		if c.numbers.Has(id.Seq) {
			s[id.Writer][i].numbers = c.numbers.Without(one)
		}
	}
}

// shift moves all times: the clock was set.
func (s sinces) shift(by time.Duration) {
	for _, cs := range s {
		for i := range cs {
			cs[i].at = cs[i].at.Add(by)
		}
	}
}

// write replaces the record of a root. Durable when it returns nil; a crash leaves the old one or the new one. Only the
// holder of drain.lock calls it.
func (s sinces) write(root *segment.Root) error {
	r := record{Format: recordFormat, Committed: []committedRuns{}}
	for w, cs := range s {
		for _, c := range cs {
			if len(c.numbers) > 0 {
				r.Committed = append(r.Committed, committedRuns{At: c.at.UTC(), Writer: segment.WriterName(w), Numbers: c.numbers})
			}
		}
	}
	slices.SortFunc(r.Committed, func(a, b committedRuns) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Writer, b.Writer)) })
	b, err := segment.EncodeRecord(r)
	if err != nil {
		return fmt.Errorf("write %s: %w", segment.RetentionName, err)
	}
	return vfs.WriteFile(root.FS(), recordName(root), b)
}

// sightings collect numbers by writer and time.
type sightings map[sighting][]uint64

type sighting struct {
	writer [6]byte
	nanos  int64 // Unix
}

func (s sighting) time() time.Time { return time.Unix(0, s.nanos) }

func (s sightings) add(id segment.ID, at time.Time) {
	k := sighting{id.Writer, at.UnixNano()}
	s[k] = append(s[k], id.Seq)
}

// sinces is the record of nothing but these.
func (s sightings) sinces() sinces {
	out := sinces{}
	out.add(s)
	return out
}
