package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/siglakecol/siglakecol/internal/objstore"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// doctorFlags are those of doctor.
type doctorFlags struct {
	mirror  string
	write   bool
	timeout time.Duration
}

const doctorLong = `Check the place where siglakecol is to run, or runs: whether the volume of the log, the mirror, the catalog, the warehouse
and the clock do what the promises rest on. Each check ends as pass, warn, fail, unknown or skipped, with what was seen;
what does not pass is followed by what it costs and what to do. -o json has the costs of every check.

It works beside a running collector: it takes no lock of the log and writes into none of its lanes. What it makes it
removes, also after Ctrl-C: files in WALROOT/siglake-wal.doctor, an object siglake-mirror.doctor-… in the mirror. Catalog
and warehouse belong to others as well, so there it only reads, unless --write is given: then it makes a namespace
siglake_doctor_… with one table, sends it pairs of commits of which one must be refused, and drops it.

What it cannot know: that a disk which answers an fsync has written. It tells when the answers come faster than any
disk gives them. No check is a promise.

Exit codes:
  0  nothing failed; warnings and unknowns do not count
  1  doctor itself failed, or was interrupted
  2  wrong usage
  4  a check failed`

func newDoctor(a *app) *cobra.Command {
	var f doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check volume, mirror, catalog and clock: what fails, what that costs, what to do",
		Long:  doctorLong,
		Example: `  siglake doctor --data /var/lib/siglakecol
  siglake doctor --mirror s3://telemetry/wal-mirror
  siglake doctor --write -o json | jq '.checks[] | select(.result == "fail")'`,
		Args: args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd.Context(), cmd, f) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.mirror, "mirror", a.getenv("SIGLAKE_WAL_MIRROR_URL"), "URL of the mirror (environment: SIGLAKE_WAL_MIRROR_URL)")
	fl.BoolVar(&f.write, "write", false, "also write to the catalog and the warehouse: a table of its own, dropped again")
	fl.DurationVar(&f.timeout, "timeout", 15*time.Second, "the time one check may take")
	a.outputFlag(cmd, "text", "json")
	return cmd
}

// Results of a check.
const (
	passed  = "pass"
	warned  = "warn"
	failed  = "fail"
	unknown = "unknown"
	skipped = "skipped"
)

// check is what is looked at, whatever comes of it.
type check struct {
	name  string
	costs string // a failure
	fix   string
	// grace is how long a check that is out of time may take to put away what it made; 0: a second.
	grace time.Duration
}

// verdict is what came of a check.
type verdict struct {
	result, seen string
	fix          string // a better one than the check's
}

// finding is a line of the report.
type finding struct {
	Check  string `json:"check"`
	Result string `json:"result"`
	Seen   string `json:"seen"`
	Costs  string `json:"costs"` // what a failure of it costs
	Fix    string `json:"fix"`
}

// doctor is one run of the checks.
type doctor struct {
	*app

	doctorFlags

	found []finding
	// silent says that something did not answer: what else it is asked would only cost the time again.
	silent bool
}

func (a *app) doctor(ctx context.Context, cmd *cobra.Command, f doctorFlags) error {
	if f.timeout <= 0 {
		return usageError("--timeout: %s is no time to give a check", f.timeout)
	}
	d := &doctor{app: a, doctorFlags: f}
	var mirror objstore.Location
	if f.mirror != "" {
		var err error
		if mirror, err = objstore.ParseURL(f.mirror); err != nil {
			return usageError("--mirror: %w", err)
		}
	}
	began := time.Now() // on both clocks, of the day and monotonic
	d.checkWAL(ctx)
	d.checkMirror(ctx, mirror)
	d.checkLake(ctx)
	d.checkClock(ctx, began)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	out := doctorReport{Checks: d.found}
	for _, r := range d.found {
		switch r.Result {
		case failed:
			out.Failed++
		case warned:
			out.Warned++
		}
	}
	var err error
	if a.output == "json" {
		err = writeJSON(cmd.OutOrStdout(), out)
	} else {
		err = out.write(cmd.OutOrStdout())
	}
	if err != nil {
		return err
	}
	return out.verdict()
}

