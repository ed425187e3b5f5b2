package lake

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"
)

// partOfTable tells a file that a writer of tables makes, by its name, from what people and other programs leave.
func partOfTable(name string) bool {
	for _, suffix := range []string{".parquet", ".avro", ".orc", ".puffin", ".stats", metadataSuffix} {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}

// isAbsent tells that a file or an object is not there.
func isAbsent(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// cutoff is the time before which a file must have been written to be old enough. Where something is to be removed, a file
// is written to learn the time of the store, which is what the files' times are in.
func (c *collection) cutoff() (time.Time, error) {
	now := c.lake.now()
	if c.opt.Apply {
		theirs, err := c.lake.storeTime(c.out.Location + "/metadata/.siglake-clock-" + uuid.NewString())
		if err != nil {
			return now, fmt.Errorf("ask the store for the time: %w", err)
		}
		if theirs.Before(now) {
			now = theirs
		}
	}
	return now.Add(-c.opt.MinAge), nil
}

// storeTime is the time that a file gets which is written now.
func (l *Lake) storeTime(name string) (at time.Time, err error) {
	if err := l.io.WriteFile(name, []byte("what time is it\n")); err != nil {
		return at, err
	}
	defer func() { err = errors.Join(err, l.io.Remove(name)) }()
	f, err := l.io.Open(name)
	if err != nil {
		return at, err
	}
	defer func() { _ = f.Close() }() // nothing of it is read
	info, err := f.Stat()
	if err != nil {
		return at, err
	}
	return info.ModTime(), nil
}

// list are all files below the table's location.
func (c *collection) list(ctx context.Context) ([]OrphanFile, error) {
	var out []OrphanFile
	listing := c.step("list")
	err := c.lake.io.WalkDir(c.out.Location, func(name string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case isAbsent(err):
			return nil // gone since its name was read
		case err != nil:
			return err
		case d.IsDir():
			return nil
		}
		info, err := d.Info()
		if isAbsent(err) {
			return nil
		}
		if err != nil {
			return err
		}
		c.out.Files++
		c.names[name] = struct{}{}
		listing(c.out.Files, 0)
		if !info.Mode().IsRegular() || info.ModTime().IsZero() || !partOfTable(name) {
			c.out.Kept++
			return nil
		}
		out = append(out, OrphanFile{Path: name, Bytes: info.Size(), ModTime: info.ModTime()})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the files at %s: %w", c.out.Location, err)
	}
	return out, nil
}

// strays looks into the metadata files that are not in the history which the catalog shows. They tell of another table at
// this place, of a catalog that went back, and of commits that may still land: what those name is reached too.
func (c *collection) strays(ctx context.Context, tbl *table.Table, found []OrphanFile) error {
	current, known := metadataVersion(tbl.MetadataLocation())
	c.out.Others = []uuid.UUID{}
	var other error // of the first that is not abandoned; the rest are looked for, so that all can be named at once
	for _, f := range found {
		if !strings.HasSuffix(f.Path, metadataSuffix) || c.reach.has(f.Path) {
			continue
		}
		stray, err := c.lake.stored(ctx, c.id, f.Path)
		switch {
		case isAbsent(err):
			continue
		case err != nil && !readable(c.lake, f.Path):
			return fmt.Errorf("read %s: %w", f.Path, err)
		case err != nil: // torn by a kill, so nobody was ever told of it
			c.torn[f.Path] = true
			continue
		}
		meta := stray.Metadata()
		if have := meta.TableUUID(); have != c.out.UUID {
			if slices.Contains(c.out.Others, have) {
				continue
			}
			c.out.Others = append(c.out.Others, have)
			if other == nil && !slices.Contains(c.opt.Abandoned, have) {
				other = fmt.Errorf("files of another table, UUID %s, are at its location, named by %s: the table had the same name before, or the catalog was lost since; "+
					"if nothing of it is needed any more, say so with --abandon %s", have, f.Path, have)
			}
			continue
		}
		version, ok := metadataVersion(f.Path)
		switch {
		case ok && known && version > current+1:
			back := &GoneBackError{
				Table: c.out.Table, WantSequence: meta.LastSequenceNumber(), HaveSequence: tbl.Metadata().LastSequenceNumber(),
				WantMetadata: f.Path, HaveMetadata: tbl.MetadataLocation(),
			}
			return fmt.Errorf("%w; where that has nothing to do on any log, it could not be set to this file: the files are collected when the table "+
				"has changed as often again", back)
		case !ok || !known || version == current+1:
			// Sent, and perhaps not answered yet, or the catalog went back by one.
			if _, err := c.reach.metadata(ctx, f.Path, meta); err != nil {
				return err
			}
		}
	}
	return other
}

// readable tells a file whose text is wrong from one that cannot be read.
func readable(l *Lake, path string) bool {
	_, err := l.io.ReadFile(path)
	return err == nil
}

// sort tells orphans from what is reached and from what is too young to tell.
func (c *collection) sort(found []OrphanFile, cutoff time.Time) {
	for _, f := range found {
		switch {
		case c.reach.has(f.Path):
			c.out.Reached++
		case c.torn[f.Path]:
			c.out.Kept++
		case !f.ModTime.Before(cutoff):
			c.out.Young++
		default:
			c.out.Orphans = append(c.out.Orphans, f)
			c.out.Bytes += f.Bytes
		}
	}
	slices.SortFunc(c.out.Orphans, func(a, b OrphanFile) int { return strings.Compare(a.Path, b.Path) })
}
