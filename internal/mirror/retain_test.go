package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/mirror"
	"github.com/siglakecol/siglakecol/internal/objstore/storetest"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

const keep = 24 * time.Hour

// tables are what a catalog shows: rows by segment.
type tables struct {
	mu    sync.Mutex
	rows  map[segment.ID]int64
	err   error
	asked int
}

func (b *tables) committed(_ context.Context, _, _ string, ids []segment.ID) (map[segment.ID]int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked += len(ids)
	if b.err != nil {
		return nil, b.err
	}
	out := map[segment.ID]int64{}
	for _, id := range ids {
		if n := b.rows[id]; n > 0 {
			out[id] = n
		}
	}
	return out, nil
}

func (b *tables) set(n int64, ids ...segment.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rows == nil {
		b.rows = map[segment.ID]int64{}
	}
	for _, id := range ids {
		b.rows[id] = n
	}
}

func (b *tables) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
}

// retain runs a retention over the rig's root and store until the function is called. set may change its options.
func (r *rig) retain(b *tables, set func(*mirror.RetentionOptions), most ...int) (stop func()) {
	r.t.Helper()
	root, err := segment.Open(r.disk, rootDir)
	require.NoError(r.t, err)
	opt := mirror.RetentionOptions{Store: r.store, Keep: keep, Logger: r.opt.Logger, Meter: r.opt.Meter}
	if set != nil {
		set(&opt)
	}
	ret, err := mirror.NewRetention(opt)
	require.NoError(r.t, err)
	for _, n := range most {
		ret.SetMost(n)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		ret.Run(ctx, root, b.committed)
	}()
	return func() {
		cancel()
		<-done
	}
}

// uploaded seals n segments of two rows and waits until their objects are there and their pins gone.
func (r *rig) uploaded(n int) []segment.ID {
	r.t.Helper()
	ids := r.sealed(n)
	require.Eventually(r.t, func() bool { return len(r.pins()) == 0 }, time.Minute, time.Second)
	return ids
}

// drained commits what is sealed and removes it from the volume.
func (r *rig) drained(b *tables) {
	r.t.Helper()
	l := r.lane()
	for _, name := range namesIn(l, segment.Sealed) {
		id, _, err := segment.ParseName(name)
		require.NoError(r.t, err)
		b.set(int64(len(rows(r.t, r.file(id)))), id)
	}
	drainOnce(r.disk)
	require.Empty(r.t, namesIn(l, segment.Committed))
}

// objects are the keys in the store but for the marker.
func (r *rig) objects() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(r.store.Objects())), func(k string) bool { return k == "siglake-mirror.json" })
}

// gauge reads siglake_compactor_mirror_retention_objects.
func (r *rig) gauge(state string) int64 {
	r.t.Helper()
	var rm metricdata.ResourceMetrics
	require.NoError(r.t, r.read.Collect(r.t.Context(), &rm))
	for _, sm := range rm.ScopeMetrics {
		for _, m := range sm.Metrics {
			if g, ok := m.Data.(metricdata.Gauge[int64]); ok && m.Name == "siglake_compactor_mirror_retention_objects" {
				for _, dp := range g.DataPoints {
					if strings.Contains(fmt.Sprint(dp.Attributes.ToSlice()), state) {
						return dp.Value
					}
				}
			}
		}
	}
	require.Failf(r.t, "no such state", state)
	return 0
}

// after lets time pass.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// BND-1: an object goes when its segment is committed, has no name on the volume, and Keep is over, and no mirror that
// sweeps all the time makes it again. Restarts of the compactor do not set its age back.
func TestRetention_BND1_R5_R41(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, b := newRig(t).start(), &tables{}
		ids := r.uploaded(3)
		b.set(2, ids...)
		stop := r.retain(b, func(o *mirror.RetentionOptions) { o.Keep = mirror.LeastKeep })
		after(time.Hour)
		require.Len(t, r.objects(), 3, "they have a name on the volume")
		require.EqualValues(t, 3, r.gauge("on_volume"))
		stop()

		r.drained(b)
		require.NoError(t, r.log.Close(t.Context()))
		stop = r.retain(b, nil)
		for range 23 {
			after(time.Hour)
			stop()
			stop = r.retain(b, nil)
		}
		synctest.Wait()
		require.Len(t, r.objects(), 3)
		require.EqualValues(t, 3, r.gauge("waiting"))
		after(3 * time.Hour)
		require.Empty(t, r.objects())
		after(3 * keep)
		stop()
		require.EqualValues(t, 3, r.retained("deleted_total"))
		require.Zero(t, r.retained("errors_total"))
		require.Empty(t, r.objects())
		puts := 0
		for _, op := range r.store.Ops() {
			if op.Kind == "put" && strings.HasSuffix(op.Key, ".arrow") {
				puts++
			}
		}
		require.Equal(t, 3, puts, "each object was made once")
		r.stop(time.Minute)
	})
}

