package lake

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// Properties of a table that are ours.
const (
	propSignal = "siglake.signal"
	propProof  = "siglake.consumed-proof"
)

// Summary properties of a snapshot that are ours: for people and for finding a commit again.
const (
	sumCommitID = "siglake.commit-id"
	sumSegments = "siglake.segments"
)

// previousVersions of metadata.json stay on disk. Each holds the whole proof; twenty are enough to see what happened.
const previousVersions = "20"

// newTableProperties are those of a new table. An operator may change them later, the proof apart.
func newTableProperties(s otelarrow.Signal, l limits) iceberg.Properties {
	props := iceberg.Properties{
		propSignal:                                s.String(),
		table.WriteFormatDefaultKey:               "parquet",
		table.ParquetCompressionKey:               "zstd",
		table.ParquetCompressionLevelKey:          strconv.Itoa(zstdLevel),
		table.WriteTargetFileSizeBytesKey:         strconv.FormatInt(l.fileBytes, 10),
		table.ManifestMergeEnabledKey:             "true",
		table.ManifestTargetSizeBytesKey:          strconv.Itoa(manifestBytes),
		table.MetadataDeleteAfterCommitEnabledKey: "true",
		table.MetadataPreviousVersionsMaxKey:      previousVersions,
		// iceberg-go's own retry replays property values and would put an old proof over a newer one.
		table.CommitNumRetriesKey: "0",
	}
	for _, name := range unboundedText {
		// For writers that are not ours: a bound of such a column may be wrong (see parquet.go).
		props[table.MetricsModeColumnConfPrefix+"."+name] = "counts"
	}
	return props
}

// Table is one table of the lake. Safe for concurrent use; commits to it take turns.
type Table struct {
	lake   *Lake
	id     table.Identifier
	signal otelarrow.Signal
	uuid   uuid.UUID
	// turn holds one token: who has it may commit.
	turn chan struct{}
	// unmerged commits were made since it was last looked whether manifests are to be merged; looked says that nothing
	// was left to merge then. Of whoever has the turn.
	unmerged int
	looked   bool
	dropped  dropped

	mu       sync.Mutex
	head     head
	expected head // by whoever kept it outside the catalog; zero: nothing is known
}

// head is the newest state of a table that was seen.
type head struct {
	sequence int64
	metadata string
}

// UUID is the identity of this incarnation of the table.
func (t *Table) UUID() uuid.UUID { return t.uuid }

// Name is namespace and name with a dot between them.
func (t *Table) Name() string { return strings.Join(t.id, ".") }

// Head returns the newest state of the table this process has seen: its last sequence number and the location of
// its metadata. Keep it outside the catalog, and give it to Expect after a restart.
func (t *Table) Head() (sequence int64, metadata string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.head.sequence, t.head.metadata
}

// InPlace returns ErrCatalogGone when the file of a SQLite catalog was deleted or replaced since it was opened: then
// nothing that was committed through this Table may be taken for committed any more.
func (t *Table) InPlace() error { return t.lake.stillThere() }

// Expect says what was seen of this incarnation of the table before. A catalog that shows an older state makes
// Commit and Lookup return a GoneBackError.
func (t *Table) Expect(sequence int64, metadata string) {
	t.see(head{sequence, metadata})
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expected = head{sequence, metadata}
}

// Expect is Table.Expect for a table that may not be open yet, so that maintenance, too, leaves it as it is.
func (l *Lake) Expect(tenant, index string, seen Seen) {
	key := tableKey(table.Identifier{NamespaceOf(tenant), index}, seen.Table)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expected[key] = head{seen.Sequence, seen.Metadata}
	if t := l.tables[key]; t != nil {
		t.Expect(seen.Sequence, seen.Metadata)
	}
}

func tableKey(id table.Identifier, of uuid.UUID) string {
	return strings.Join(id, "\x00") + "\x00" + of.String()
}

// follow notes a state that was held against what was seen and expected before. From then on it is what is expected.
func (t *Table) follow(h head) {
	t.see(h)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.expected.metadata != "" && h.sequence >= t.expected.sequence {
		t.expected = h
	}
}

func (t *Table) see(h head) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h.sequence >= t.head.sequence && h.metadata != "" {
		t.head = h
	}
}

// NamespaceOf is the namespace of a tenant's tables.
func NamespaceOf(tenant string) string {
	if tenant == "default" {
		return "siglake"
	}
	return "tenant_" + tenant
}

// tenantOf is the tenant of a namespace of ours.
func tenantOf(namespace string) string {
	if namespace == NamespaceOf("default") {
		return "default"
	}
	return strings.TrimPrefix(namespace, NamespaceOf(""))
}

