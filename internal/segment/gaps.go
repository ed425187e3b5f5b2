package segment

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// Gap is a run of sequence numbers of one writer that no name and no record accounts for, though a later one was
// sealed: those segments were removed, or their directory lost them. How many rows they had nobody knows.
type Gap struct {
	Writer   string `json:"writer"` // 12 hex digits
	First    uint64 `json:"first"`
	Last     uint64 `json:"last"`
	Reported bool   `json:"reported"` // the drain has logged it
}

func (g Gap) String() string {
	if g.First == g.Last {
		return fmt.Sprintf("number %d of writer %s", g.First, g.Writer)
	}
	return fmt.Sprintf("numbers %d to %d of writer %s", g.First, g.Last, g.Writer)
}

// tally is one writer of a Census.
type tally struct {
	here  []uint64 // numbers with a name in some state
	aside []uint64 // of them those in poison/ or stale/
	void  []Span   // marked by MarkVoid
	top   uint64   // the greatest with a name beyond active/
}

// Census is which sequence numbers the names in a lane account for.
type Census struct {
	writers map[string]*tally
	marks   []string // paths of the void marks
	counts  map[State]int
}

// Count is how many segments were in a state.
func (c Census) Count(st State) int { return c.counts[st] }

// Census lists the lane. What it finds is evidence for gaps if nothing but a writer and its recovery moves
// segments meanwhile; beside a running drain ask Gaps.
//
// The order matters. A writer makes the file of a number before it seals a later one, moves segments from active/
// to sealed/ only, and marks a number void before it removes the file. So the names that prove a number are
// listed first, then active/, then sealed/ again for what was moved meanwhile, then the marks.
func (l Lane) Census() (Census, error) {
	c := Census{writers: map[string]*tally{}, counts: map[State]int{}}
	for _, st := range []State{Sealed, Processing, Orphans, Stale, Poison, Committed, Active, Sealed} {
		entries, _, err := l.List(st)
		if err != nil {
			return Census{}, err
		}
		c.counts[st] = len(entries)
		for _, e := range entries {
			c.add(st, e.ID)
		}
	}
	return c, l.addVoids(&c)
}

func (c Census) add(st State, id ID) {
	t := c.writer(id.writer())
	t.here = append(t.here, id.Seq)
	if st == Poison || st == Stale {
		t.aside = append(t.aside, id.Seq)
	}
	// An open segment proves nothing about the numbers below: the one before may be made once more.
	if st != Active {
		t.top = max(t.top, id.Seq)
	}
}

func (c Census) writer(name string) *tally {
	t := c.writers[name]
	if t == nil {
		t = &tally{}
		c.writers[name] = t
	}
	return t
}

// Gaps returns what neither the census nor the record accounts for, the gaps in the record left out.
func (c Census) Gaps(n Numbers) []Gap {
	return gapsIn(c.missing(n))
}

func gapsIn(missing map[string]Spans) (out []Gap) {
	for _, writer := range sortedKeys(missing) {
		out = append(out, gapsOf(writer, missing[writer], false)...)
	}
	return out
}

func gapsOf(writer string, missing Spans, reported bool) []Gap {
	out := make([]Gap, len(missing))
	for i, s := range missing {
		out[i] = Gap{Writer: writer, First: s[0], Last: s[1], Reported: reported}
	}
	return out
}

// missing is Gaps by writer.
func (c Census) missing(n Numbers) map[string]Spans {
	out := map[string]Spans{}
	for writer, t := range c.writers {
		w := n.of(writer)
		known := w.Settled.With(w.Missing).With(SpansOf(t.here)).With(t.void)
		if m := upTo(max(t.top, w.Top)).Without(known); len(m) > 0 {
			out[writer] = m
		}
	}
	for _, w := range n.Writers { // those without a name any more
		if c.writers[w.Writer] == nil {
			if m := upTo(w.Top).Without(w.Settled.With(w.Missing)); len(m) > 0 {
				out[w.Writer] = m
			}
		}
	}
	return out
}

// Fold brings a record up to a census: gaps become missing, void numbers settled, and so what is set aside in
// poison/ and stale/, which was reported when it was and is an operator's to delete. It tells whether that is news.
func (n *Numbers) Fold(c Census) bool {
	missing := c.missing(*n)
	for _, writer := range sortedKeys(missing) {
		n.miss(writer, missing[writer])
	}
	changed := n.SettleCensus(c) || len(missing) > 0
	n.prune(c.writers)
	return changed
}

// SettleCensus settles what is void and what is set aside, and leaves gaps as they are. It tells whether that is news.
func (n *Numbers) SettleCensus(c Census) bool {
	changed := false
	for _, writer := range sortedKeys(c.writers) {
		t := c.writers[writer]
		aside := SpansOf(t.aside)
		if len(aside)+len(t.void) > 0 {
			changed = n.settle(writer, aside.With(t.void), aside.top()) || changed
		}
	}
	return changed
}

