package lake

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"
)

// strayMargin is how much older than the best state a data file may be that it does not know and a commit after it had:
// files are written before their commit.
const strayMargin = 10 * time.Minute

// Stray is a data file of the table that no state names to which the catalog can be set.
type Stray struct {
	Path string
	Rows int64  // that the table lacks
	Why  string // it is not added; empty: it is
}

// stray is a data file that may be added.
type stray struct {
	path    string
	made    time.Time
	day     int32
	size    int64
	meta    *metadata.FileMetaData
	rows    map[string]runs // by segment
	foreign int64           // rows that came from no segment
}

func (s *stray) lacks(have map[string]runs) (n int64) {
	for id, r := range s.rows {
		n += r.size() - r.common(have[id])
	}
	return n
}

// strays are data files of commits that came after the best state and that it does not have.
func (p *Past) strays(ctx context.Context) ([]*stray, error) {
	at, err := plain(p.best.Location())
	if err != nil {
		return nil, err
	}
	known := map[string]struct{}{}
	if snap := p.best.CurrentSnapshot(); snap != nil {
		for df, err := range p.lake.liveFiles(snap) {
			if err != nil {
				return nil, err
			}
			name, err := plain(df.FilePath())
			if err != nil {
				return nil, err
			}
			known[name] = struct{}{}
		}
	}
	since := time.UnixMilli(p.since()).Add(-strayMargin)
	var out []*stray
	err = p.lake.io.WalkDir(at, func(name string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case isAbsent(err):
			return nil
		case err != nil || d.IsDir():
			return err
		}
		made, day, ok := ownFile(name)
		if _, has := known[name]; has || !ok || made.Before(since) || !within(name, at) {
			return nil
		}
		info, err := d.Info()
		if isAbsent(err) {
			return nil
		}
		if err != nil {
			return err
		}
		location := strings.TrimSuffix(p.best.Location(), "/") + name[len(at):]
		out = append(out, &stray{path: location, made: made, day: day, size: info.Size()})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the files at %s: %w", at, err)
	}
	slices.SortFunc(out, func(a, b *stray) int { return b.made.Compare(a.made) })
	return out, nil
}

// ownFile reads the name of a data file of ours: when it was made, and the day of its rows.
func ownFile(name string) (made time.Time, day int32, ok bool) {
	base, is := strings.CutSuffix(path.Base(name), ".parquet")
	base = strings.TrimPrefix(base, "merged-")
	_, date, has := strings.Cut(path.Base(path.Dir(name)), "=")
	at, err := time.Parse(time.DateOnly, date)
	if !is || !has || err != nil || len(base) < 36 {
		return time.Time{}, 0, false
	}
	id, err := uuid.Parse(base[:36])
	if err != nil || id.Version() != 7 {
		return time.Time{}, 0, false
	}
	sec, nsec := id.Time().UnixTime()
	return time.Unix(sec, nsec), int32(at.Unix() / 86400), true
}

// read fills in what rows a file has; why not, if it cannot be added.
//
//	errors  the warehouse did not answer
func (p *Past) read(ctx context.Context, s *stray) (why string, err error) {
	positions := map[string][]int64{}
	s.meta, err = p.lake.eachSegmentRow(ctx, s.path, p.best.Schema(), func(ids *array.String, rows *array.Int64) {
		for i := range ids.Len() {
			if ids.IsNull(i) || rows.IsNull(i) {
				s.foreign++
				continue
			}
			id := ids.Value(i)
			positions[id] = append(positions[id], rows.Value(i))
		}
	})
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil && !readable(p.lake, s.path):
		return "", fmt.Errorf("read %s: %w", s.path, err)
	case err != nil: // torn by a kill, so no commit had it
		return fmt.Sprintf("it is no whole Parquet file: %v", err), nil
	}
	s.rows = make(map[string]runs, len(positions))
	for id, at := range positions {
		s.rows[id] = runsOf(at)
	}
	root := s.meta.Schema.Root()
	for i := range root.NumFields() {
		f := root.Field(i)
		if have, ok := p.best.Schema().FindFieldByID(int(f.FieldID())); !ok || have.Name != f.Name() {
			return fmt.Sprintf("the table has no column %s of field id %d", f.Name(), f.FieldID()), nil
		}
	}
	return "", nil
}

// FindStrays finds the data files whose rows the best state lacks and that can be made part of it as they are: all of whose rows
// are missing, and of each segment none before them. Lookup counts their rows as committed from then on. It changes nothing.
//
//	errors  the warehouse did not answer
//	ctx     ends it
func (p *Past) FindStrays(ctx context.Context) error {
	if p.best == nil || p.Reaches || p.Standing == Fits {
		return nil
	}
	found, err := p.strays(ctx)
	if err != nil {
		return err
	}
	var files []*stray
	ids := map[string]struct{}{}
	for _, s := range found {
		why, err := p.read(ctx, s)
		if err != nil {
			return err
		}
		if why != "" {
			p.Strays = append(p.Strays, Stray{Path: s.path, Why: why})
			continue
		}
		if s.foreign > 0 {
			p.Strays = append(p.Strays, Stray{Path: s.path, Rows: s.foreign, Why: "it has rows that came from no segment"})
			continue
		}
		files = append(files, s)
		for id := range s.rows {
			ids[id] = struct{}{}
		}
	}
	committed, err := p.Lookup(ctx, slices.Sorted(maps.Keys(ids)))
	if err != nil {
		return err
	}
	have := make(map[string]runs, len(ids))
	for id, n := range committed {
		have[id] = runs{{0, n}}
	}
	p.add, p.added = p.fitting(files, have)
	for _, s := range p.add {
		p.Strays = append(p.Strays, Stray{Path: s.path, Rows: s.lacks(have)})
	}
	return nil
}