// Ensure returns the table of tenant and index for rows of the signal, and makes it when it is missing.
//
//	return   created says that this call made it
//	durable  on return
//	safe     to call twice, at once and by several processes: one of them makes the table
//	errors   ErrShape (a table of that name does not fit), ErrReadOnly
func (l *Lake) Ensure(ctx context.Context, tenant, index string, s otelarrow.Signal) (t *Table, created bool, err error) {
	if l.readOnly {
		return nil, false, ErrReadOnly
	}
	id := table.Identifier{NamespaceOf(tenant), index}
	if err := checkIdentifier(tenant, index); err != nil {
		return nil, false, err
	}
	if err := l.stillThere(); err != nil {
		return nil, false, err
	}
	loaded, err := l.cat.LoadTable(ctx, id)
	if errors.Is(err, catalog.ErrNoSuchTable) {
		loaded, created, err = l.create(ctx, id, s)
	}
	if err != nil {
		return nil, false, loadError(id, err)
	}
	if _, err := fit(strings.Join(id, "."), loaded.Metadata(), s, l.promote); err != nil {
		return nil, false, err
	}
	return l.shared(id, s, loaded), created, nil
}

// checkIdentifier keeps names out of the warehouse that would not be one directory.
func checkIdentifier(tenant, index string) error {
	for _, name := range []string{tenant, index} {
		if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\\\x00") {
			return fmt.Errorf("tenant %q, index %q: not the name of a table", tenant, index)
		}
	}
	return nil
}

// create makes namespace and table. Somebody else may make them at the same time: what counts is that they are there.
//
// In a SQL catalog the table is made by a commit that requires that there is none, not by the catalog's CreateTable:
// that gives the columns new field ids, and after an error it deletes the metadata file even if the catalog points to it
// by then. A REST catalog has its own way (opened.make).
func (l *Lake) create(ctx context.Context, id table.Identifier, s otelarrow.Signal) (*table.Table, bool, error) {
	// A creation that was sent is not torn by the end of ctx.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.limits.commitTimeout)
	defer cancel()
	b, err := l.birth(id, s)
	if err != nil {
		return nil, false, err
	}
	if err := l.createNamespace(ctx, id[:1]); err != nil {
		return nil, false, err
	}
	var location string
	var cerr error
	if l.make != nil {
		location, cerr = l.make(ctx, id, b)
	} else {
		_, location, cerr = l.cat.CommitTable(ctx, id, []table.Requirement{table.AssertCreate()}, b.updates())
	}
	made, err := l.cat.LoadTable(ctx, id)
	if err != nil {
		return nil, false, errors.Join(cerr, err)
	}
	return made, cerr == nil && location == made.MetadataLocation(), nil
}

// birth is what a new table consists of.
type birth struct {
	schema   *iceberg.Schema
	spec     iceberg.PartitionSpec
	order    table.SortOrder
	location string // empty: the catalog chooses
	props    iceberg.Properties
}

func (l *Lake) birth(id table.Identifier, s otelarrow.Signal) (b birth, err error) {
	if b.schema, err = newTableSchema(s); err != nil {
		return b, err
	}
	if b.spec, err = newPartitionSpec(b.schema); err != nil {
		return b, err
	}
	if b.order, err = newSortOrder(b.schema, 1); err != nil {
		return b, err
	}
	if b.props = newTableProperties(s, l.limits); isObject(l.home) {
		b.props[table.MetadataCompressionKey] = "gzip" // it goes over a network, with each commit
	}
	if b.location, err = l.birthplace(id); err != nil {
		return b, fmt.Errorf("find a place for the table: %w", err)
	}
	return b, nil
}

// updates make the table out of nothing.
func (b birth) updates() []table.Update {
	return []table.Update{
		table.NewAddSchemaUpdate(b.schema), table.NewSetCurrentSchemaUpdate(-1), table.NewRemoveSchemasUpdate([]int{0}),
		table.NewAddPartitionSpecUpdate(&b.spec, true), table.NewSetDefaultSpecUpdate(-1),
		table.NewAddSortOrderUpdate(&b.order), table.NewSetDefaultSortOrderUpdate(-1),
		table.NewSetLocationUpdate(b.location), table.NewSetPropertiesUpdate(b.props),
	}
}

func (l *Lake) createNamespace(ctx context.Context, ns table.Identifier) error {
	there, err := l.cat.CheckNamespaceExists(ctx, ns)
	if err != nil || there {
		return err
	}
	if err := l.cat.CreateNamespace(ctx, ns, nil); err != nil {
		if there, cerr := l.cat.CheckNamespaceExists(ctx, ns); cerr != nil || !there {
			return fmt.Errorf("create namespace %s: %w", ns[0], err)
		}
	}
	return nil
}

// shared returns the one Table of this process for an incarnation.
func (l *Lake) shared(id table.Identifier, s otelarrow.Signal, loaded *table.Table) *Table {
	meta := loaded.Metadata()
	key := tableKey(id, meta.TableUUID())
	l.mu.Lock()
	t := l.tables[key]
	if t == nil {
		t = &Table{lake: l, id: id, signal: s, uuid: meta.TableUUID(), turn: make(chan struct{}, 1)}
		t.turn <- struct{}{}
		l.tables[key] = t
		if seen, ok := l.expected[key]; ok {
			t.Expect(seen.sequence, seen.metadata)
		}
		t.see(headOf(loaded)) // a state that comes later is held against it first (load)
	}
	l.mu.Unlock()
	return t
}

func headOf(t *table.Table) head {
	return head{sequence: t.Metadata().LastSequenceNumber(), metadata: t.MetadataLocation()}
}
