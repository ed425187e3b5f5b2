package lake

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

const (
	// mergeFiles of one level are a merge, and also the factor from one level to the next: a file made of eight of a
	// level is of a higher one, so a row is written again once per level.
	mergeFiles = 8
	// mergeFanIn is how many files one merge takes, and mergeOpen how many of them may have rows of the same time: those
	// are open at once, at some 4 MB each.
	mergeFanIn = 64
	mergeOpen  = 16
)

// mergeFile is a data file that may be merged.
type mergeFile struct {
	df       iceberg.DataFile
	day      int32
	level    int
	from, to int64 // timestamps of its first and its last row, Unix µs
}

// levelOf goes by rows and not by bytes, because rows are conserved: eight files of ten rows are hardly larger than one.
func levelOf(rows int64) int { return (bits.Len64(uint64(max(rows, 1))) - 1) / 3 }

// mergeable are the files of a snapshot that may be merged, and how many others it has: of other engines, other
// partition specs or another order, or those to avoid. A snapshot with delete files has none: their rows are counted by
// position. What the snapshot does not have is forgotten in avoid.
func (l *Lake) mergeable(snap *table.Snapshot, tg target, avoid map[string]avoided) (out []mergeFile, alone int, err error) {
	if snap == nil {
		return nil, 0, nil
	}
	deletes := false
	live := map[string]bool{} // of those to avoid
	for df, err := range l.liveFiles(snap) {
		if err != nil {
			return nil, 0, err
		}
		if df.ContentType() != iceberg.EntryContentData {
			deletes = true
			continue
		}
		f, ok := tg.ours(df)
		a, bad := avoid[df.FilePath()]
		if bad {
			live[df.FilePath()] = true
		}
		if !ok || bad && a.still(l.now()) {
			alone++
			continue
		}
		if f.full(l.limits) {
			continue
		}
		out = append(out, f)
	}
	maps.DeleteFunc(avoid, func(path string, _ avoided) bool { return !live[path] })
	if deletes {
		return nil, alone + len(out), nil
	}
	return out, alone, nil
}

// ours tells whether a file says of itself that it is sorted and partitioned as ours are.
func (tg target) ours(df iceberg.DataFile) (mergeFile, bool) {
	f := mergeFile{df: df, level: levelOf(df.Count())}
	order := df.SortOrderID()
	if df.FileFormat() != iceberg.ParquetFile || int(df.SpecID()) != tg.spec.ID() || order == nil || *order != tg.sortOrder {
		return f, false
	}
	day, ok := df.Partition()[tg.spec.Field(0).FieldID].(iceberg.Date)
	if !ok {
		return f, false
	}
	f.day = int32(day)
	f.from, f.to, ok = timestampBounds(df, tg.schema)
	return f, ok
}

// full: it is as large as files get, or nearly.
func (f mergeFile) full(l limits) bool { return f.df.FileSizeBytes() >= l.fileBytes/4*3 }

// dueMerges are what there is to merge: of each partition the lowest level that has enough files, newest partitions
// first, because those are read most.
func dueMerges(files []mergeFile, l limits) [][]mergeFile {
	days := map[int32][]mergeFile{}
	for _, f := range files {
		days[f.day] = append(days[f.day], f)
	}
	var out [][]mergeFile
	for _, day := range slices.Backward(slices.Sorted(maps.Keys(days))) {
		if m := dueMerge(days[day], l); m != nil {
			out = append(out, m)
		}
	}
	return out
}

// dueMerge chooses among the files of one partition. Small files rise by levels. Those that are worth a read of their own
// (laterBytes) wait until together they are a full file, and are written again that one time: rows that a busy drain
// commits are merged once, not once per level.
func dueMerge(files []mergeFile, l limits) []mergeFile {
	var small, later []mergeFile
	for _, f := range files {
		if f.df.FileSizeBytes() < l.laterBytes() {
			small = append(small, f)
		} else {
			later = append(later, f)
		}
	}
	if m := dueLevel(small, l); m != nil {
		return m
	}
	return dueLater(later, l)
}

// dueLevel is the lowest level of small files that has enough of them. Files of lower levels come along when there is
// room: they only rise.
func dueLevel(files []mergeFile, l limits) []mergeFile {
	count := map[int]int{}
	for _, f := range files {
		count[f.level]++
	}
	for _, level := range slices.Sorted(maps.Keys(count)) {
		if count[level] < mergeFiles {
			continue
		}
		taken := slices.DeleteFunc(slices.Clone(files), func(f mergeFile) bool { return f.level > level })
		if len(taken) > mergeFanIn || overlap(taken) > mergeOpen {
			taken = slices.DeleteFunc(taken, func(f mergeFile) bool { return f.level < level })
		}
		taken, _ = together(taken, l)
		return taken
	}
	return nil
}

// dueLater are files that make a full one, or as many as may be open at once where their times lie upon each other.
func dueLater(files []mergeFile, l limits) []mergeFile {
	taken, full := together(files, l)
	if full || len(taken) < len(files) {
		return taken
	}
	return nil
}

// together are the first of the files by time, up to a full file, and no more than may be merged at once.
func together(files []mergeFile, l limits) (taken []mergeFile, full bool) {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b mergeFile) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.df.FilePath(), b.df.FilePath()))
	})
	var size int64
	for i, f := range files {
		if i == mergeFanIn || openAt(files[:i], f.from) == mergeOpen {
			return files[:i], false
		}
		if size += f.df.FileSizeBytes(); size >= l.fileBytes/4*3 {
			return files[:i+1], true
		}
	}
	return files, false
}

// laterBytes is a 64th of a full file: 2 MiB. Fewer than mergeFanIn of them are three quarters of one.
func (l limits) laterBytes() int64 { return l.fileBytes / 64 }

// openAt is how many of files that began before a time have rows of it or of a later one.
func openAt(files []mergeFile, at int64) (n int) {
	for _, f := range files {
		if f.to >= at {
			n++
		}
	}
	return n
}

// overlap is how many of the files have rows of the same time at most: so many are open at once while they are merged.
func overlap(files []mergeFile) (most int) {
	for _, f := range files {
		n := 0
		for _, o := range files {
			if o.from <= f.from && f.from <= o.to {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}
