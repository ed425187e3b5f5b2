package segment

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"syscall"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/siglakecol/siglakecol/internal/frame"
)

// kindKey is the key of a schema's metadata that says what the rows are; internal/otelarrow writes it.
const kindKey = "siglake.signal"

// kinds are what rows may be.
func kinds() []string { return []string{"logs", "traces", "metrics"} }

// KindOf returns what the rows under a schema are: logs, traces or metrics; "" where it says nothing that this version knows.
func KindOf(s *arrow.Schema) string {
	kind, _ := s.Metadata().GetValue(kindKey)
	if !slices.Contains(kinds(), kind) {
		return ""
	}
	return kind
}

// KindOfIndex returns what the rows of an index are where its name says so; "" for a user index.
func KindOfIndex(index string) string {
	switch index {
	case "events":
		return "logs"
	case "spans":
		return "traces"
	case "metrics":
		return "metrics"
	}
	return ""
}

// Kind reads what the rows of one segment are, from its schema; "" where it does not say, or is damaged or gone.
//
//	errors  trouble with the storage
func (l Lane) Kind(st State, e Entry) (kind string, err error) {
	f, err := l.root.fs.Open(l.Path(st, e.Name))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil // it has moved on
	}
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // opened for reading
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	schema, err := frame.ReadSchema(f, info.Size, frame.DecodeOptions{Open: st == Active})
	_, corrupt := errors.AsType[*frame.CorruptError](err)
	switch {
	case corrupt, errors.Is(err, frame.ErrEmpty), errors.Is(err, frame.ErrTooBig), errors.Is(err, frame.ErrVersion),
		errors.Is(err, syscall.EIO): // a disk that cannot return the bytes
		return "", nil
	case err != nil:
		return "", err
	case e.ID.CheckName(schema) != nil:
		return "", nil
	}
	return KindOf(schema), nil
}

// said is what the segments of the lane say that its rows are, and the one that says it; empty if none does. The newest of each
// state is asked. Of those that contradict each other one in a table counts for more than one that waits.
func (l Lane) said() (kind, from string, err error) {
	var trouble error
	found := map[State]Entry{}
	kindIn := map[State]string{}
	for _, st := range ranked() { // as segments pass through them, so that none is carried past us
		entries, _, err := l.List(st)
		if err != nil {
			return "", "", err
		}
		if len(entries) == 0 {
			continue
		}
		found[st] = entries[len(entries)-1]
		if kindIn[st], err = l.Kind(st, found[st]); err != nil {
			trouble = cmp.Or(trouble, fmt.Errorf("ask %s what the rows of the lane are: %w", l.Path(st, found[st].Name), err))
		}
	}
	for _, st := range []State{Committed, Processing, Orphans, Sealed, Active, Stale, Poison} {
		if kindIn[st] != "" {
			return kindIn[st], path.Join(string(st), found[st].Name), nil
		}
	}
	return "", "", trouble
}
