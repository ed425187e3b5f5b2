package drain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"syscall"

	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/otelarrow"
	"github.com/siglakecol/siglakecol/internal/segment"
)

// item is a claimed segment that has been read.
type item struct {
	file   *file
	seg    *frame.Segment
	signal otelarrow.Signal
}

// batch claims, reads and commits one batch within the byte budget. Whatever comes of it, no segment of the
// batch is left in processing/, unless the directory itself fails; rescue then puts it back.
func (l *lane) batch(ctx, work context.Context, files []*file) error {
	release, err := l.d.admit(ctx, files)
	if err != nil {
		return err
	}
	defer release()
	l.at(fmt.Sprintf("claim and read %d segments", len(files)))
	claimed, err := l.claim(files)
	if err != nil {
		return err
	}
	items, err := l.read(claimed)
	defer func() {
		for _, it := range items {
			it.seg.Release()
		}
	}()
	if err != nil {
		return errors.Join(err, l.release(itemFiles(items)))
	}
	var errs []error
	for _, group := range bySignal(items) {
		if ctx.Err() != nil { // told to stop before this group's commit began
			errs = append(errs, l.release(itemFiles(group)))
			continue
		}
		if err := l.commit(work, group); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// admit waits for room for a batch. The function gives it back.
func (d *drain) admit(ctx context.Context, files []*file) (func(), error) {
	var sum int64
	for _, f := range files {
		sum += f.weight()
	}
	sum = min(sum, d.opt.MaxBytesInFlight) // one larger segment goes alone
	if err := d.heavy.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("wait for a turn: %w", err)
	}
	if err := d.bytes.Acquire(ctx, sum); err != nil {
		d.heavy.Release(1)
		return nil, fmt.Errorf("wait for memory: %w", err)
	}
	return func() {
		d.bytes.Release(sum)
		d.heavy.Release(1)
	}, nil
}

// claim moves a batch to processing/ and returns what arrived there; a name that is gone was taken by an
// operator. Durable when it returns. After an error the whole batch is put back.
func (l *lane) claim(files []*file) ([]*file, error) {
	byName := make(map[string]*file, len(files))
	for _, f := range files {
		byName[f.name] = f
	}
	moved, err := l.dir.Move(segment.Sealed, segment.Processing, fileNames(files))
	if err != nil {
		// Some may have both names. Moving them all back leaves each one name.
		return nil, errors.Join(fmt.Errorf("claim %d segments: %w", len(files), err), l.fail(files))
	}
	claimed := make([]*file, 0, len(moved))
	for _, name := range moved {
		claimed = append(claimed, byName[name])
		delete(byName, name)
	}
	for name := range byName {
		delete(l.files, name)
	}
	return claimed, nil
}

// read decodes the claimed segments side by side and returns the good ones in the order given. A damaged one
// goes back to sealed/, the third time to poison/; the batch goes on without it. The error is for trouble that
// is no segment's fault; the items are valid then too.
func (l *lane) read(files []*file) ([]item, error) {
	items := make([]item, len(files))
	errs := make([]error, len(files))
	var wg sync.WaitGroup
	for i, f := range files {
		l.d.reads <- struct{}{}
		wg.Go(func() {
			defer func() { <-l.d.reads }()
			items[i], errs[i] = l.load(segment.Processing, f)
		})
	}
	wg.Wait()
	good := make([]item, 0, len(files))
	var trouble []error
	for i, f := range files {
		if errs[i] == nil {
			good = append(good, items[i])
			continue
		}
		if err := l.bad(f, errs[i]); err != nil {
			trouble = append(trouble, err)
		}
	}
	return good, errors.Join(trouble...)
}

// load reads one segment whole: header, checksums, every length, every column.
func (l *lane) load(st segment.State, f *file) (item, error) {
	r, err := l.d.opt.FS.Open(l.dir.Path(st, f.name))
	if err != nil {
		return item{}, fmt.Errorf("open segment: %w", err)
	}
	defer func() { _ = r.Close() }() // opened for reading
	info, err := r.Stat()
	if err != nil {
		return item{}, fmt.Errorf("stat segment: %w", err)
	}
	seg, signal, err := decode(r, info.Size, f.id)
	if err != nil {
		return item{}, fmt.Errorf("decode %s: %w", f.name, err)
	}
	f.table = seg.Header.Table
	if seg.TailDropped > 0 && !f.doubtful {
		f.doubtful = true // a torn tail means that a recovery sealed it
	}
	return item{file: f, seg: seg, signal: signal}, nil
}

// decode reads a segment: header, checksums, every length, every column, the id it bears. The caller releases it.
func decode(r io.ReaderAt, size int64, id segment.ID) (*frame.Segment, otelarrow.Signal, error) {
	seg, err := frame.Decode(r, size, frame.DecodeOptions{})
	if err != nil {
		return nil, 0, err
	}
	signal, err := otelarrow.SignalOf(seg.Schema)
	if err == nil {
		err = id.CheckName(seg.Schema)
	}
	if err != nil {
		seg.Release()
		return nil, 0, fmt.Errorf("read its schema: %w", err)
	}
	return seg, signal, nil
}

// bad decides about a segment in processing/ that could not be read.
func (l *lane) bad(f *file, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist): // taken by an operator
		delete(l.files, f.name)
		return nil
	case newer(err):
		l.hold(f, err)
		return l.putBack([]*file{f})
	case !damaged(err):
		return errors.Join(err, l.fail([]*file{f}))
	}
	f.reads++
	l.d.m.readFailures.add(1)
	if errors.Is(err, frame.ErrCRC) {
		l.d.m.crcMismatch.add(1)
	}
	if f.reads < maxReads {
		f.after = l.d.since() + l.d.backoff(f.reads)
		l.log.Warn("segment is damaged; it is read again", zap.String("segment", f.name), zap.Int("reads", f.reads), zap.Error(err))
		return l.putBack([]*file{f})
	}
	return l.poison(f, err)
}

