package measure

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/siglakecol/siglakecol/testbed/internal/load"
)

// lookEvery is how often the metadata of a table is looked for: what freshness is measured to.
const lookEvery = 25 * time.Millisecond

// published follows a table by the metadata files of its directory. Each is written just before the catalog points to it.
type published struct {
	dir string

	mu      sync.Mutex
	newest  string
	commits []commit
}

// commit is when a table was first seen to have so many rows.
type commit struct {
	at   time.Time
	rows int
}

func (p *published) watch(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		p.look()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look reads the newest metadata file if it is another one than last time. One that is not whole yet is read again.
func (p *published) look() {
	names, err := filepath.Glob(filepath.Join(p.dir, "*.metadata.json"))
	if err != nil || len(names) == 0 {
		return // no table yet
	}
	newest := slices.Max(names) // they begin with a number of fixed width
	p.mu.Lock()
	defer p.mu.Unlock()
	if newest == p.newest {
		return
	}
	rows, ok := totalRecords(newest)
	if !ok {
		return
	}
	p.newest = newest
	if _, had := p.lastLocked(); rows <= had {
		return // maintenance adds none
	}
	p.commits = append(p.commits, commit{time.Now(), rows})
}

func totalRecords(name string) (int, bool) {
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, false
	}
	var table struct {
		Current   int64 `json:"current-snapshot-id"`
		Snapshots []struct {
			ID      int64             `json:"snapshot-id"`
			Summary map[string]string `json:"summary"`
		} `json:"snapshots"`
	}
	if json.Unmarshal(text, &table) != nil {
		return 0, false
	}
	for _, s := range table.Snapshots {
		if s.ID == table.Current {
			n, err := strconv.Atoi(s.Summary["total-records"])
			return n, err == nil
		}
	}
	return 0, true // no snapshot
}

// now is the last commit.
func (p *published) now() (at time.Time, rows int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lastLocked()
}

func (p *published) lastLocked() (at time.Time, rows int) {
	if n := len(p.commits); n > 0 {
		return p.commits[n-1].at, p.commits[n-1].rows
	}
	return time.Time{}, 0
}

func (p *published) all() []commit {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.commits)
}

// freshness is, for each acknowledged request whose rows came into the table after since, the time from its answer until
// then. Rows of one index come in the order of their answers, but for what was under way at the same time.
func freshness(acks []load.Ack, batch int, commits []commit, since time.Time) []time.Duration {
	var out []time.Duration
	next := 0
	for i, a := range acks {
		for next < len(commits) && commits[next].rows < (i+1)*batch {
			next++
		}
		if next == len(commits) {
			break
		}
		if commits[next].at.After(since) {
			out = append(out, max(0, commits[next].at.Sub(a.At)))
		}
	}
	return out
}

// sizeOf adds up the files below dir. What goes meanwhile counts nothing.
func sizeOf(dir string) (sum int64) {
	_ = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), ".") {
			return nil //nolint:nilerr // gone
		}
		if info, err := d.Info(); err == nil {
			sum += info.Size()
		}
		return nil
	})
	return sum
}