// fitting chooses the files, and returns how many rows of each segment the table has with them. What is left out though it has
// rows that are then missing is noted.
func (p *Past) fitting(files []*stray, have map[string]runs) (chosen []*stray, rows map[string]int64) {
	left := map[*stray]string{}
	all := maps.Clone(have)
	for _, s := range files {
		size := int64(0)
		for _, r := range s.rows {
			size += r.size()
		}
		switch lacks := s.lacks(all); {
		case lacks < size: // also of a commit that was made once more, or merged into another file
			left[s] = "some of its rows are in the table or in another file"
		case size > 0:
			chosen = append(chosen, s)
			s.join(all)
		}
	}
	for n := -1; n != len(chosen); {
		n = len(chosen)
		chosen = slices.DeleteFunc(chosen, func(s *stray) bool {
			for id, r := range s.rows {
				if gap, whole := all[id].gap(); !whole && r[len(r)-1][1] > gap {
					left[s] = fmt.Sprintf("row %d of segment %s, before its rows, is missing", gap, id)
					return true
				}
			}
			return false
		})
		all = maps.Clone(have)
		for _, s := range chosen {
			s.join(all)
		}
	}
	for _, s := range files {
		if lacks := s.lacks(all); left[s] != "" && lacks > 0 {
			p.Strays = append(p.Strays, Stray{Path: s.path, Rows: lacks, Why: left[s]})
			for id, r := range s.rows {
				p.Named[id] = max(p.Named[id], r[len(r)-1][1])
			}
		}
	}
	rows = map[string]int64{}
	for _, s := range chosen {
		for id := range s.rows {
			rows[id], _ = all[id].gap()
		}
	}
	return chosen, rows
}

// join adds the rows of the file.
func (s *stray) join(all map[string]runs) {
	for id, r := range s.rows {
		all[id] = all[id].with(r)
	}
}

// AddStrays makes the files that FindStrays found part of the table, in one commit that names their segments in the proof.
//
//	durable  on return of nil
//	safe     to look and call again after any error: a commit that landed has the files
//	errors   the catalog shows another state by now; trouble with it
//	ctx      ends it before the commit is sent
//	holds    LAKE-1
func (p *Past) AddStrays(ctx context.Context) error {
	if len(p.add) == 0 {
		return nil
	}
	t, err := p.lake.ofSignal(ctx, p.id)
	if err == nil && t == nil {
		err = errors.New("it is no table of rows of a signal")
	}
	if err != nil {
		return err
	}
	t = &Table{lake: p.lake, id: p.id, uuid: t.uuid, signal: t.signal} // one that expects nothing
	st, err := t.load(ctx)
	if err != nil {
		return err
	}
	if at := st.tbl.MetadataLocation(); at != p.Have.Metadata {
		return fmt.Errorf("the catalog shows %s of %s by now and not %s: somebody else writes to it; stop that and run it again", at, p.Table, p.Have.Metadata)
	}
	tx, tg, err := t.begin(st)
	if err != nil {
		return err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("make a commit id: %w", err)
	}
	files := make([]iceberg.DataFile, len(p.add))
	for i, s := range p.add {
		if files[i], err = tg.dataFile(s.path, s.meta, s.size, s.day); err != nil {
			return err
		}
	}
	var entries []proofEntry
	for _, segment := range slices.Sorted(maps.Keys(p.added)) {
		entries = append(entries, proofEntry{id: segment, rows: p.added[segment]})
	}
	summary := iceberg.Properties{sumCommitID: id.String(), sumSegments: strconv.Itoa(len(entries))}
	err = appendOnly(tx, st.tbl, func() error {
		return tx.AddDataFiles(ctx, files, summary, table.WithoutDuplicateCheck(), table.WithoutAutoNameMapping())
	})
	if err != nil {
		return fmt.Errorf("stage %d files: %w", len(files), err)
	}
	merged := st.proof.merge(p.lake.now(), entries, p.lake.limits)
	if err := tx.SetProperties(iceberg.Properties{propProof: merged.encode()}); err != nil {
		return fmt.Errorf("stage the proof: %w", err)
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.lake.limits.commitTimeout)
	defer cancel()
	_, sent := tx.Commit(ctx)
	tbl, err := p.lake.open(ctx, p.id)
	if err != nil {
		return errors.Join(sent, err)
	}
	if _, ok := findCommit(tbl, id.String()); !ok {
		return fmt.Errorf("add %d files to %s: %w; run it again", len(files), p.Table, errors.Join(sent, errors.New("the table does not have them")))
	}
	p.have, p.best, p.add, p.added = tbl, tbl, nil, nil
	p.Have, err = p.lake.stateOf(tbl)
	return err
}