// What of an open segment is there goes before the whole one; also what is there alone.
func TestRetention_active_first(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, b := newRig(t).start(), &tables{}
		ids := r.uploaded(2)
		r.drained(b)
		r.stop(time.Minute)
		body, whole := r.store.Objects()[key(ids[0])], r.store.Objects()[key(ids[1])]
		r.store.Set(activeKey(ids[0]), body)
		r.store.Set("_active/"+ids[0].PartialName(), body) // the reference system's layout
		r.store.Remove(key(ids[1]))
		r.store.Set(activeKey(ids[1]), whole)
		stop := r.retain(b, nil)
		after(keep + 2*time.Hour)
		stop()
		require.Empty(t, r.objects())
		var deleted []string
		for _, op := range r.store.Ops() {
			if op.Kind == "delete" {
				deleted = append(deleted, op.Key)
			}
		}
		require.Less(t, slices.Index(deleted, activeKey(ids[0])), slices.Index(deleted, key(ids[0])))
	})
}

// T-10: an object with more rows than its table has stays, whoever committed the beginning; when the rest is committed
// its time begins anew.
func TestRetention_T10_a_longer_object(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, b := newRig(t).start(), &tables{}
		ids := r.uploaded(1)
		r.drained(b)
		r.stop(time.Minute)
		b.set(1, ids...)
		stop := r.retain(b, nil)
		defer stop()
		after(3 * keep)
		require.Len(t, r.objects(), 1)
		require.NotZero(t, r.logs.FilterMessageSnippet("the table does not show all rows").FilterField(zap.Int64("rows_in_table", 1)).Len())
		b.set(2, ids...)
		after(keep + 3*time.Hour)
		require.Empty(t, r.objects())
	})
}

// What the tables do not show stays: no rows at all, rows that were taken back before the time was over, a catalog that
// cannot be asked or went back.
func TestRetention_unproved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, b := newRig(t).start(), &tables{}
		ids := r.uploaded(3)
		r.drained(b)
		r.stop(time.Minute)
		b.set(0, ids[0]) // never committed: drained elsewhere, or removed by hand
		stop := r.retain(b, nil)
		defer stop()
		after(keep / 2)
		require.EqualValues(t, 1, r.gauge("unproved"))
		b.set(0, ids[1]) // rolled back
		b.fail(errors.New("table went back"))
		after(2 * keep)
		require.Len(t, r.objects(), 3)
		require.Positive(t, r.retained("errors_total", "table"))
		require.NotZero(t, r.logs.FilterMessageSnippet("not complete").Len())
		b.fail(nil)
		after(2 * time.Hour)
		require.ElementsMatch(t, []string{key(ids[0]), key(ids[1])}, r.objects())
		require.EqualValues(t, 2, r.gauge("unproved"))
	})
}

// What is no segment is not asked about and not touched; an object that is named like one and is none, or another one,
// stays.
func TestRetention_foreign(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, b := newRig(t).start(), &tables{}
		ids := r.uploaded(3)
		r.drained(b)
		r.stop(time.Minute)
		foreign := []string{"README", "t/events/notes.txt", "a/b/c/" + ids[0].FileName()}
		for _, k := range foreign {
			r.store.Set(k, []byte("x"))
		}
		r.store.Set(key(ids[1]), []byte("garbage"))
		r.store.Set(key(ids[2]), r.store.Objects()[key(ids[0])])
		stop := r.retain(b, nil)
		defer stop()
		after(2 * keep)
		require.ElementsMatch(t, append(foreign, key(ids[1]), key(ids[2])), r.objects())
		require.Positive(t, r.retained("errors_total", "read"))
	})
}

// A clock that is set deletes nothing early: a run is left out with a warning, and the ages go on as they were.
func TestRetention_clock(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{30 * 24 * time.Hour, -30 * 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			r, b := newRig(t).start(), &tables{}
			r.uploaded(1)
			r.drained(b)
			r.stop(time.Minute)
			var mu sync.Mutex
			var set time.Duration
			stop := r.retain(b, func(o *mirror.RetentionOptions) {
				o.Now = func() time.Time {
					mu.Lock()
					defer mu.Unlock()
					return time.Now().Add(set)
				}
			})
			defer stop()
			after(keep / 2)
			mu.Lock()
			set = by
			mu.Unlock()
			after(keep/2 - time.Hour)
			require.Len(t, r.objects(), 1)
			require.Equal(t, 1, r.logs.FilterMessageSnippet("clock was set").Len())
			after(4 * time.Hour)
			require.Empty(t, r.objects(), "neither early nor late")
		})
	}
}

