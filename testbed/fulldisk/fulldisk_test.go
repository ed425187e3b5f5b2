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

	"github.com/siglakecol/siglakecol/testbed/internal/collector"
	"github.com/siglakecol/siglakecol/testbed/internal/load"
	"github.com/siglakecol/siglakecol/testbed/internal/testenv"
	"github.com/siglakecol/siglakecol/testbed/internal/traffic"
	"github.com/siglakecol/siglakecol/testbed/internal/volume"
	"github.com/siglakecol/siglakecol/testbed/internal/waldir"
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

// disk is a log on a small volume. Where all is on it, catalog and tables too; else they have room elsewhere.
type disk struct {
	*collector.Harness

	volume *volume.Volume
	limits string
}

func newDisk(t *testing.T, all bool, limits string) *disk {
	t.Helper()
	v := volume.Memory(t, size)
	h := collector.New(t)
	if all {
		h.Data = v.Dir
	} else {
		require.NoError(t, os.Symlink(v.Dir, filepath.Join(h.Data, "wal")))
	}
	return &disk{h, v, limits}
}

// cases are a log that refuses at its limit.
var cases = []struct {
	name, limits string
	all          bool
	status       int
}{
	{"limit", guarded, true, http.StatusTooManyRequests},
}

// TestFullDisk_B1 fills the disk under a living collector; a compactor that then comes is all it takes.
func TestFullDisk_B1(t *testing.T) {
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			d := newDisk(t, tc.all, tc.limits)
			p := d.ingest()
			tr := d.fill(t, p, "live")
			d.refused(t, p, tc.status)
			c := d.compactor(t)
			tr.Acked(t, 5_000)
			tr.End(t)
			traffic.Drained(t, d.Harness, c)
			d.Stop()
			traffic.Judge(t, d.Harness, tr.Book)
		})
	}
}

// TestStartOnAFullDisk_B1 kills the collector on the full disk and starts it again there, with its compactor.
func TestStartOnAFullDisk_B1(t *testing.T) {
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			d := newDisk(t, tc.all, tc.limits)
			p := d.ingest()
			tr := d.fill(t, p, "start")
			p.Kill()
			tr.Settle(t)
			d.Overlay = []string{d.limits, quick}
			p = d.Start()
			tr.Acked(t, 5_000)
			tr.End(t)
			traffic.Drained(t, d.Harness, p)
			d.Stop()
			traffic.Judge(t, d.Harness, tr.Book)
			entries, err := waldir.List(d.WAL())
			require.NoError(t, err)
			require.Empty(t, waldir.In(entries, "poison"))
		})
	}
}

// ingest starts a collector that does not drain.
func (d *disk) ingest() *collector.Process {
	d.Overlay = []string{d.limits, alone}
	return d.Start()
}

// fill sends until nothing is taken any more. The load goes on: its clients come again.
func (d *disk) fill(t *testing.T, p *collector.Process, run string) *traffic.Traffic {
	t.Helper()
	pl := traffic.Plan(p, run, "", 100)
	pl.RecordBytes = 2_000
	tr := traffic.Start(t, pl)
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

// refused requires the answer that makes a client come again, over HTTP; over gRPC the load gets its own.
func (d *disk) refused(t *testing.T, p *collector.Process, status int) {
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
	require.Equal(t, status, resp.StatusCode)
	after, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, after, 1)
}

// compactor starts the shipped compactor beside the ingester.
func (d *disk) compactor(t *testing.T) *collector.Process {
	t.Helper()
	c := collector.New(t, quick)
	c.Config = filepath.Join(filepath.Dir(testenv.Must(t, testenv.DefaultConfig)), "compactor.yaml")
	c.Data = d.Data
	return c.Start()
}
