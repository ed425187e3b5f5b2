// Package rehearse rehearses the loss of the log's volume: with the shipped configuration, tables in PostgreSQL and S3, and
// a mirror. TestRehearse is one loss with everything around it; TestLosses measures what many of them cost.
package rehearse

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/siglakecol/siglakecol/testbed/internal/collector"
	"github.com/siglakecol/siglakecol/testbed/internal/drill"
	"github.com/siglakecol/siglakecol/testbed/internal/load"
	"github.com/siglakecol/siglakecol/testbed/internal/services"
	"github.com/siglakecol/siglakecol/testbed/internal/traffic"
	"github.com/siglakecol/siglakecol/testbed/internal/waldir"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scene is a collector as it is shipped, with its catalog, its bucket and its mirror.
type scene struct {
	*collector.Harness

	pg *services.Postgres
	s3 *services.S3
	p  *collector.Process // the life that runs, or the last one
}

func newScene(t *testing.T, overlay ...string) *scene {
	t.Helper()
	pg, err := services.StartPostgres()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pg.Close()) })
	s3 := drill.StartS3(t)
	lake := fmt.Sprintf("extensions: {lakecompactor: {catalog: %q, warehouse: 's3://%s/warehouse', s3: {endpoint: %q, region: %q, access_key_id: %q, secret_access_key: %q}}}\n",
		pg.URL(pg.Database), s3.Bucket, s3.Endpoint, s3.Region, s3.AccessKey, s3.SecretKey)
	s := &scene{Harness: collector.New(t, append([]string{lake, drill.Mirror(s3)}, overlay...)...), pg: pg, s3: s3}
	s.Catalog, s.S3Root = pg.URL(pg.Database), s3.Root
	s.start()
	return s
}

func (s *scene) start() { s.p = s.Start() }

// loss is the end of one volume, and of the process that used it.
type loss struct {
	at   time.Time // nothing is wrong before it
	back time.Time // the next life takes requests
	dir  string    // where the lost log is, for us to look at

	mayGo map[uint64]bool // what exposed found
}

// lose takes the log's directory away from the running process and kills it.
func (s *scene) lose(t *testing.T, loads ...*traffic.Traffic) *loss {
	t.Helper()
	l := &loss{at: time.Now(), dir: filepath.Join(s.Dir, fmt.Sprintf("lost-%d", time.Now().UnixNano()))}
	require.NoError(t, os.Rename(s.WAL(), l.dir))
	s.p.Kill()
	for _, tr := range loads {
		tr.Settle(t)
	}
	require.NoError(t, os.RemoveAll(s.WAL()), "what comes next is an empty volume")
	return l
}

// restart starts the next life on what was recovered.
func (s *scene) restart(l *loss) {
	s.start()
	l.back = time.Now()
}

// exposed are the records of a run that had no copy of a sealed segment when the volume was lost: those in open segments and in
// segments that waited to be copied. Nothing else may be lost.
func (l *loss) exposed(t *testing.T, run string) map[uint64]bool {
	t.Helper()
	entries, err := waldir.List(l.dir)
	require.NoError(t, err)
	out := map[uint64]bool{}
	for _, e := range append(waldir.In(entries, "active"), waldir.In(entries, "mirror-pending")...) {
		numbersIn(t, e.Path, run, out)
	}
	return out
}

// copies are the records of a run that the mirror has.
func (s *scene) copies(t *testing.T, run string) map[uint64]bool {
	t.Helper()
	out := map[uint64]bool{}
	require.NoError(t, filepath.WalkDir(filepath.Join(s.s3.Root, s.s3.Bucket, "wal-mirror"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.Contains(d.Name(), ".arrow") {
			numbersIn(t, path, run, out)
		}
		return err
	}))
	return out
}

func numbersIn(t *testing.T, path, run string, into map[uint64]bool) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, n := range load.NumbersIn(run, data) {
		into[n] = true
	}
}

// machine says where and when, for a report.
func machine(t *testing.T) string {
	t.Helper()
	avg, err := os.ReadFile("/proc/loadavg")
	require.NoError(t, err)
	one, _, _ := strings.Cut(string(avg), " ")
	return fmt.Sprintf("%s, %d CPUs, load average %s", time.Now().UTC().Format("2006-01-02 15:04 UTC"), runtime.NumCPU(), one)
}
