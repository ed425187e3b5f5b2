// Package fulldisk fills the volume of the log while nothing is drained, and expects that clients are told to come again,
// that nothing acknowledged is lost, and that the drain alone, once it is there, brings everything back.
package fulldisk

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/siglakecol/siglakecol/testbed/internal/collector"
	"github.com/siglakecol/siglakecol/testbed/internal/load"
	"github.com/siglakecol/siglakecol/testbed/internal/testenv"
	"github.com/siglakecol/siglakecol/testbed/internal/traffic"
	"github.com/siglakecol/siglakecol/testbed/internal/volume"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	size = 64 << 20

	// alone is an ingester beside which no compactor runs.
	alone = "service: {extensions: [ingestparams, walmirror, healthcheckv2]}\n"
	// quick gives the room of what is committed back at once.
	quick = "extensions: {lakecompactor: {gate: {age: 100ms}, retention: {wal: 1ns}}}\n"
	// guarded is a log whose limits fit the volume.
	guarded = "exporters: {siglake: {wal: {min_free: 8388608}}}\n"
)

// disk is a log on a small volume.
type disk struct {
	*collector.Harness

	volume  *volume.Volume
	foreign bool // somebody else takes what is left of the volume, and keeps it; the tables have room elsewhere
}

func newDisk(t *testing.T, foreign bool) *disk {
	t.Helper()
	v := volume.Memory(t, size)
	h := collector.New(t)
	if foreign {
		wal := filepath.Join(v.Dir, "wal")
		require.NoError(t, os.Mkdir(wal, 0o750))
		require.NoError(t, os.Symlink(wal, h.WAL()))
	} else {
		h.Data = v.Dir
	}
	return &disk{h, v, foreign}
}

// filled are the ways to a full disk: the log meets its own limit, or another user leaves it not one byte.
var filled = map[string]bool{"by the log": false, "by others": true}

// TestFullDisk_B1 fills the disk under a living collector; a compactor that then comes is all it takes.
func TestFullDisk_B1(t *testing.T) {
	for name, foreign := range filled {
		t.Run(name, func(t *testing.T) {
			d := newDisk(t, foreign)
			p := d.ingest()
			tr := d.fill(t, p, "live")
			for end := time.Now().Add(time.Minute); refused(t, p) != http.StatusTooManyRequests; time.Sleep(50 * time.Millisecond) {
				require.True(t, time.Now().Before(end), "the log measures the volume and refuses before the kernel does")
			}
			c := d.compactor(t)
			tr.Acked(t, 5_000)
			res := tr.End(t)
			require.Positive(t, res.Errors["ResourceExhausted"], "%v", res.Errors)
			if foreign {
				require.Positive(t, res.Errors["Unavailable"], "until the log has measured the volume, the kernel refuses: %v", res.Errors)
			}
			traffic.Drained(t, d.Harness, c)
			d.Stop()
			traffic.Judge(t, d.Harness, tr.Book)
		})
	}
}

// TestStartOnAFullDisk_B1 kills the collector on the full disk and starts it again there, with its compactor.
func TestStartOnAFullDisk_B1(t *testing.T) {
	for name, foreign := range filled {
		t.Run(name, func(t *testing.T) {
			d := newDisk(t, foreign)
			p := d.ingest()
			tr := d.fill(t, p, "start")
			p.Kill()
			tr.Settle(t)
			d.Overlay = []string{guarded, quick}
			p = d.Start()
			tr.Acked(t, 5_000)
			tr.End(t)
			traffic.Drained(t, d.Harness, p)
			d.Stop()
			traffic.Judge(t, d.Harness, tr.Book)
		})
	}
}

// ingest starts a collector that does not drain.
func (d *disk) ingest() *collector.Process {
	d.Overlay = []string{guarded, alone}
	return d.Start()
}

// fill sends until nothing is taken any more. The load goes on: its clients come again.
func (d *disk) fill(t *testing.T, p *collector.Process, run string) *traffic.Traffic {
	t.Helper()
	pl := traffic.Plan(p, run, "", 100)
	pl.RecordBytes = 2_000
	tr := traffic.Start(t, pl)
	if d.foreign {
		tr.Acked(t, 10_000)
		d.toTheBrim(t)
	}
	acked, from := 0, 0
	require.Eventually(t, func() bool {
		_, failed := tr.Book.Requests()
		if now := tr.Book.Acked(); now != acked {
			acked, from = now, len(failed)
		}
		return len(failed) > from+50
	}, 2*time.Minute, 5*time.Millisecond, "the disk must be full at some time")
	t.Logf("full after %d records", tr.Book.Acked())
	require.Greater(t, tr.Book.Acked(), 5_000)
	return tr
}

// refused requires the answer that makes a client come again, over HTTP, and returns its status; over gRPC the load gets
// its own.
func refused(t *testing.T, p *collector.Process) int {
	t.Helper()
	templates, err := load.NewTemplates(load.Shape{Signal: "logs", Batch: 100, Run: "probe", RecordBytes: 2_000})
	require.NoError(t, err)
	body := templates[0].Fill(nil, 0, time.Now())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.HTTP+"/v1/logs", bytes.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/x-protobuf")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Contains(t, []int{http.StatusTooManyRequests, http.StatusServiceUnavailable}, resp.StatusCode)
	after, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, after, 1)
	return resp.StatusCode
}

// compactor starts the shipped compactor beside the ingester.
func (d *disk) compactor(t *testing.T) *collector.Process {
	t.Helper()
	c := collector.New(t, quick)
	c.Config = filepath.Join(filepath.Dir(testenv.Must(t, testenv.DefaultConfig)), "compactor.yaml")
	c.Data = d.Data
	return c.Start()
}

// toTheBrim takes the last bytes of the volume.
func (d *disk) toTheBrim(t *testing.T) {
	t.Helper()
	f, err := os.Create(filepath.Join(d.volume.Dir, "others"))
	require.NoError(t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	require.ErrorIs(t, err, unix.ENOSPC)
	require.NoError(t, f.Close())
}
