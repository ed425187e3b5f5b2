package lake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

const (
	// ProbePrefix begins the names of the namespaces that Probe makes.
	ProbePrefix = "siglake_doctor_"
	probeTable  = "probe"
	// probeRounds is how often two commits are sent at once. A catalog that compares lets one through each time.
	probeRounds = 5
	// probeAbandoned is how old what another Probe has made must be to be removed: its process was killed.
	probeAbandoned = time.Hour
)

// ErrNoCompare says that the catalog took two commits that were made from the same state of a table.
var ErrNoCompare = errors.New("lake: two commits from one state of a table were both accepted")

// Probed is what Probe found. Nil means: as it should be.
type Probed struct {
	// Warehouse: a file was written there, read back and removed. Nil also where the catalog alone chooses the place.
	Warehouse error
	// Table: namespace and table of the probe were made.
	Table error
	// Compare: of two commits made from one state exactly one was accepted, Rounds times. ErrNoCompare.
	Compare error
	Rounds  int
	// Left says what of the probe could not be removed.
	Left error
}

// Probe tries what a drain relies on, with a file and a table of its own that it removes again: it writes to the warehouse,
// makes a table as the drain does, and sends pairs of commits that were made from one state. Other tables are not
// touched. What a Probe that was killed has left behind more than an hour ago is removed as well.
//
//	ctx   ends the trying; what was made is removed all the same, within the time of one commit
//	safe  beside drains, readers and other probes
func (l *Lake) Probe(ctx context.Context) Probed {
	name := probeName(l.now())
	id := table.Identifier{name, probeTable}
	var out Probed
	if l.readOnly {
		out.Warehouse, out.Table, out.Compare = ErrReadOnly, ErrReadOnly, ErrReadOnly
		return out
	}
	if l.home != "" {
		out.Warehouse = l.probeHome(l.home + "/" + name)
	}
	made, _, err := l.create(ctx, id, otelarrow.Logs)
	if out.Table = err; err == nil {
		out.Rounds, out.Compare = l.probeCommits(ctx, id)
	} else {
		out.Compare = fmt.Errorf("there is no table to try it on: %w", err)
	}
	cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.limits.commitTimeout)
	defer cancel()
	location := ""
	if made != nil {
		location = made.Location()
	}
	out.Left = errors.Join(l.unmake(cleaning, id, location), l.unmakeAbandoned(cleaning))
	return out
}

// probeName says when it was made, for who finds it.
func probeName(now time.Time) string {
	return fmt.Sprintf("%s%x_%s", ProbePrefix, now.Unix(), uuid.NewString()[:8])
}

// abandoned tells whether a namespace was made by a probe that has long ended.
func abandoned(name string, now time.Time) bool {
	rest, ours := strings.CutPrefix(name, ProbePrefix)
	made, _, _ := strings.Cut(rest, "_")
	seconds, err := strconv.ParseInt(made, 16, 64)
	return ours && err == nil && now.Sub(time.Unix(seconds, 0)) > probeAbandoned
}

