package lake

import (
	queue "container/heap"
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// merger gives the rows of sorted files in the order of all. A file is open from when its first row may be the next to
// when its last one was: of files that follow each other in time one or two are.
type merger struct {
	ctx     context.Context
	columns *arrow.Schema
	sources sourceHeap // those with rows left
	limits  limits
}

// sourceHeap has the source of the least row first; among equals the one that was offered first.
type sourceHeap []*mergeSource

func (h sourceHeap) Len() int           { return len(h) }
func (h sourceHeap) Less(i, j int) bool { return h[i].first().less(h[j].first()) }
func (h sourceHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *sourceHeap) Push(any)          {} // nothing is added to it
func (h *sourceHeap) Pop() any {
	n := len(*h) - 1
	last := (*h)[n]
	(*h)[n] = nil // what was read of it is garbage
	*h = (*h)[:n]
	return last
}

func (l *Lake) newMerger(ctx context.Context, files []mergeFile, columns *arrow.Schema) *merger {
	m := &merger{ctx: ctx, columns: columns, limits: l.limits}
	batch := l.limits.chunkBytes / 4 / int64(overlap(files)) // of rows as files have them; in memory they are several times as large
	for _, f := range files {
		m.sources = append(m.sources, &mergeSource{lake: l, f: f, columns: columns, batch: batch})
	}
	queue.Init(&m.sources)
	return m
}

func (m *merger) close() {
	for _, s := range m.sources {
		s.close()
	}
}

// piece is consecutive rows [from, to) of what was read at once of a file.
type piece struct {
	rec      arrow.RecordBatch
	from, to int
}

// chunk is rows on their way from several files into one.
type chunk struct {
	pieces []piece
	open   map[*mergeSource]int // the piece that a source adds to
	order  []int64              // of each row: its piece, and where it is in that
	bytes  int64
}

// next returns the next rows, as many as may be in table form at one time; nil when there are no more.
func (m *merger) next() (arrow.RecordBatch, error) {
	c := chunk{open: map[*mergeSource]int{}}
	for m.sources.Len() > 0 && len(c.order) < m.limits.chunkRows && c.bytes < m.limits.chunkBytes {
		s := m.sources[0]
		if s.pf == nil {
			if err := s.open(m.ctx); err != nil {
				return nil, &unreadError{s.f.df.FilePath(), err}
			}
		} else {
			c.add(s)
			if s.next++; s.next == len(s.us) {
				delete(c.open, s)
				if err := s.advance(); err != nil {
					return nil, &unreadError{s.f.df.FilePath(), err}
				}
			}
		}
		if s.rec == nil {
			s.close()
			queue.Pop(&m.sources)
			continue
		}
		queue.Fix(&m.sources, 0)
	}
	if len(c.order) == 0 {
		return nil, nil
	}
	return c.gather(m.ctx, m.columns)
}

func (c *chunk) add(s *mergeSource) {
	at, ok := c.open[s]
	if !ok {
		at = len(c.pieces)
		c.pieces = append(c.pieces, piece{rec: s.rec, from: s.next, to: s.next})
		c.open[s] = at
	}
	p := &c.pieces[at]
	c.order = append(c.order, int64(at)<<32|int64(p.to-p.from))
	p.to++
	c.bytes += s.rowBytes
}

// gather puts the rows of the pieces in their order.
func (c *chunk) gather(ctx context.Context, columns *arrow.Schema) (arrow.RecordBatch, error) {
	if len(c.pieces) == 1 {
		p := c.pieces[0]
		return p.rec.NewSlice(int64(p.from), int64(p.to)), nil
	}
	begin := make([]int32, len(c.pieces))
	var n int32
	for i, p := range c.pieces {
		begin[i] = n
		n += int32(p.to - p.from)
	}
	b := array.NewInt32Builder(memory.DefaultAllocator)
	b.Reserve(len(c.order))
	straight := true
	for i, o := range c.order {
		at := begin[o>>32] + int32(o&(1<<32-1))
		straight = straight && at == int32(i)
		b.UnsafeAppend(at)
	}
	indices := b.NewArray()
	cols := make([]arrow.Array, columns.NumFields())
	for i := range cols {
		parts := make([]arrow.Array, len(c.pieces))
		for j, p := range c.pieces {
			parts[j] = array.NewSlice(p.rec.Column(i), int64(p.from), int64(p.to))
		}
		col, err := array.Concatenate(parts, memory.DefaultAllocator)
		if err == nil && !straight {
			col, err = compute.TakeArrayOpts(ctx, col, indices, compute.TakeOptions{})
		}
		if err != nil {
			return nil, fmt.Errorf("merge column %s: %w", columns.Field(i).Name, err)
		}
		cols[i] = col
	}
	return array.NewRecordBatch(columns, cols, int64(n)), nil
}