// A store that fails: what it does not do is counted, stays, and is done later; the age is not lost.
func TestRetention_store_faults(t *testing.T) {
	t.Parallel()
	for kind, step := range map[string]string{"list": "list", "get": "read", "delete": "delete"} {
		synctest.Test(t, func(t *testing.T) {
			r, b := newRig(t).start(), &tables{}
			r.uploaded(3)
			r.drained(b)
			r.stop(time.Minute)
			stop := r.retain(b, nil)
			defer stop()
			after(keep - time.Hour)
			r.store.SetHook(func(op storetest.Op) *storetest.Fault {
				if op.Kind == kind {
					return &storetest.Fault{Err: errors.New("SlowDown")}
				}
				return nil
			})
			after(6 * time.Hour)
			require.Len(t, r.objects(), 3)
			require.Positive(t, r.retained("errors_total", step))
			r.store.SetHook(nil)
			after(time.Hour + time.Minute)
			require.Empty(t, r.objects())
		})
	}
}

// One object that cannot be deleted holds up no other.
func TestRetention_one_object_locked_R4(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, b := newRig(t).start(), &tables{}
		ids := r.uploaded(3)
		r.drained(b)
		r.stop(time.Minute)
		r.store.SetHook(func(op storetest.Op) *storetest.Fault {
			if op.Kind == "delete" && op.Key == key(ids[0]) {
				return &storetest.Fault{Err: errors.New("AccessDenied: object lock")}
			}
			return nil
		})
		stop := r.retain(b, nil)
		defer stop()
		after(keep + 3*time.Hour)
		require.Equal(t, []string{key(ids[0])}, r.objects())
		require.EqualValues(t, 1, r.gauge("overdue"))
	})
}

// A run deletes and asks about a bounded number; the next follows at once, and what stays for good holds up nothing.
func TestRetention_bounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, b := newRig(t).start(), &tables{}
		r.uploaded(1)
		r.drained(b)
		r.stop(time.Minute)
		body := nameless(t)
		const most, unproved, proved = 600, 1300, 1250
		namer := segment.NewNamer([6]byte{9})
		for i := range unproved + proved {
			id := namer.Next(time.Now())
			r.store.Set(key(id), body)
			if i >= unproved {
				b.set(2, id)
			}
		}
		stop := r.retain(b, nil, most)
		after(time.Minute)
		require.EqualValues(t, proved+1, r.gauge("waiting"), "those behind the ones that nobody knows")
		after(keep + 2*time.Hour)
		stop()
		require.Len(t, r.objects(), unproved)
		require.EqualValues(t, proved+1, r.retained("deleted_total"))
	})
}

// nameless is a segment of two rows that does not say which one.
func nameless(t *testing.T) []byte {
	t.Helper()
	schema, err := frame.EncodeSchema(rowSchema)
	require.NoError(t, err)
	h := frame.Header{Partial: true}.Encode()
	return slices.Concat(h[:], schema, batch(t, 1, 2))
}

// The record is a cache: damaged it is begun anew; of a newer version it is left alone, and so are the objects.
func TestRetention_record(t *testing.T) {
	t.Parallel()
	for text, left := range map[string]int{"{": 0, `{"format":2}`: 1, `{"format":1,"committed":[{"at":"2026-01-01T00:00:00Z","writer":"xx","numbers":[[1,2]]}]}`: 0} {
		synctest.Test(t, func(t *testing.T) {
			r, b := newRig(t).start(), &tables{}
			r.uploaded(1)
			r.drained(b)
			r.stop(time.Minute)
			require.NoError(t, vfs.WriteFile(r.disk, filepath.Join(rootDir, segment.RetentionName), []byte(text)))
			stop := r.retain(b, nil)
			defer stop()
			after(keep - time.Hour)
			require.Len(t, r.objects(), 1)
			after(3 * time.Hour)
			require.Len(t, r.objects(), left)
		})
	}
}

// retained reads a counter of the retention.
func (r *rig) retained(name string, attrs ...string) int64 {
	r.t.Helper()
	return r.sum("siglake_compactor_mirror_retention_"+name, attrs...)
}
