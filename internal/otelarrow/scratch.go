package otelarrow

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// maxKept bounds what an idle scratch may hold. A request of the usual 4 MiB
// takes 5 to 8 MiB; larger ones are rare enough to allocate afresh.
const maxKept = 16 << 20

// scratch holds the writers of one signal. It is at home in a pool, in the hands
// of one encode, or under a record batch that has not been released; the batch's
// buffers are the writers' memory, and the last one to be freed brings it home.
type scratch struct {
	mem  memory.Allocator
	home *sync.Pool // nil: the memory is freed instead
	out  atomic.Int64

	owned    []memoryOwner
	slab     slab
	layout   *layout
	root     *record
	adjusted Adjusted
	careful  bool // check each string, because the batch has bad ones
	maxText  int  // bytes of one text column: what its offsets reach
	json     []byte

	logs    *logsWriters
	traces  *tracesWriters
	metrics *metricsWriters
}

func newScratch(sig Signal, mem memory.Allocator, home *sync.Pool) *scratch {
	s := &scratch{mem: mem, home: home, layout: layouts[sig], maxText: math.MaxInt32}
	s.root = newRecord(s, arrow.StructOf(s.layout.wal.Fields()...))
	switch sig {
	case Logs:
		s.logs = newLogsWriters(s)
	case Traces:
		s.traces = newTracesWriters(s)
	case Metrics:
		s.metrics = newMetricsWriters(s)
	}
	return s
}

func (s *scratch) reset() {
	s.adjusted = Adjusted{}
	s.root.reset()
}

// run encodes with write, and once more with care when some text was not UTF-8.
func (s *scratch) run(write func() Batch) (Batch, error) {
	s.careful = false
	for {
		s.reset()
		b := write()
		valid, err := s.root.check()
		if err != nil {
			s.discard()
			return Batch{}, err
		}
		if valid {
			b.Adjusted = s.adjusted
			b.Record = s.batch(b.Rows)
			return b, nil
		}
		if s.careful {
			panic("otelarrow: cleaned text is not UTF-8")
		}
		s.careful = true
	}
}

// batch hands the written columns out as one record batch.
func (s *scratch) batch(rows int) arrow.RecordBatch {
	// The scratch itself counts as one buffer until all are handed out.
	s.out.Store(1)
	defer s.Free(nil)
	s.slab = slab{
		buffers:  make([]*memory.Buffer, 0, s.slab.nBuffers),
		children: make([]arrow.ArrayData, 0, s.slab.nChildren),
	}
	defer func() {
		s.slab = slab{nBuffers: len(s.slab.buffers), nChildren: len(s.slab.children)}
	}()
	cols := make([]arrow.Array, s.layout.wal.NumFields())
	for i := range cols {
		d := s.root.fields[i].data(s, s.layout.wal.Field(i).Type)
		cols[i] = array.MakeFromData(d)
		d.Release()
	}
	rec := array.NewRecordBatch(s.layout.wal, cols, int64(rows))
	for _, c := range cols {
		c.Release()
	}
	return rec
}

// slab holds the slices of buffers and children of one batch's columns: one
// allocation each in place of one for every column.
type slab struct {
	buffers             []*memory.Buffer
	children            []arrow.ArrayData
	nBuffers, nChildren int // what the last batch took; the same for every one of a signal
}

func (s *scratch) children(n int) []arrow.ArrayData {
	at := len(s.slab.children)
	s.slab.children = append(s.slab.children, make([]arrow.ArrayData, n)...)
	return s.slab.children[at : at+n : at+n]
}

// newData takes over the references to children and buffers.
func (s *scratch) newData(dt arrow.DataType, n, nulls int, children []arrow.ArrayData, buffers ...*memory.Buffer) arrow.ArrayData {
	at := len(s.slab.buffers)
	s.slab.buffers = append(s.slab.buffers, buffers...)
	d := array.NewData(dt, n, s.slab.buffers[at:len(s.slab.buffers):len(s.slab.buffers)], children, nulls, 0)
	for _, b := range buffers {
		if b != nil {
			b.Release()
		}
	}
	for _, c := range children {
		c.Release()
	}
	return d
}

// Allocate is here because the scratch is the allocator of its buffers.
func (s *scratch) Allocate(int) []byte { panic("otelarrow: buffers of a batch do not grow") }

// Reallocate is never called either.
func (s *scratch) Reallocate(int, []byte) []byte { panic("otelarrow: buffers of a batch do not grow") }

// Free takes one buffer back.
func (s *scratch) Free([]byte) {
	if s.out.Add(-1) == 0 {
		s.discard()
	}
}

// discard brings the scratch home, or frees it where it has none.
func (s *scratch) discard() {
	if s.home == nil {
		for _, o := range s.owned {
			o.free()
		}
		return
	}
	kept := cap(s.json)
	for _, o := range s.owned {
		kept += len(o.allocated())
	}
	if kept <= maxKept {
		s.home.Put(s)
	}
}

// memoryOwner is a vec of any type.
type memoryOwner interface {
	setOwner(s *scratch)
	allocated() []byte
	free()
}

// own makes the scratch answer for the memory of vecs.
func (s *scratch) own(vecs ...memoryOwner) {
	for _, v := range vecs {
		v.setOwner(s)
	}
	s.owned = append(s.owned, vecs...)
}

// find returns the writer of a WAL field by its path of names, such as
// "resource.service_name"; [] stands for the elements of a list.
func find[W writer](s *scratch, path string) W {
	var w writer = s.root
	for name := range strings.SplitSeq(path, ".") {
		switch in := w.(type) {
		case *runs:
			w = in.values
		case *list:
			w = in.elem
		}
		if name == "[]" {
			continue
		}
		in, ok := w.(*record)
		if !ok {
			panic(fmt.Sprintf("otelarrow: no struct at %s of %s", name, path))
		}
		w = in.names[name]
	}
	found, ok := w.(W)
	if !ok {
		panic(fmt.Sprintf("otelarrow: field %s is written by %T", path, w))
	}
	return found
}
