package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/siglakecol/siglakecol/internal/drain"
	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// lateAge is when a sealed segment has waited so long that somebody should know: the gate of a drain is 10 s by
// default and stretches under load.
const lateAge = 2 * time.Minute

// walStatus is the write-ahead log.
type walStatus struct {
	Dir       string       `json:"dir"`
	UUID      string       `json:"uuid"`
	Lock      string       `json:"last_lock_holder,omitempty"`       // who wrote LOCK; it may have gone
	DrainLock string       `json:"last_drain_lock_holder,omitempty"` // who wrote drain.lock, a drain or not; it may have gone
	Lanes     []laneStatus `json:"lanes"`
	Strangers []string     `json:"strangers,omitempty"`
}

// tableStatus is one Iceberg table.
type tableStatus struct {
	Namespace  string     `json:"namespace"`
	Name       string     `json:"name"`
	Signal     string     `json:"signal,omitempty"` // of its rows; absent in a table that was made by others
	UUID       string     `json:"uuid"`
	Rows       int64      `json:"rows"`
	Files      int64      `json:"files"`
	Bytes      int64      `json:"bytes"`
	Snapshots  int        `json:"snapshots"`
	LastCommit *time.Time `json:"last_commit,omitempty"`
	Location   string     `json:"location"`
}

// advice is something that wants a person, and the next command.
type advice struct {
	What    string `json:"what"`
	Command string `json:"command,omitempty"`
}

type statusReport struct {
	WAL    walStatus     `json:"wal"`
	Tables []tableStatus `json:"tables"`
	// TablesError says why tables are missing from the list.
	TablesError string   `json:"tables_error,omitempty"`
	Next        []advice `json:"next"`
}

func newStatus(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "One screen: where the rows are, and what to do about what is wrong",
		Long: `Show how many segments each lane has in each state, what is still on its way to the tables, the tables, and the
next command for everything that wants a person.

PENDING is what no table has yet: active, sealed, processing and orphans. OLDEST is the age of the oldest
sealed segment of it. Exits 0 also when something is wrong; read the section "Next", or .next in JSON.`,
		Example: "  siglake status\n  siglake status --data /var/lib/siglakecol -o json | jq .next",
		Args:    args(0, 0, "no arguments"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.status(cmd.Context(), cmd.OutOrStdout()) },
	}
	a.outputFlag(cmd, "text", "json")
	return cmd
}

func (a *app) status(ctx context.Context, w io.Writer) error {
	root, err := a.openRoot()
	if err != nil {
		return err
	}
	rep := statusReport{Tables: []tableStatus{}, Next: []advice{}}
	if rep.WAL, err = a.walStatus(ctx, root); err != nil {
		return err
	}
	var back []*lake.Past
	var late []advice
	tables, err := a.tableStatus(ctx, func(l *lake.Lake, listed []tableStatus) (err error) {
		late = a.adviseLate(ctx, l, listed, rep.WAL.Lanes)
		back, err = drain.Standings(ctx, l, root)
		return err
	})
	if tables != nil {
		rep.Tables = tables
	}
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		rep.TablesError = err.Error()
	}
	rep.Next = append(a.adviseRepair(back), a.adviseTables(err, rep.WAL.Lanes)...)
	rep.Next = append(append(rep.Next, late...), a.adviseRoom(rep.WAL.Lanes)...)
	kinds, err := a.adviseKinds(ctx, root, rep.Tables)
	if err != nil {
		return err
	}
	rep.Next = append(rep.Next, kinds...)
	rep.Next = append(rep.Next, a.advise(&rep)...)
	if a.output == "json" {
		return writeJSON(w, rep)
	}
	return rep.write(w, a.now())
}

// walStatus looks into every directory of the root once.
func (a *app) walStatus(ctx context.Context, root *segment.Root) (walStatus, error) {
	lanes, strangers, err := root.Lanes()
	if err != nil {
		return walStatus{}, err
	}
	out := walStatus{
		Dir: root.Dir(), UUID: root.UUID().String(), Strangers: strangers, Lanes: []laneStatus{},
		Lock: a.holder(root, "LOCK"), DrainLock: a.holder(root, "drain.lock"),
	}
	budget := countBudget
	for _, lane := range lanes {
		st, err := a.laneStatus(ctx, lane, &budget)
		if err != nil {
			return walStatus{}, err
		}
		out.Lanes = append(out.Lanes, st)
	}
	return out, nil
}

// holder returns the text of a lock file. Whether its writer still lives is not known without taking the lock.
func (a *app) holder(root *segment.Root, name string) string {
	b, err := vfs.ReadFile(a.fs, filepath.Join(root.Dir(), name))
	if err != nil {
		return ""
	}
	return strings.Join(strings.Fields(string(b)), " ")
}

