package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/siglakecol/siglakecol/internal/drain"
	"github.com/siglakecol/siglakecol/internal/lake"
)

// The checks of catalog and warehouse.
var (
	catalogReach = check{
		name: "catalog-reach", costs: "nothing is drained: the log grows until requests are refused",
		fix: "correct --catalog or SIGLAKE_CATALOG and the credentials, or start the server",
	}
	catalogFileSystem = check{
		name: "catalog-file-system", costs: "commits can be lost with the power, the container or the server, after the log has let go of their rows",
		fix: "put the catalog file on ext4 or xfs of a disk attached to this machine, or use postgres://",
	}
	catalogTables = check{
		name: "catalog-tables", costs: "what cannot be read is neither drained to nor queried",
		fix: "look at the table that is named; give this machine the right to read the warehouse",
	}
	catalogClock = check{
		name: "catalog-clock", costs: "no commit is made until this machine's clock has reached the last one",
		fix: "set the clock of this machine by NTP",
	}
	catalogAge = check{
		name: "catalog-age", costs: "nothing is committed to the table: its rows wait in the log until that is full",
		fix: "bring back what the catalog does not know",
	}
	catalogWrite = check{
		name: "catalog-write", costs: "no table can be made: what is sent to a new index stays in the log",
		fix: "give the identity the right to make namespaces and tables",
	}
	catalogCompare = check{
		name: "catalog-compare-and-set", costs: "two drains, or a drain and another engine, overwrite each other's commits: rows are lost",
		fix: "use a catalog that refuses a commit whose requirements do not hold",
	}
	catalogClean  = check{name: "catalog-clean-up", costs: "a namespace " + lake.ProbePrefix + "… stays in the catalog"}
	warehouseDisk = check{
		name: "warehouse-file-system", costs: "files of tables can be lost with the power, the container or the server, after the log has let go of their rows",
		fix: "put the warehouse on ext4 or xfs of a disk attached to this machine, or into an object store",
	}
	warehouseWrite = check{
		name: "warehouse-write", costs: "nothing is drained: the log grows until requests are refused",
		fix: "give the identity the right to write, read and delete below the warehouse",
	}
)

func lakeTries() []check { return []check{warehouseWrite, catalogWrite, catalogCompare} }

// probeGrace is how long the probe of a catalog may take to put away what it made: the time of one commit and a little.
const probeGrace = 75 * time.Second

// checkLake looks at catalog and warehouse, and with --write tries them.
func (d *doctor) checkLake(ctx context.Context) {
	d.silent = false
	opt, err := d.lakeOptions(false)
	if err == nil {
		err = opt.Validate()
	}
	if err != nil {
		d.report(catalogReach, ok(err, ""))
		return
	}
	var l *lake.Lake
	none, lost := false, false
	reached := d.try(ctx, catalogReach, func(ctx context.Context) verdict {
		opened, err := d.openLake(ctx, true)
		if none = errors.Is(err, lake.ErrNoCatalog); none {
			if lost = d.lostCatalog(); lost {
				return verdict{unknown, err.Error(), "run " + d.next("catalog-repair")}
			}
			return verdict{unknown, err.Error(), "if it is the right place, start the collector once"}
		}
		if ctx.Err() != nil && err == nil {
			return ok(errors.Join(ctx.Err(), opened.Close()), "")
		}
		l = opened
		return ok(err, "the catalog answers")
	})
	d.checkPlaces(ctx, opt)
	if lost {
		d.report(catalogAge, verdict{
			warned, "there is no catalog, and rows were committed to one from this log",
			"before a collector starts, which makes an empty one, run " + d.next("catalog-repair"),
		})
		d.skip("there is no catalog to ask", append([]check{catalogTables, catalogClock}, lakeTries()...)...)
		return
	}
	if d.silent || !reached || none {
		d.skip("there is no catalog to ask", append([]check{catalogTables, catalogAge, catalogClock}, lakeTries()...)...)
		return
	}
	d.lookAtTables(ctx, l)
	if err := l.Close(); err != nil {
		d.report(catalogReach, verdict{warned, "close the catalog: " + err.Error(), ""})
	}
	d.writeLake(ctx, opt)
}

// checkPlaces looks at the disks that catalog and warehouse are on, where they are on this machine's.
func (d *doctor) checkPlaces(ctx context.Context, opt lake.Options) {
	catalog, warehouse := opt.LocalPlaces()
	for _, p := range []struct {
		check check
		path  string
	}{
		{catalogFileSystem, catalog},
		{warehouseDisk, warehouse},
	} {
		if p.path == "" {
			continue
		}
		d.try(ctx, p.check, func(context.Context) verdict {
			at := p.path
			for {
				if _, err := d.fs.Stat(at); !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
					return d.fileSystem(at)
				}
				at = filepath.Dir(at)
			}
		})
	}
}

