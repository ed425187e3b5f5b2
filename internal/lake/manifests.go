package lake

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"go.uber.org/zap"
)

const (
	// manifestFan is how many manifests of one size are merged, where the table does not say
	// (commit.manifest.min-count-to-merge).
	manifestFan = 16
	// manifestBytes is what a merge of manifests takes at most (commit.manifest.target-size-bytes of new tables): Iceberg's
	// default of 8 MiB would decode and write 20,000 entries and more in one commit.
	manifestBytes = 1 << 20
)

// manifestRule says when manifests of a table are merged.
type manifestRule struct {
	fan    int
	target int64 // bytes
}

// manifestRuleOf reads the properties of a table that are about merging. False: it wants none.
func manifestRuleOf(props iceberg.Properties) (manifestRule, bool) {
	return manifestRule{
		fan:    max(2, props.GetInt(table.ManifestMinMergeCountKey, manifestFan)),
		target: props.GetInt64(table.ManifestTargetSizeBytesKey, manifestBytes),
	}, props.GetBool(table.ManifestMergeEnabledKey, true)
}

// class is the size of a manifest: in class c are those with fan^c live files and more. False: it is full, there is nothing
// in it, or it does not say how much.
func (r manifestRule) class(m iceberg.ManifestFile) (c int, ok bool) {
	files, rows := sumOfManifests(m)
	if m.ManifestContent() != iceberg.ManifestContentData || files < 1 || rows < 0 || m.Length() > r.target/2 {
		return 0, false
	}
	for n := files; n >= int64(r.fan); n /= int64(r.fan) {
		c++
	}
	return c, true
}

// sumOfManifests are live files and their rows, -1: one does not say.
func sumOfManifests(manifests ...iceberg.ManifestFile) (files, rows int64) {
	for _, m := range manifests {
		if min(m.AddedDataFiles(), m.ExistingDataFiles()) < 0 || min(m.AddedRows(), m.ExistingRows()) < 0 {
			return -1, -1
		}
		files += int64(m.AddedDataFiles()) + int64(m.ExistingDataFiles())
		rows += m.AddedRows() + m.ExistingRows()
	}
	return files, rows
}

// due are the manifests to merge into one: the oldest of a size of which fan have come together, or more than one merge
// takes. The least size goes first.
//
// What a merge makes is of a greater size, or of a merge that took all it may. So a file's entry is written again once per
// size and a few times in the last, and never once its manifest is full, which it is from half of what a merge takes on: were
// it to grow until nothing fits beside it, it would be written anew for less and less, and in the end for each commit.
func (r manifestRule) due(newestFirst []iceberg.ManifestFile) []iceberg.ManifestFile {
	type size struct {
		class int
		spec  int32
	}
	of := map[size][]iceberg.ManifestFile{}
	for _, m := range slices.Backward(newestFirst) {
		if c, ok := r.class(m); ok {
			k := size{c, m.PartitionSpecID()}
			of[k] = append(of[k], m)
		}
	}
	sizes := slices.SortedFunc(maps.Keys(of), func(a, b size) int {
		return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.spec, b.spec))
	})
	for _, k := range sizes {
		n, bytes := 0, int64(0)
		for n < len(of[k]) && bytes+of[k][n].Length() <= r.target {
			bytes += of[k][n].Length()
			n++
		}
		if n > 1 && (n >= r.fan || n < len(of[k])) {
			return of[k][:n]
		}
	}
	return nil
}