// tableStatus lists the tables, and lets also look at the lake. What could be listed is returned also with an error.
func (a *app) tableStatus(ctx context.Context, also func(*lake.Lake, []tableStatus) error) (out []tableStatus, err error) {
	l, err := a.openLake(ctx, true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	infos, err := l.Tables(ctx)
	for _, t := range infos {
		out = append(out, newTableStatus(t))
	}
	return out, drain.Joined(err, also(l, out))
}

// adviseRepair tells of tables that do not show what was committed to them.
func (a *app) adviseRepair(back []*lake.Past) (out []advice) {
	out = []advice{}
	for _, p := range back {
		if p.Standing == lake.Replaced || p.Broken == lake.Damaged { // the drain sets what is the other one's aside, and says so; adviseTables
			continue
		}
		what := p.String() + "; nothing is committed to it, its rows wait in the log"
		if p.Broken == lake.Gone {
			what += "; restore the file from a copy of the warehouse, and where there is none:"
		}
		out = append(out, advice{What: what, Command: a.next("catalog-repair")})
	}
	return out
}

func newTableStatus(t lake.TableInfo) tableStatus {
	s := tableStatus{
		Namespace: t.Namespace, Name: t.Name, Signal: t.Signal, UUID: t.UUID.String(), Rows: t.Rows, Files: t.Files, Bytes: t.Bytes,
		Snapshots: t.Snapshots, Location: t.Location,
	}
	if !t.LastCommit.IsZero() {
		at := t.LastCommit.UTC()
		s.LastCommit = &at
	}
	return s
}

// advise finds what wants a person.
func (a *app) advise(rep *statusReport) []advice {
	var out []advice
	add := func(command, format string, args ...any) {
		out = append(out, advice{What: fmt.Sprintf(format, args...), Command: command})
	}
	for i := range rep.WAL.Lanes {
		l := &rep.WAL.Lanes[i]
		for _, why := range l.RecordErrors {
			add("", "nothing of %s is committed, its rows wait in the log: %s", l.key(), why)
		}
		if l.HoldsError != "" {
			add("", "requests to %s are refused with 503 from the next start of the collector on, unless a segment there says what it holds: %s", l.key(), l.HoldsError)
		}
		if l.Poison > 0 {
			add(a.next("wal-requeue", "--all", "--dry-run", "--lane", l.key()),
				"%s of %s set aside as unreadable; %s rows are in no table", plural(l.Poison, "segment", "segments"), l.key(), agree(l.Poison, "its", "their"))
		}
		if l.Originals > 0 {
			add("", "%s of %s kept in poison/ as ID.arrow.salvaged with a note of what was not brought back; when nobody needs that, delete both",
				plural(l.Originals, "original of a salvaged segment", "originals of salvaged segments"), l.key())
		}
		if l.Stale > 0 {
			add(a.next("stale", "list", "--lane", l.key()),
				"%s of %s written for another incarnation of the table; %s kept and not drained", plural(l.Stale, "segment", "segments"), l.key(), agree(l.Stale, "it is", "they are"))
		}
		if l.Orphans > 0 {
			add(a.next("orphans", "compare", "--all", "--lane", l.key()),
				"%s of %s held until the table can say whether it has %s rows", plural(l.Orphans, "segment", "segments"), l.key(), agree(l.Orphans, "its", "their"))
		}
		if l.isLate() && l.Sealed+l.Processing > 0 {
			add(a.next("drain", "--once"),
				"%s of %s not drained for %s; no drain runs, or it fails (see the collector's log)",
				plural(l.Sealed+l.Processing, "segment", "segments"), l.key(), humanAge(time.Duration(*l.OldestSeconds)*time.Second))
		}
		if len(l.Gaps) > 0 {
			add(a.next("wal", "verify", "--lane", l.key()), "segments of %s are missing, removed or lost: %s", l.key(), some(texts(l.Gaps)))
		}
		if l.GapsError != "" {
			add("", "whether segments of %s are missing is not known: %s", l.key(), l.GapsError)
		}
		if len(l.Strangers) > 0 {
			add("", "%s: ignored, not a segment: %s", l.key(), some(l.Strangers))
		}
	}
	if _, err := vfs.ReadFile(a.fs, filepath.Join(rep.WAL.Dir, segment.DrainLockName)); vfs.NoFile(err) {
		add("", "nothing is drained, rows wait in the log: %v; move it out of the log, the next drain makes another", err)
	}
	if len(rep.WAL.Strangers) > 0 {
		add("", "ignored, not part of a WAL root: %s", some(rep.WAL.Strangers))
	}
	return out
}

func texts(gaps []segment.Gap) []string {
	out := make([]string, len(gaps))
	for i, g := range gaps {
		out[i] = g.String()
	}
	return out
}

// some names the first few of a list.
func some(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
