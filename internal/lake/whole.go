package lake

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"golang.org/x/sync/errgroup"
)

// looksAtOnce is how many files are asked for at a time.
const looksAtOnce = 16

// incomplete says what of the current snapshot of a state is gone or damaged; "" when manifest list and manifests read well and
// each data file is there and as long as its manifest says.
//
//	errors  anything means "not known", never "gone"
func (l *Lake) incomplete(ctx context.Context, tbl *table.Table) (why string, err error) {
	snap := tbl.CurrentSnapshot()
	if snap == nil {
		return "", nil
	}
	var files []iceberg.DataFile
	for df, err := range l.liveFiles(snap) {
		if err != nil {
			return l.damage(snap, err)
		}
		files = append(files, df)
	}
	bad := make([]string, len(files))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(looksAtOnce)
	for i, df := range files {
		g.Go(func() error {
			if gctx.Err() != nil {
				return context.Cause(gctx)
			}
			why, err := l.shorter(df)
			bad[i] = why
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return "", err
	}
	n, first := 0, ""
	for _, b := range bad {
		if b == "" {
			continue
		}
		if n++; first == "" {
			first = b
		}
	}
	if n == 0 {
		return "", nil
	}
	return fmt.Sprintf("%d of the files of its current snapshot are gone or damaged, %s among them", n, first), nil
}

// damage tells damage of a manifest list or a manifest from a store that does not answer.
func (l *Lake) damage(snap *table.Snapshot, cause error) (string, error) {
	names := []string{snap.ManifestList}
	if manifests, err := snap.Manifests(l.io); err == nil {
		for _, m := range manifests {
			names = append(names, m.FilePath())
		}
	}
	for _, name := range names {
		if _, err := l.io.ReadFile(name); err != nil && !isAbsent(err) {
			return "", cause
		}
	}
	return fmt.Sprintf("a manifest, or the list of them, is gone or damaged: %v", cause), nil
}

// shorter says why a data file is not whole.
func (l *Lake) shorter(df iceberg.DataFile) (why string, err error) {
	name := path.Base(df.FilePath())
	f, err := l.io.Open(df.FilePath())
	if errors.Is(err, fs.ErrNotExist) {
		return name, nil
	}
	if err != nil {
		return "", fmt.Errorf("look at %s: %w", df.FilePath(), err)
	}
	info, err := f.Stat()
	if err = errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("look at %s: %w", df.FilePath(), err)
	}
	if info.Size() != df.FileSizeBytes() {
		return fmt.Sprintf("%s (%d bytes, not %d)", name, info.Size(), df.FileSizeBytes()), nil
	}
	return "", nil
}