// try runs a check within its time and reports it. It returns whether the check did not fail. A call that does not come back
// is left alone.
func (d *doctor) try(ctx context.Context, c check, look func(context.Context) verdict) bool {
	if ctx.Err() != nil {
		return false
	}
	if d.silent {
		d.report(c, verdict{skipped, "it did not answer before", ""})
		return false
	}
	limited, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	done := make(chan verdict, 1)
	go func() { done <- look(limited) }()
	var v verdict
	select {
	case v = <-done:
	case <-limited.Done():
		select {
		case v = <-done:
		case <-time.After(max(c.grace, time.Second)):
			d.silent = true
		}
	}
	if d.silent || v.result == failed && errors.Is(limited.Err(), context.DeadlineExceeded) {
		v = verdict{failed, strings.TrimRight(fmt.Sprintf("no answer within %s: %s", d.timeout, v.seen), ": "), ""}
	}
	d.report(c, v)
	return v.result != failed
}

// skip reports checks that there is nothing to look at for.
func (d *doctor) skip(why string, checks ...check) {
	for _, c := range checks {
		d.report(c, verdict{skipped, why, ""})
	}
}

func (d *doctor) report(c check, v verdict) {
	f := finding{Check: c.name, Result: v.result, Seen: v.seen, Costs: c.costs, Fix: c.fix}
	if v.fix != "" {
		f.Fix = v.fix
	}
	d.found = append(d.found, f)
}

// ok is a verdict on an error: nil passes with what was seen.
func ok(err error, format string, args ...any) verdict {
	if err != nil {
		return verdict{failed, err.Error(), ""}
	}
	return verdict{passed, fmt.Sprintf(format, args...), ""}
}

// fileSystem judges the file system that a directory of ours is on.
func (d *doctor) fileSystem(dir string) verdict {
	v, err := d.kernel.volume(dir)
	if err != nil {
		return verdict{unknown, err.Error(), ""}
	}
	seen := fmt.Sprintf("%s, %s at %s", v.Type, v.Source, v.Mount)
	if risk := riskyOption(v); risk != "" {
		return verdict{failed, fmt.Sprintf("%s, mounted with %s: an fsync does not reach the disk", seen, risk), "mount it without " + risk}
	}
	switch kindOfVolume(v.Type) {
	case covered:
		return verdict{passed, seen, ""}
	case inMemory:
		return verdict{failed, seen + ": memory, gone with the power", ""}
	case layered:
		return verdict{failed, seen + ": the layer of a container, gone with it", ""}
	case remote:
		return verdict{warned, seen + ": on a server or behind a program, which the promise does not cover", ""}
	default:
		return verdict{warned, seen + ": not tested with power cuts, as ext4 and xfs are", ""}
	}
}

// riskyOption is an option of a mount that takes the effect from fsync; empty if there is none.
func riskyOption(v vfs.Volume) string {
	for _, o := range []string{"nobarrier", "barrier=0", "volatile"} {
		if v.Has(o) {
			return o
		}
	}
	return ""
}

// Kinds of file systems.
const (
	covered  = iota // by the promise of wait_for
	inMemory        //
	layered         // of a container
	remote          // on a server, or served by a program
	untested
)

func kindOfVolume(fsType string) int {
	switch name, _, _ := strings.Cut(fsType, "."); name {
	case "ext4", "xfs":
		return covered
	case "tmpfs", "ramfs", "devtmpfs", "hugetlbfs":
		return inMemory
	case "overlay", "overlayfs", "aufs":
		return layered
	case "nfs", "nfs4", "cifs", "smb3", "smbfs", "ceph", "glusterfs", "fuse", "fuseblk", "9p", "virtiofs", "lustre", "gpfs", "afs", "beegfs", "ocfs2", "gfs2", "orangefs":
		return remote
	default:
		return untested
	}
}