// probeHome writes a file in the warehouse, reads and removes it.
func (l *Lake) probeHome(name string) (err error) {
	content := []byte("written by siglake doctor, and removed again\n")
	if err := l.io.WriteFile(name, content); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	defer func() {
		if rerr := l.io.Remove(name); rerr != nil {
			err = errors.Join(err, fmt.Errorf("remove %s: %w", name, rerr))
		}
	}()
	got, err := l.io.ReadFile(name)
	if err == nil && !bytes.Equal(got, content) {
		err = fmt.Errorf("%d other bytes came back", len(got))
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return nil
}

// probeCommits returns how many rounds ended as they should.
func (l *Lake) probeCommits(ctx context.Context, id table.Identifier) (rounds int, err error) {
	for round := range probeRounds {
		base, err := l.cat.LoadTable(ctx, id)
		if err != nil {
			return round, err
		}
		accepted, err := l.race(ctx, base)
		if len(accepted) == 0 {
			return round, fmt.Errorf("neither of two commits was accepted: %w", err)
		}
		now, err := l.cat.LoadTable(ctx, id)
		if err != nil {
			return round, err
		}
		var there int
		for _, column := range accepted {
			if _, ok := now.Schema().FindFieldByName(column); ok {
				there++
			}
		}
		if len(accepted) > 1 {
			return round, fmt.Errorf("%w; %d of them can be read", ErrNoCompare, there)
		}
		if there == 0 {
			return round, errors.New("a commit that was accepted cannot be read")
		}
	}
	return probeRounds, nil
}

// race sends two commits at once that add a column to the table as base shows it, with the requirements of a drain that
// adds one. It returns the columns whose commits were accepted.
func (l *Lake) race(ctx context.Context, base *table.Table) (accepted []string, err error) {
	meta := base.Metadata()
	requires := []table.Requirement{
		table.AssertTableUUID(meta.TableUUID()), table.AssertCurrentSchemaID(meta.CurrentSchema().ID),
		table.AssertLastAssignedFieldID(meta.LastColumnID()),
	}
	var (
		mu   sync.Mutex
		errs []error
		both sync.WaitGroup
	)
	for _, who := range []string{"a", "b"} {
		field := iceberg.NestedField{
			ID: meta.LastColumnID() + 1, Name: fmt.Sprintf("probe_%d_%s", meta.LastColumnID()+1, who), Type: iceberg.PrimitiveTypes.String,
		}
		fields := append(slices.Clone(meta.CurrentSchema().Fields()), field)
		updates := []table.Update{
			table.NewAddSchemaUpdate(iceberg.NewSchemaWithIdentifiers(0, meta.CurrentSchema().IdentifierFieldIDs, fields...)),
			table.NewSetCurrentSchemaUpdate(-1),
		}
		both.Go(func() {
			_, _, err := l.cat.CommitTable(ctx, base.Identifier(), requires, updates)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				accepted = append(accepted, field.Name)
			} else {
				errs = append(errs, err)
			}
		})
	}
	both.Wait()
	return accepted, errors.Join(errs...)
}

// unmake removes a table of a probe, what lies at its location, and its namespace. What is not there is no error.
func (l *Lake) unmake(ctx context.Context, id table.Identifier, location string) error {
	err := l.cat.dropTable(ctx, id)
	if err != nil && !errors.Is(err, catalog.ErrNoSuchTable) && !errors.Is(err, catalog.ErrNoSuchNamespace) {
		return fmt.Errorf("drop table %s: %w", strings.Join(id, "."), err)
	}
	if b, err := l.birth(id, otelarrow.Logs); err == nil && location == "" {
		location = b.location // where it would be
	}
	var errs []error
	// A catalog that chooses the place looks after it.
	if l.home != "" && strings.HasPrefix(location, l.home+"/") {
		if err := l.clear(location[:strings.LastIndexByte(location, '/')], location); err != nil {
			errs = append(errs, fmt.Errorf("remove %s: %w", location, err))
		}
	}
	there, err := l.cat.CheckNamespaceExists(ctx, id[:1])
	if err == nil && there {
		err = l.cat.DropNamespace(ctx, id[:1])
	}
	if err != nil && !errors.Is(err, catalog.ErrNoSuchNamespace) {
		errs = append(errs, fmt.Errorf("drop namespace %s: %w", id[0], err))
	}
	return errors.Join(errs...)
}

// clear removes all below a location, and of a local one its directories and the one above it.
func (l *Lake) clear(above, location string) error {
	dirs := []string{above}
	err := l.io.WalkDir(location, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			dirs = append(dirs, name)
			return nil
		}
		return l.io.Remove(name)
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if isObject(location) || err != nil {
		return err
	}
	for _, dir := range slices.Backward(dirs) {
		if rerr := l.io.Remove(dir); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
			return rerr
		}
	}
	return nil
}

// unmakeAbandoned removes what probes have left that did not live to remove it.
func (l *Lake) unmakeAbandoned(ctx context.Context) error {
	names, err := l.Namespaces(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		if !abandoned(name, l.now()) {
			continue
		}
		id := table.Identifier{name, probeTable}
		location := ""
		if t, err := l.cat.LoadTable(ctx, id); err == nil {
			location = t.Location()
		}
		errs = append(errs, l.unmake(ctx, id, location))
	}
	return errors.Join(errs...)
}
