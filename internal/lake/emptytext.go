package lake

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// arrow-go v18.8.0 keeps the minimum of a page in a slice and takes a nil one for none. An empty text that comes first is
// such a slice, so that a page whose least value is the empty text drops out of the statistics of its row group: the
// minimum is then that of the other pages, and a reader that goes by it misses rows. A file with an empty text in a
// column is therefore written again without statistics for that column (writer.file), as one with a text too long is.

// noteEmptyText looks for empty texts in the columns that have statistics.
func (c *parquetColumns) noteEmptyText(rec arrow.RecordBatch) {
	for i, f := range rec.Schema().Fields() {
		text, ok := rec.Column(i).(*array.String)
		if !ok || c.noStats[f.Name] || c.emptyText[f.Name] {
			continue
		}
		off := text.ValueOffsets()
		for r := range text.Len() {
			if off[r] == off[r+1] && text.IsValid(r) {
				c.emptyText[f.Name] = true
				break
			}
		}
	}
}