// stageManifests stages, ahead of the rows of a commit, a snapshot in which manifests of one size are one, if enough have
// come together. Whoever has the turn calls it. It reads the manifest list, in one of fan/2 commits.
//
//	errors  what it staged is not what the table has: nothing may be committed. Other trouble is logged, and rows are
//	        committed without a merge
func (t *Table) stageManifests(ctx context.Context, tbl *table.Table, tx *table.Transaction) error {
	rule, wanted := manifestRuleOf(tbl.Properties())
	snap := tbl.CurrentSnapshot()
	if t.unmerged++; snap == nil || !wanted || (t.looked && t.unmerged < rule.fan/2) {
		return nil
	}
	t.looked, t.unmerged = true, 0
	manifests, err := t.lake.io.manifestsOf(snap)
	if err != nil {
		t.notMerged(err)
		return nil
	}
	in := rule.due(manifests)
	if len(in) == 0 {
		return nil
	}
	chosen := map[string]struct{}{}
	for _, m := range in {
		chosen[m.FilePath()] = struct{}{}
	}
	done, err := tx.RewriteManifests(ctx, table.WithManifestTargetSize(1<<40), // one, not several
		table.WithRewriteManifestPredicate(func(m iceberg.ManifestFile) bool {
			_, ok := chosen[m.FilePath()]
			return ok
		}))
	if err != nil {
		t.notMerged(err)
		return nil
	}
	t.looked = false // there may be more
	files, rows := sumOfManifests(in...)
	if f, r := sumOfManifests(done.AddedManifests...); f != files || r != rows || len(done.RewrittenManifests) != len(in) {
		return fmt.Errorf("%w: %d manifests with %d files and %d rows became %d with %d files and %d rows",
			errNotConserved, len(in), files, rows, len(done.AddedManifests), f, r)
	}
	return nil
}

func (t *Table) notMerged(err error) {
	t.lake.log.Warn("Manifests could not be merged; rows are committed without that", zap.String("table", t.Name()), zap.Error(err))
}

// appendOnly keeps iceberg-go from merging manifests when files are added, for this transaction: of its bins each but the
// newest is merged as soon as it has two manifests, however large one of them is.
func appendOnly(tx *table.Transaction, tbl *table.Table, add func() error) error {
	const key = table.ManifestMergeEnabledKey
	was := tbl.Properties()[key]
	if !tbl.Properties().GetBool(key, table.ManifestMergeEnabledDefault) {
		return add()
	}
	if err := tx.SetProperties(iceberg.Properties{key: "false"}); err != nil {
		return err
	}
	if err := add(); err != nil {
		return err
	}
	return tx.SetProperties(iceberg.Properties{key: was})
}

// mergingCatalog says in the summary of a merge of manifests what it is (sumMaintenance). And it does not tell iceberg-go
// which errors mean that nothing was committed: that would remove the merged manifest then, and whether the table has it is
// for us to find out.
type mergingCatalog struct{ iceCatalog }

func (c mergingCatalog) CommitTable(
	ctx context.Context, id table.Identifier, r []table.Requirement, u []table.Update,
) (table.Metadata, string, error) {
	isSnapshot := func(u table.Update) bool { return u.Action() == table.UpdateAddSnapshot }
	if i := slices.IndexFunc(u, isSnapshot); i >= 0 && slices.ContainsFunc(u[i+1:], isSnapshot) {
		merge, err := tagged(u[i])
		if err != nil {
			return nil, "", err
		}
		u = slices.Clone(u)
		u[i] = merge
	}
	meta, location, err := c.iceCatalog.CommitTable(ctx, id, r, u)
	if errors.Is(err, table.ErrCommitFailed) {
		err = errors.New(err.Error())
	}
	return meta, location, err
}

// tagged is the addition of a snapshot of maintenance.
func tagged(u table.Update) (table.Update, error) {
	var added struct {
		Snapshot table.Snapshot `json:"snapshot"`
	}
	raw, err := json.Marshal(u)
	if err == nil {
		err = json.Unmarshal(raw, &added)
	}
	if err == nil && (added.Snapshot.Summary == nil || added.Snapshot.Summary.Operation != table.OpReplace) {
		err = errors.New("it is no replacement")
	}
	if err != nil {
		return nil, fmt.Errorf("tag the snapshot that merges manifests: %w", err)
	}
	added.Snapshot.Summary.Properties[sumMaintenance] = "manifests"
	return table.NewAddSnapshotUpdate(&added.Snapshot), nil
}
