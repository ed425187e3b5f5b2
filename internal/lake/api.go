package lake

import (
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/objstore"
	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// Options say where the lake is. The zero values of Logger, Meter and Now mean none, none and time.Now.
type Options struct {
	// Catalog is one of
	//
	//	sqlite:///absolute/path, sqlite://./relative/path   a file; its directory must exist
	//	postgres://user@host:port/database?sslmode=…       what it leaves out comes from PGPASSWORD and the other PG* variables
	//	rest+https://host/path, rest+http://host/path       an Iceberg REST catalog
	//
	// It may hold a password. No error, log line or metric repeats that.
	Catalog string
	// Warehouse is where new tables go: a directory as a path or a file:// URL, made when it is missing;
	// s3://bucket/prefix, gs://bucket/prefix or azblob://container/prefix. Empty is allowed with a REST catalog, which
	// then chooses the place. Unused, and not needed, when ReadOnly: the catalog knows where its tables are.
	Warehouse string
	S3        objstore.S3 // how s3:// is reached
	REST      REST        // how rest+https:// is spoken to
	// ReadOnly never creates or changes anything; Ensure and Commit return ErrReadOnly.
	ReadOnly bool
	// Promote are the attributes that have columns of their own. Nil: each table's are those it remembers, which is
	// for who has no configuration to read them from.
	Promote *otelarrow.Promotions

	Logger *zap.Logger
	Meter  metric.Meter
	Now    func() time.Time
}

// REST says how an Iceberg REST catalog is spoken to.
type REST struct {
	Token      string // bearer token; empty: see Credential
	Credential string // id:secret for OAuth2 client credentials; empty: no authentication
	OAuth2URI  string // where Credential is exchanged for a token; empty: the catalog's own, /v1/oauth/tokens
	Scope      string // of the token; empty: catalog
	Warehouse  string // the catalog's name for the warehouse, if it has several
	Prefix     string // of the catalog's paths, unless it tells it itself
	TLS        *tls.Config
}

// Segment is one WAL segment offered to Commit.
type Segment struct {
	// ID names the segment in the proof and in the column segment_id.
	ID string
	// Batches hold the segment's rows in order, schema otelarrow.WALSchema. Commit does not keep or release them.
	Batches []arrow.RecordBatch
	// Rows is the sum of the batches' rows.
	Rows int64
	// Doubtful says that the segment may have been committed by a process that did not live to mark it: recovered,
	// orphaned, requeued, or present when this drain started. Unless the proof names it, the table is asked.
	Doubtful bool
	// Written is how many of its rows an earlier Commit of the caller wrote. They are no duplicates.
	Written int64
	// ModTime of the segment's file; zero if unknown. With the time inside ID it decides whether the proof covers
	// the segment's whole life.
	ModTime time.Time
}

// Outcome says what Commit did. It is right also when Commit returns an error, as far as it goes.
type Outcome struct {
	// Committed is, per segment id, how many of its rows are known to be in the table now: rows [0, n), counting
	// those found already there. An id that is missing is not known to have any.
	Committed map[string]int64
	// Snapshot is the id of the last snapshot this call made; 0 if it made none.
	Snapshot     int64
	RowsWritten  int64
	FilesWritten int64
	// Duplicates counts rows offered that were found in the table already and were not written again.
	Duplicates int64
	// Cut says that the last transaction reached its bound of day partitions: it took a beginning of the segments' rows,
	// and the call ended with it.
	Cut bool
}

// TableInfo describes a table as of its current snapshot.
type TableInfo struct {
	Namespace  string
	Name       string
	Signal     string // what its rows are: logs, traces, metrics; "" in a table that was made by others
	UUID       uuid.UUID
	Rows       int64
	Files      int64
	Bytes      int64
	Snapshots  int
	LastCommit time.Time // zero for a table without snapshots
	Location   string
}

// Plan is what a reader needs to scan a table.
type Plan struct {
	Table       TableInfo
	SnapshotID  int64 // 0 for a table without snapshots
	Files       []PlanFile
	DeleteFiles int // a reader that does not apply deletes must refuse a plan with any
	Schema      []PlanColumn
	// Unreadable says what of the table this plan cannot express; a reader must refuse it unless it is "".
	Unreadable string

	meta table.Metadata // nil of a table that nobody has made
}

// PlanFile is one Parquet file. Path is an operating-system path for a local file and a URL for an object in a bucket;
// Lake.OpenFile reads both.
type PlanFile struct {
	Path  string
	Rows  int64
	Bytes int64
	// Min and Max bound the column timestamp of its rows; zero = not known.
	Min, Max time.Time
}

// PlanColumn is one top-level column. DuckDBType is its type in DuckDB's syntax, MAP, STRUCT and LIST included.
type PlanColumn struct {
	FieldID    int
	Name       string
	DuckDBType string
	Required   bool
}

// What a caller branches on.
var (
	// ErrNoCatalog: a read-only lake found no catalog file or database, or one without Iceberg tables in it.
	ErrNoCatalog = errors.New("lake: no catalog")
	// ErrNoHome is an ErrNoCatalog: nor is there the database, or the warehouse of a REST server, that would hold one. A lake makes none.
	ErrNoHome = fmt.Errorf("%w, nor a place for one", ErrNoCatalog)
	// ErrMetadataGone: the metadata file that the catalog shows of a table is not there. It is an fs.ErrNotExist.
	ErrMetadataGone = errors.New("lake: the metadata file that the catalog shows is gone; restore it from a copy of the warehouse; where there is none, siglake catalog-repair sets the table to another state")
	// ErrReadOnly: the lake was opened read-only.
	ErrReadOnly = errors.New("lake: opened read-only")
	// ErrNoTable: the catalog does not know the table.
	ErrNoTable = errors.New("lake: no such table")
	// ErrShape: the table exists with columns or partitions this version must not write to.
	ErrShape = errors.New("lake: table has an incompatible shape")
	// ErrProof: the table's proof cannot be read. Nothing is written until a person has looked.
	ErrProof = errors.New("lake: consumed-proof is unreadable")
	// ErrCatalogGone: the catalog file was deleted or replaced while it was open. What was committed since is in no table.
	ErrCatalogGone = errors.New("lake: the catalog file was deleted or replaced while in use")
	// ErrClock: this machine's clock is behind the table's last commit by more than Iceberg allows.
	ErrClock = errors.New("lake: clock is behind the table")
)

// IncarnationError says that the catalog now holds another table of the same name. Nothing was written to it.
type IncarnationError struct {
	Table      string
	Want, Have uuid.UUID
}

func (e *IncarnationError) Error() string {
	return fmt.Sprintf("lake: table %s is another incarnation: want uuid %s, have %s", e.Table, e.Want, e.Have)
}

// GoneBackError says that the catalog shows an older state of the table than one that was seen before, as after a
// restore from a backup; or the same metadata file with older content, as after a wrong file was put back under its name.
// Nothing was written.
type GoneBackError struct {
	Table                      string
	WantSequence, HaveSequence int64
	WantMetadata, HaveMetadata string
}

func (e *GoneBackError) Error() string {
	if e.HaveMetadata == e.WantMetadata && e.HaveSequence < e.WantSequence {
		return fmt.Sprintf("lake: table %s went back: %s", e.Table, olderContent(e.WantMetadata, e.WantSequence, e.HaveSequence))
	}
	return fmt.Sprintf("lake: table %s went back: seen before: sequence %d (%s), now: sequence %d (%s); siglake catalog-repair brings back what is missing",
		e.Table, e.WantSequence, e.WantMetadata, e.HaveSequence, e.HaveMetadata)
}

// olderContent says that a metadata file shows less than it did, and what to do.
func olderContent(metadata string, want, have int64) string {
	return fmt.Sprintf("the content of its metadata file is older than the file's name: sequence %d was committed as %s, which has sequence %d now; "+
		"put the right content of that file back from a copy of the warehouse", want, metadata, have)
}

// SegmentError says that the rows of one segment cannot be read. Nothing was written; without that segment the same
// Commit can go on.
type SegmentError struct {
	ID  string
	Err error
}

func (e *SegmentError) Error() string { return fmt.Sprintf("segment %s: %v", e.ID, e.Err) }

func (e *SegmentError) Unwrap() error { return e.Err }

// UnknownError says that a commit was sent and that its outcome could not be learned. The data files stay. Offer the
// same segments again: the next Commit finds out.
type UnknownError struct {
	Table    string
	CommitID string
	Attempts int
	Err      error
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("lake: commit %s to %s after %d attempts: outcome unknown: %v", e.CommitID, e.Table, e.Attempts, e.Err)
}

func (e *UnknownError) Unwrap() error { return e.Err }