// lookAtTables reads the metadata of every table.
func (d *doctor) lookAtTables(ctx context.Context, l *lake.Lake) {
	var tables []lake.TableInfo
	d.try(ctx, catalogTables, func(ctx context.Context) verdict {
		found, err := l.Tables(ctx)
		if err != nil {
			return ok(err, "")
		}
		left := ""
		for _, t := range found {
			if strings.HasPrefix(t.Namespace, lake.ProbePrefix) {
				left = t.Namespace
			} else {
				tables = append(tables, t)
			}
		}
		if left != "" {
			return verdict{warned, "namespace " + left + " is a doctor's that runs, or was killed", d.dropLeft()}
		}
		return verdict{passed, plural(len(tables), "table", "tables") + " can be read", ""}
	})
	d.try(ctx, catalogAge, func(ctx context.Context) verdict { return d.judgeAge(ctx, l) })
	d.try(ctx, catalogClock, func(context.Context) verdict { return judgeCommits(tables) })
}

// judgeAge looks for tables of which the catalog shows less than was committed to them from the log.
func (d *doctor) judgeAge(ctx context.Context, l *lake.Lake) verdict {
	root, err := d.openRoot()
	if err != nil {
		return verdict{skipped, "there is no log to hold it against", ""}
	}
	back, err := drain.Standings(ctx, l, root)
	for _, p := range back {
		switch p.Standing {
		case lake.WentBack:
			return verdict{failed, p.String(), "run " + d.next("catalog-repair")}
		case lake.Unlisted:
			return verdict{warned, p.String(), "if it was not dropped on purpose, run " + d.next("catalog-repair")}
		}
	}
	return ok(err, "the tables show what was committed from this log")
}

// dropLeft says what to do about what a doctor has left in the catalog.
func (d *doctor) dropLeft() string {
	return "run " + d.next("doctor", "--write") + " again in an hour, or drop it"
}

// judgeCommits looks for a last commit in the future. By the system's clock: that is what commits are stamped with.
func judgeCommits(tables []lake.TableInfo) verdict {
	if len(tables) == 0 {
		return verdict{skipped, "no table has a commit yet", ""}
	}
	for _, t := range tables {
		if ahead := time.Until(t.LastCommit); ahead > lake.AllowedSkew {
			return verdict{failed, fmt.Sprintf("the last commit of %s.%s is %s ahead of this machine's clock", t.Namespace, t.Name, ahead.Round(time.Second)), ""}
		}
	}
	return verdict{passed, "the last commits are in the past", ""}
}

// writeLake tries catalog and warehouse with a table of its own.
func (d *doctor) writeLake(ctx context.Context, opt lake.Options) {
	if !d.write {
		d.skip("it would write; give --write", lakeTries()...)
		return
	}
	if _, dir := opt.LocalPlaces(); dir != "" {
		// Opening the lake would make the directory.
		if _, err := d.fs.List(dir); errors.Is(err, fs.ErrNotExist) {
			d.skip(dir+" is not there yet; the collector makes it", lakeTries()...)
			return
		}
	}
	var p lake.Probed
	tried := false
	probing := catalogWrite
	probing.grace = probeGrace
	d.try(ctx, probing, func(ctx context.Context) (v verdict) {
		l, err := d.openLake(ctx, false)
		if err != nil {
			return ok(err, "")
		}
		got := l.Probe(ctx)
		err = errors.Join(got.Table, l.Close())
		p, tried = got, true
		return ok(err, "a namespace with a table was made and dropped")
	})
	if d.silent || !tried {
		d.skip("the catalog could not be opened for writing", warehouseWrite, catalogCompare)
		return
	}
	if opt.Warehouse == "" {
		d.skip("the catalog chooses the place", warehouseWrite)
	} else {
		d.report(warehouseWrite, ok(p.Warehouse, "a file was written, read and removed"))
	}
	v := ok(p.Compare, "of two commits from one state exactly one was accepted, %d times", p.Rounds)
	if p.Table != nil {
		v = verdict{skipped, p.Compare.Error(), ""}
	}
	d.report(catalogCompare, v)
	if p.Left != nil {
		d.report(catalogClean, verdict{warned, p.Left.Error(), d.dropLeft()})
	}
}
