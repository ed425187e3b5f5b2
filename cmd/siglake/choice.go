package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/siglakecol/siglakecol/internal/drain"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// choice is what commands take that act on segments which were set aside: some by id, or all.
type choice struct {
	command string        // as it is called
	from    segment.State // where they are
	all     bool
	lane    string
	dryRun  bool
}

func (c *choice) flags(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.BoolVar(&c.all, "all", false, fmt.Sprintf("every segment in %s/", c.from))
	fl.StringVar(&c.lane, "lane", "", "with --all: only of this lane, as tenant/index")
}

func (c *choice) dryRunFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "read everything, change nothing")
}

// elsewhere is a segment that was named and is not where the command looks.
type elsewhere struct {
	ID    string `json:"id"`
	Path  string `json:"path"`
	State string `json:"state"`
}

// chosen is what of it there is.
type chosen struct {
	root  *segment.Root
	ids   []segment.ID
	other []elsewhere // named, and in no need of the command
}

// none tells that nothing is left to be done.
func (c chosen) none(ch choice) bool { return !ch.all && len(c.ids) == 0 }

// choose opens the root and turns the arguments into ids.
func (a *app) choose(c choice, args []string) (chosen, error) {
	if c.all == (len(args) > 0) {
		return chosen{}, usageError("%s: name segments, or give --all for every one in %s/ (%s)", c.command, c.from, a.listOf(c.from))
	}
	if c.lane != "" && !c.all {
		return chosen{}, usageError("%s: --lane goes with --all", c.command)
	}
	out := chosen{other: []elsewhere{}}
	var err error
	if out.root, err = a.openRoot(); err != nil {
		return chosen{}, err
	}
	if c.lane != "" {
		if _, _, err := (filter{lane: c.lane}).lanes(out.root); err != nil {
			return chosen{}, err
		}
	}
	for _, arg := range args {
		p, err := resolveAside(out.root, arg, c.from)
		switch {
		case err != nil:
			return chosen{}, err
		case p.state == segment.Stale && c.from != segment.Stale:
			return chosen{}, usageError("segment %s is in stale/ and not in %s/: it was written for another incarnation of its table (%s)",
				p.entry.ID, c.from, a.listOf(segment.Stale))
		case p.state != c.from:
			out.other = append(out.other, elsewhere{p.entry.ID.String(), p.path(), string(p.state)})
		case !slices.Contains(out.ids, p.entry.ID):
			out.ids = append(out.ids, p.entry.ID)
		}
	}
	return out, nil
}

// listOf is the command that lists the segments of a state in which they wait for somebody.
func (a *app) listOf(st segment.State) string {
	if st == segment.Poison {
		return a.next("wal", "ls", "--state", string(st))
	}
	return a.next(string(st), "list")
}

// resolveAside finds the segment of an argument: where it is to be, else where it is.
func resolveAside(root *segment.Root, arg string, from segment.State) (place, error) {
	name, _, _ := strings.Cut(filepath.Base(arg), ".arrow") // a further copy is ID.arrow.2
	id, err := segment.ParseID(name)
	if err != nil {
		return place{}, usageError("%q is no segment id", arg)
	}
	lanes, _, err := root.Lanes()
	if err != nil {
		return place{}, err
	}
	for _, lane := range lanes {
		entries, _, err := lane.List(from)
		if err != nil {
			return place{}, err
		}
		for _, e := range entries {
			if e.ID == id {
				return place{lane, from, e}, nil
			}
		}
	}
	return resolveSegment(root, name)
}

// options say the same to the drain. The function ends what is drawn meanwhile.
func (a *app) options(c choice, ids []segment.ID) (drain.Selection, func()) {
	bar := progress{w: a.stderr, on: a.terminal, now: a.now, text: "read %d of %d segments, %s"}
	return drain.Selection{
		FS: a.fs, WAL: a.walDir(), Logger: a.logger(), Now: a.now, From: c.from, Lane: c.lane, IDs: ids, DryRun: c.dryRun,
		Holder: holder(c.command),
		Progress: func(done, of int, size int64) {
			bar.total = of
			bar.draw(done, size)
		},
	}, bar.clear
}

// holder is what a lock says of a command to whoever is refused meanwhile.
func holder(command string) string {
	host, _ := os.Hostname() // only a text
	return fmt.Sprintf("siglake %s, pid %d on %s", command, os.Getpid(), host)
}

// explainLock says what to do when a drain runs.
func explainLock(err error) error {
	if locked, ok := errors.AsType[*vfs.LockedError](err); ok {
		return fmt.Errorf("a drain runs, and beside it nothing can be moved back: %s is held by %s; stop that process, run this again, start it again",
			locked.Name, locked.Holder)
	}
	return err
}
