package crashtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/siglakecol/siglakecol/internal/objstore"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// simStore is the store as one process reaches it. Each call that changes it waits for its turn.
type simStore struct{ p *proc }

// trouble is a fault beyond the disk. more says how far the call got before it.
type trouble struct {
	kind string
	more int
}

func (f *trouble) Error() string { return "simulated: " + f.kind }

// of is what an episode makes of an operation; nil: nothing.
func (e *episode) of(op simfs.Op) error {
	if f, ok := simFaults[e.kind]; ok {
		if slices.Contains(f.kinds, op.Kind) && !strings.HasSuffix(op.Name, "LOCK") {
			return f.err
		}
		return nil
	}
	switch op.Kind {
	case storeRead:
		if e.kind != storeRefuses {
			return nil
		}
	case catalogRead:
		if e.kind != catalogAway {
			return nil
		}
	default:
		if where, _, _ := strings.Cut(e.kind, "-"); where != kindOf(op.Kind) {
			return nil
		}
	}
	return &trouble{kind: e.kind, more: op.K}
}

// The operations of store and catalog. Those that change nothing have no turn.
const (
	storePut     simfs.Kind = "store put"
	storeReplace simfs.Kind = "store replace"
	storeDelete  simfs.Kind = "store delete"
	storeRead    simfs.Kind = "store read"
	storeLands   simfs.Kind = "lands in the store"
	catalogRead  simfs.Kind = "catalog read"
	otherCommit  simfs.Kind = "other commit"
	commitLands  simfs.Kind = "lands in the catalog"
	dropKind     simfs.Kind = "drop days"
)

// kindOf tells which faults an operation may meet beside those of the disk.
func kindOf(k simfs.Kind) string {
	switch k {
	case storePut, storeReplace, storeDelete:
		return "store"
	case commitKind, otherCommit, dropKind:
		return "catalog"
	}
	return ""
}

// marker is written with a mutex of the mirror held, on which others could wait outside of what synctest sees: it has
// no turn and no fault.
const marker = "siglake-mirror.json"

// change makes a change of the store when its turn comes, or what a fault makes of it.
func (s simStore) change(ctx context.Context, kind simfs.Kind, key string, act func() error) error {
	w := s.p.w
	if key == marker && !s.p.dead.Load() {
		return act()
	}
	if s.p.dead.Load() {
		return errDead
	}
	err := s.p.turn(simfs.Op{Kind: kind, Name: key})
	var f *trouble
	switch {
	case err == nil:
		return act()
	case !errors.As(err, &f):
		return err
	}
	switch f.kind {
	case storeLoses:
		return errors.Join(err, act())
	case storeLate:
		w.later(storeLands, key, func() { _ = act() })
	case storeHangs:
		if f.more%2 == 0 {
			_ = act()
		}
		select {
		case <-ctx.Done():
		case <-s.p.ctx.Done():
		case <-time.After(time.Minute):
		}
		return errors.Join(err, ctx.Err())
	}
	return err
}

// later does something after a while, whoever lives then.
func (w *sim) later(kind simfs.Kind, what string, act func()) {
	after := time.Duration(1+w.k.Load()*7919%15_000) * time.Millisecond
	w.landing.Go(func() {
		time.Sleep(after)
		out := &proc{w: w, name: nobody}
		if out.turn(simfs.Op{Kind: kind, Name: what}) == nil {
			act()
		}
	})
}

func (s simStore) read(key string) error {
	if s.p.dead.Load() {
		return errDead
	}
	if key == marker {
		return nil
	}
	return s.p.w.fault(simfs.Op{Kind: storeRead, Name: key}, false)
}

// Put implements objstore.Store.
func (s simStore) Put(ctx context.Context, key string, c *objstore.Content) error {
	return s.put(ctx, storePut, key, c, s.p.w.store.Put)
}

// Replace implements objstore.Store.
func (s simStore) Replace(ctx context.Context, key string, c *objstore.Content) error {
	return s.put(ctx, storeReplace, key, c, s.p.w.store.Replace)
}

func (s simStore) put(
	ctx context.Context, kind simfs.Kind, key string, c *objstore.Content, put func(context.Context, string, *objstore.Content) error,
) error {
	body, err := io.ReadAll(c.Reader())
	if err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	return s.change(ctx, kind, key, func() error {
		return put(context.Background(), key, objstore.NewContent(bytes.NewReader(body), int64(len(body))))
	})
}

// Delete implements objstore.Store. What the tables do not have stays: RET-1.
func (s simStore) Delete(ctx context.Context, key string) error {
	return s.change(ctx, storeDelete, key, func() error {
		w := s.p.w
		if !strings.HasPrefix(key, "_active/") {
			w.mu.Lock()
			lane := path.Dir(key)
			if missing := w.missing(lane, strings.TrimSuffix(path.Base(key), ".arrow")); missing != "" {
				w.wrong.add("RET-1: %s deletes %s from the mirror, and the table lacks %s", s.p.name, key, missing)
			}
			w.mu.Unlock()
		}
		return w.store.Delete(context.Background(), key)
	})
}

// Get implements objstore.Store.
func (s simStore) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	if err := s.read(key); err != nil {
		return nil, err
	}
	return s.p.w.store.Get(ctx, key)
}

// Stat implements objstore.Store.
func (s simStore) Stat(ctx context.Context, key string) (objstore.Info, error) {
	if err := s.read(key); err != nil {
		return objstore.Info{}, err
	}
	return s.p.w.store.Stat(ctx, key)
}

// List implements objstore.Store.
func (s simStore) List(ctx context.Context, prefix string, found func(objstore.Info) error) error {
	if err := s.read(prefix); err != nil {
		return err
	}
	return s.p.w.store.List(ctx, prefix, found)
}

// Close implements objstore.Store.
func (s simStore) Close() error { return nil }
