package wal

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// together puts requests into the queue of lane t/events at one moment, so that they share a group commit, and
// returns their answers in order.
func together(tb testing.TB, l *Log, reqs ...Request) ([]Receipt, []error) {
	tb.Helper()
	ln, err := l.lane("t", "events")
	require.NoError(tb, err)
	ps := make([]*pending, len(reqs))
	for i, r := range reqs {
		schema, err := l.schemas.get(r.Schema)
		require.NoError(tb, err)
		ps[i] = &pending{req: r, schema: schema, done: make(chan error, 1)}
	}
	ln.mu.Lock()
	ln.queue = append(ln.queue, ps[:len(ps)-1]...)
	ln.mu.Unlock()
	ln.enqueue(ps[len(ps)-1])
	receipts, errs := make([]Receipt, len(ps)), make([]error, len(ps))
	for i, p := range ps {
		errs[i] = <-p.done
		receipts[i] = p.receipt
	}
	return receipts, errs
}

// changes is the log of what changed the disk since op k, without directories and ids.
func changes(disk *simfs.FS, since int) []string {
	var out []string
	for _, op := range disk.Ops()[since:] {
		if op.Kind.Changes() {
			out = append(out, string(op.Kind)+" "+short(op.Name)+short(" -> "+op.To))
		}
	}
	return out
}

func short(name string) string {
	if name == " -> " {
		return ""
	}
	arrow := strings.HasPrefix(name, " -> ")
	parts := strings.Split(name, "/")
	last := parts[len(parts)-1]
	if _, ext, ok := strings.Cut(last, "."); ok {
		last = parts[len(parts)-2] + "/*." + ext
	}
	if arrow {
		return " -> " + last
	}
	return last
}

// The order of operations between a request and its answer. ACK-1: under wait_for the segment and each name
// above it are synced before the answer, the names once (A17); under auto nothing is synced; a group has one
// write and one sync.
func TestOrder_A17(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	disk := simfs.New(nil)
	l := open(t, options(disk, "/wal"))
	appendOne := func(mode Mode, id int64) []string {
		from := len(disk.Ops())
		_, err := l.Append(ctx, request(t, mode, id))
		require.NoError(t, err)
		return changes(disk, from)
	}
	first := appendOne(WaitFor, 1)
	made := slices.Index(first, "create active/*.arrow.partial")
	for _, dir := range []struct{ name, parent string }{{"t", "wal"}, {"events", "t"}, {"active", "events"}, {"sealed", "events"}} {
		mkdir := slices.Index(first, "mkdir "+dir.name)
		require.GreaterOrEqual(t, mkdir, 0, dir.name)
		require.Contains(t, first[mkdir:made], "syncdir "+dir.parent, "%s is durable before the segment is created", dir.name)
	}
	require.Equal(t, []string{
		"create active/*.arrow.partial", "writev active/*.arrow.partial", "writev active/*.arrow.partial",
		"sync active/*.arrow.partial", "syncdir active",
	}, first[made:])
	require.Equal(t, []string{"writev active/*.arrow.partial", "sync active/*.arrow.partial"}, appendOne(WaitFor, 2))
	require.Equal(t, []string{"writev active/*.arrow.partial"}, appendOne(Auto, 3))

	from := len(disk.Ops())
	_, errs := together(t, l, request(t, Auto, 4), request(t, WaitFor, 5), request(t, Auto, 6), request(t, WaitFor, 7))
	require.Equal(t, make([]error, 4), errs)
	require.Equal(t, []string{"writev active/*.arrow.partial", "sync active/*.arrow.partial"}, changes(disk, from))

	from = len(disk.Ops())
	require.NoError(t, l.Seal(ctx, "t", "events"))
	require.Equal(t, []string{
		"writev active/*.arrow.partial", "writeat active/*.arrow.partial", "sync active/*.arrow.partial",
		"link active/*.arrow.partial -> sealed/*.arrow", "syncdir sealed", "remove active/*.arrow.partial", "syncdir active",
	}, changes(disk, from))

	require.Equal(t, []string{
		"create active/*.arrow.partial", "writev active/*.arrow.partial", "writev active/*.arrow.partial",
	}, appendOne(Auto, 8), "auto: no sync, with a new segment too")
	require.Equal(t, []string{
		"writev active/*.arrow.partial", "sync active/*.arrow.partial", "syncdir active",
	}, appendOne(WaitFor, 9), "the name is synced before the first answer under wait_for")
	closeLog(t, l)
}

// After a restart a lane's directories are there before the first request: auto syncs nothing at all.
func TestOrder_auto_after_restart(t *testing.T) {
	t.Parallel()
	disk := simfs.New(nil)
	l := open(t, options(disk, "/wal"))
	_, err := l.Append(t.Context(), request(t, Auto, 1))
	require.NoError(t, err)
	closeLog(t, l)
	l = open(t, options(disk, "/wal"))
	from := len(disk.Ops())
	_, err = l.Append(t.Context(), request(t, Auto, 2))
	require.NoError(t, err)
	require.Equal(t, []string{
		"create active/*.arrow.partial", "writev active/*.arrow.partial", "writev active/*.arrow.partial",
	}, changes(disk, from))
	closeLog(t, l)
}

// The group that fills a segment carries the end of the stream and the final header: its sync is the seal's.
func TestOrder_filling_group(t *testing.T) {
	t.Parallel()
	disk := simfs.New(nil)
	opt := options(disk, "/wal")
	opt.MaxEvents = 3
	l := open(t, opt)
	_, err := l.Append(t.Context(), request(t, Auto, 1))
	require.NoError(t, err)
	from := len(disk.Ops())
	_, err = l.Append(t.Context(), request(t, WaitFor, 2, 3))
	require.NoError(t, err)
	closeLog(t, l)
	require.Equal(t, []string{
		"writev active/*.arrow.partial", "writeat active/*.arrow.partial", "sync active/*.arrow.partial", "syncdir active",
		"link active/*.arrow.partial -> sealed/*.arrow", "syncdir sealed", "remove active/*.arrow.partial", "syncdir active",
	}, changes(disk, from))
}
