package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/siglakecol/siglakecol/internal/segment"
)

// checkPlace returns the absolute path of --to. It refuses a directory that is no root and lies around the log of this command line
// or inside it: made a root it would keep the collector from its own.
func (a *app) checkPlace(to string) (string, error) {
	place, err := filepath.Abs(to)
	if err != nil {
		return "", fmt.Errorf("--to: %w", err)
	}
	log, err := filepath.Abs(a.walDir())
	if err != nil {
		return "", fmt.Errorf("find the log: %w", err)
	}
	if _, err := segment.Open(a.fs, place); err == nil || place == log {
		return place, nil
	}
	const known = "by --data, SIGLAKE_DATA or --wal it is %s; give that, or --wal %s, too, if the collector has it as wal::directory"
	switch above, below, _ := segment.Nearby(a.fs, place); { // what cannot be read Vacant says
	case above != "" || below != "": // refused by whoever makes the root
	case isBelow(log, place):
		err = usageError("--to: %s is no log, it is around one: "+known, to, log, to)
	case isBelow(place, log):
		err = usageError("--to: %s is inside a log: "+known, to, log, to)
	case errors.Is(segment.Vacant(a.fs, place), segment.ErrNotEmpty) && a.holdsData(place):
		err = usageError("--to: %s is a data directory, in which the log has a directory of its own; give %s", to, filepath.Join(to, "wal"))
	}
	return place, err
}

// isBelow tells whether an absolute path is below a directory.
func isBelow(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != "." && filepath.IsLocal(rel)
}

// holdsData tells whether a directory has what lies beside a log as shipped.
func (a *app) holdsData(dir string) bool {
	for _, name := range []string{"wal", "catalog.db", "warehouse"} {
		if _, err := a.fs.Stat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}