// damaged tells whether an error is the segment's own: bytes that make no sense, or a disk that cannot return
// them. Anything else (no file descriptors, say) charges the segment nothing.
func damaged(err error) bool {
	_, corrupt := errors.AsType[*frame.CorruptError](err)
	return corrupt || errors.Is(err, frame.ErrEmpty) || errors.Is(err, frame.ErrNoBatch) || errors.Is(err, frame.ErrTooBig) ||
		errors.Is(err, otelarrow.ErrNotOurs) || errors.Is(err, syscall.EIO)
}

// newer tells whether a later version of the format or of the layout is needed.
func newer(err error) bool {
	return errors.Is(err, frame.ErrVersion) || errors.Is(err, otelarrow.ErrLayout)
}

// poison sets a damaged segment aside with a note. Durable when it returns; idempotent. The segment is never
// deleted and comes back only by an operator's hand.
func (l *lane) poison(f *file, cause error) error {
	note := segment.Note{Reason: cause.Error(), Attempts: f.reads, Time: wall(l.d.opt.Now())}
	if err := l.dir.Quarantine(segment.Processing, f.name, note); err != nil {
		return errors.Join(fmt.Errorf("quarantine %s: %w", f.name, err), l.fail([]*file{f}))
	}
	l.setAside(f.name)
	l.d.m.poisoned.add(1)
	l.log.Error("damaged segment set aside in poison; its rows are in no table",
		zap.String("segment", f.name), zap.Int("reads", f.reads), zap.Error(cause))
	return nil
}

// putBack moves segments from processing/ to sealed/. Durable when it returns; idempotent.
func (l *lane) putBack(files []*file) error {
	if len(files) == 0 {
		return nil
	}
	if _, err := l.dir.Move(segment.Processing, segment.Sealed, fileNames(files)); err != nil {
		l.stranded = true
		return fmt.Errorf("put back %d segments: %w", len(files), err)
	}
	return nil
}

// release puts back what was claimed and not committed because the drain was told to stop.
func (l *lane) release(files []*file) error {
	for _, f := range files {
		f.doubtful = true
	}
	return l.putBack(files)
}

// fail puts back what a failed step had in hand. From now on it is looked up before its rows are written, and
// each waits longer than the last time, so that what is behind it gets its turn.
func (l *lane) fail(files []*file) error {
	for _, f := range files {
		f.failures++
		f.doubtful = true
		f.after = l.d.since() + l.d.backoff(f.failures)
	}
	l.limit = max(1, min(l.limit, len(files))/2)
	return l.putBack(files)
}

// bySignal splits a batch into one group for each signal, in the order of their first segment.
func bySignal(items []item) [][]item {
	var groups [][]item
	at := make(map[otelarrow.Signal]int)
	for _, it := range items {
		i, ok := at[it.signal]
		if !ok {
			i = len(groups)
			at[it.signal] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], it)
	}
	return groups
}

func fileNames(files []*file) []string {
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = f.name
	}
	return names
}

func itemFiles(items []item) []*file {
	files := make([]*file, len(items))
	for i, it := range items {
		files[i] = it.file
	}
	return files
}
