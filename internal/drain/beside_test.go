package drain

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// What runs beside the drain begins when the drain holds its lock and the lake is open, and has ended when Run returns.
func TestRun_beside(t *testing.T) {
	dir := t.TempDir()
	wal := filepath.Join(dir, "wal")
	_, err := segment.Create(vfs.OS(), wal)
	require.NoError(t, err)
	lock, err := vfs.OS().Lock(filepath.Join(wal, segment.DrainLockName), "another")
	require.NoError(t, err)
	var opened, held, ended atomic.Bool
	var tries atomic.Int32
	working := make(chan *lake.Lake)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- Run(ctx, Options{
			FS: vfs.OS(), WAL: wal,
			OpenLake: func(ctx context.Context) (*lake.Lake, error) {
				if tries.Add(1) == 1 {
					return nil, errors.New("away")
				}
				defer opened.Store(true)
				return lake.Open(ctx, lake.Options{Catalog: "sqlite://" + filepath.Join(dir, "catalog.db"), Warehouse: filepath.Join(dir, "warehouse")})
			},
			Beside: func(ctx context.Context, l *lake.Lake) {
				_, err := vfs.OS().Lock(filepath.Join(wal, segment.DrainLockName), "")
				_, other := errors.AsType[*vfs.LockedError](err)
				held.Store(other && opened.Load())
				working <- l
				<-ctx.Done()
				_, err = l.Tables(context.Background())
				ended.Store(err == nil)
			},
		})
	}()
	require.Eventually(t, opened.Load, time.Minute, time.Millisecond)
	require.NoError(t, lock.Close())
	require.NotNil(t, <-working)
	require.True(t, held.Load())
	cancel()
	require.NoError(t, <-done)
	require.True(t, ended.Load(), "the lake was open until it ended")
}