// Baseline is the record of a lane that has none, although it was drained: by a version that kept none, or the
// record was damaged. What is gone up to now is taken as retired.
func (c Census) Baseline() Numbers {
	var n Numbers
	for _, writer := range sortedKeys(c.writers) {
		t := c.writers[writer]
		n.settle(writer, upTo(t.top), t.top)
	}
	return n
}

// Drained tells whether rows of the lane may ever have been committed, and so segments retired: the drain writes
// head and owner before.
func (l Lane) Drained() (bool, error) {
	_, ok, err := l.Head()
	if ok || err != nil {
		return ok, err
	}
	owner, err := l.Owner()
	return owner != uuid.Nil, err
}

// gapTries is how often Gaps lists a lane before it calls something missing. A segment has to be moved back and
// forth at the same moment each time to be missed in all.
const gapTries = 3

// Gaps returns the gaps of a lane, the reported ones too, by writer and number. It changes nothing and may run beside a
// writer and a drain. A legacy lane has none: its writers are not ours.
//
//	errors  ErrRecord, ErrFormat as Numbers
func (l Lane) Gaps() ([]Gap, error) {
	if l.legacy {
		return nil, nil
	}
	missing, n, err := l.look()
	for try := 1; try < gapTries && len(missing) > 0 && err == nil; try++ {
		var again map[string]Spans
		again, n, err = l.look()
		for writer, m := range missing {
			missing[writer] = m.Without(m.Without(again[writer]))
		}
	}
	if err != nil {
		return nil, err
	}
	out := gapsIn(missing)
	for _, w := range n.Writers {
		out = append(out, gapsOf(w.Writer, w.Missing, true)...)
	}
	return out, nil
}

// look lists the lane and then reads the record: what is retired meanwhile is in it.
func (l Lane) look() (map[string]Spans, Numbers, error) {
	c, err := l.Census()
	if err != nil {
		return nil, Numbers{}, err
	}
	n, ok, err := l.Numbers()
	if err != nil {
		return nil, Numbers{}, err
	}
	if !ok {
		drained, err := l.Drained()
		if err != nil {
			return nil, Numbers{}, err
		}
		if drained {
			n = c.Baseline()
		}
	}
	n.SettleCensus(c)
	return c.missing(n), n, nil
}

const voidSuffix = ".void"

// MarkVoid says that a number will never be a segment, before its file without a row is removed or its damaged one
// set aside. Durable when it returns nil. Idempotent. The mark is an empty file <writer>-<first>-<last>.void in the
// lane's directory; the drain takes it into its record. An operator may make one to acknowledge a gap.
func (l Lane) MarkVoid(id ID) error {
	name := fmt.Sprintf("%s-%d-%d%s", id.writer(), id.Seq, id.Seq, voidSuffix)
	f, err := l.root.fs.Create(filepath.Join(l.dir, name))
	if err == nil {
		err = f.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("mark number %d of writer %s void: %w", id.Seq, id.writer(), err)
	}
	return l.root.fs.SyncDir(l.dir)
}

// addVoids lists the marks.
func (l Lane) addVoids(c *Census) error {
	entries, err := list(l.root.fs, l.dir)
	if err != nil {
		return fmt.Errorf("list lane %s: %w", l.Key(), err)
	}
	for _, e := range entries {
		if writer, s, ok := parseVoid(e.Name); ok && !e.IsDir {
			c.marks = append(c.marks, filepath.Join(l.dir, e.Name))
			t := c.writer(writer)
			t.void = append(t.void, s)
		}
	}
	for _, t := range c.writers {
		t.void = NewSpans(t.void...)
	}
	return nil
}

func parseVoid(name string) (writer string, s Span, ok bool) {
	text, ok := strings.CutSuffix(name, voidSuffix)
	part := strings.Split(text, "-")
	if !ok || len(part) != 3 || !isWriter(part[0]) {
		return "", Span{}, false
	}
	for i := range s {
		n, err := strconv.ParseUint(part[i+1], 10, 64)
		if err != nil || n == 0 || strconv.FormatUint(n, 10) != part[i+1] {
			return "", Span{}, false
		}
		s[i] = n
	}
	return part[0], s, s[0] <= s[1]
}

// RemoveVoids removes the marks of a census that is in the record. Not durable: one that comes back is taken into
// the record again, which changes nothing. Only the holder of drain.lock calls it.
func (l Lane) RemoveVoids(c Census) error {
	for _, path := range c.marks {
		if err := l.root.fs.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove void marks of lane %s: %w", l.Key(), err)
		}
	}
	return nil
}

// writer is the writer as text.
func (id ID) writer() string { return WriterName(id.Writer) }

// WriterName is a writer as names and reports have it: 12 hex digits.
func WriterName(w [6]byte) string { return hex.EncodeToString(w[:]) }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
