package lake

import (
	"errors"
	"fmt"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// restoreIt is what helps where a file of a table is gone or damaged: nobody else has what is in it.
const restoreIt = "restore it from a copy of the warehouse, or bring back its version in the bucket (docs/operations/disaster-recovery.md)"

// fileError names a file of a table that could not be read. It says what to do where the file is gone or is not what was
// written; a store that does not answer needs no other file.
func (s *stores) fileError(what, location string, err error) error {
	err = fmt.Errorf("read %s %s: %w", what, location, err)
	if _, rerr := s.ReadFile(location); rerr == nil || isAbsent(rerr) {
		return fmt.Errorf("%w; %s", err, restoreIt)
	}
	return err
}

// manifestsOf reads the manifest list of a snapshot.
//
//	errors  fs.ErrNotExist when it is not there
func (s *stores) manifestsOf(snap *table.Snapshot) ([]iceberg.ManifestFile, error) {
	out, err := snap.Manifests(s)
	if err != nil {
		return nil, s.fileError(fmt.Sprintf("the manifest list of snapshot %d,", snap.SnapshotID), snap.ManifestList, err)
	}
	return out, nil
}

// listError is the error of who could not add to a table: that of its manifest list, where that is at fault.
func (s *stores) listError(tbl *table.Table, err error) error {
	if snap := tbl.CurrentSnapshot(); snap != nil {
		if _, lerr := s.manifestsOf(snap); lerr != nil {
			return lerr
		}
	}
	return err
}

// TableError is a table of the catalog that cannot be read, and why.
type TableError struct {
	Namespace, Name string
	Err             error
}

func (e *TableError) Error() string { return e.Err.Error() }

func (e *TableError) Unwrap() error { return e.Err }

// Unreadable are the tables that an error of Tables is about.
func Unreadable(err error) (out []*TableError) {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range many.Unwrap() {
			out = append(out, Unreadable(e)...)
		}
		return out
	}
	if e, ok := errors.AsType[*TableError](err); ok {
		out = append(out, e)
	}
	return out
}
