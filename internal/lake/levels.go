package lake

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
)

// slots say where the values of a column come: one slot for each level pair that Parquet stores. A slot holds an
// element of the array at hand, or nothing when a list above it is empty or something above it is null.
type slots struct {
	def []int16 // definition level of each slot
	rep []int16 // repetition level; nil outside lists
	at  []int32 // its element, or -1
	// level and depth are the definition level of a slot that holds an element, and the lists around it.
	level, depth int16
	// first and held describe the elements when they follow each other, as they do unless something is null.
	first, held int
	dense       bool

	present []int16 // def, with 1 more where there is an element; made when first asked for
}

// rows are the slots of a column that is not nested.
func rows(n int) *slots {
	s := &slots{def: make([]int16, n), at: make([]int32, n), held: n, dense: true}
	for i := range s.at {
		s.at[i] = int32(i)
	}
	return s
}

// filled are the definition levels of a nullable column without nulls.
func (s *slots) filled() []int16 {
	if s.present == nil {
		s.present = make([]int16, len(s.def))
		for i, d := range s.def {
			if s.present[i] = d; s.at[i] >= 0 {
				s.present[i]++
			}
		}
	}
	return s.present
}

// optional are the slots below a nullable list or struct.
func (s *slots) optional(arr arrow.Array) *slots {
	if arr.NullN() == 0 {
		return &slots{
			def: s.filled(), rep: s.rep, at: s.at, level: s.level + 1, depth: s.depth, first: s.first, held: s.held, dense: s.dense,
		}
	}
	out := &slots{def: make([]int16, len(s.def)), rep: s.rep, at: make([]int32, len(s.at)), level: s.level + 1, depth: s.depth}
	valid := validityOf(arr)
	for i, e := range s.at {
		out.def[i], out.at[i] = s.def[i], -1
		if e >= 0 && valid.has(e) {
			out.def[i], out.at[i] = s.level+1, e
			out.held++
		}
	}
	return out
}

// elements are the slots of what is in the lists. arr is a list or a map, whose own nulls s has left out.
func (s *slots) elements(arr *array.List) *slots {
	off := arr.Offsets()[arr.Offset():]
	n := 0
	for _, e := range s.at {
		if e < 0 {
			n++
		} else {
			n += max(1, int(off[e+1]-off[e]))
		}
	}
	out := &slots{
		def: make([]int16, 0, n), rep: make([]int16, 0, n), at: make([]int32, 0, n), level: s.level + 1, depth: s.depth + 1, dense: true,
	}
	next := int32(-1)
	for i, e := range s.at {
		rep := int16(0)
		if s.rep != nil {
			rep = s.rep[i]
		}
		if e < 0 || off[e] == off[e+1] {
			out.def, out.rep, out.at = append(out.def, s.def[i]), append(out.rep, rep), append(out.at, -1)
			continue
		}
		if next < 0 {
			out.first = int(off[e])
		} else if off[e] != next {
			out.dense = false
		}
		next = off[e+1]
		for j := off[e]; j < next; j++ {
			out.def, out.rep, out.at = append(out.def, out.level), append(out.rep, rep), append(out.at, j)
			rep = out.depth
		}
		out.held += int(next - off[e])
	}
	return out
}

// validity of an array's elements.
type validity struct {
	bits   []byte
	offset int
}

func validityOf(arr arrow.Array) validity {
	if arr.NullN() == 0 {
		return validity{}
	}
	return validity{bits: arr.NullBitmapBytes(), offset: arr.Data().Offset()}
}

func (v validity) has(i int32) bool {
	return v.bits == nil || bitutil.BitIsSet(v.bits, v.offset+int(i))
}

// shred hands the leaves of a column, in the order of the file's columns, to write.
func shred(arr arrow.Array, nullable bool, s *slots, write func(arrow.Array, *slots, bool) error) error {
	switch a := arr.(type) {
	case *array.Map:
		in := s.below(arr, nullable).elements(a.List)
		if err := write(a.Keys(), in, false); err != nil {
			return err
		}
		return shred(a.Items(), true, in, write)
	case *array.List:
		return shred(a.ListValues(), true, s.below(arr, nullable).elements(a), write)
	case *array.Struct:
		in := s.below(arr, nullable)
		st, ok := a.DataType().(*arrow.StructType)
		if !ok {
			return fmt.Errorf("a struct of type %s", a.DataType())
		}
		for i := range a.NumField() {
			if err := shred(a.Field(i), st.Field(i).Nullable, in, write); err != nil {
				return err
			}
		}
		return nil
	default:
		return write(arr, s, nullable)
	}
}

func (s *slots) below(arr arrow.Array, nullable bool) *slots {
	if nullable {
		return s.optional(arr)
	}
	return s
}
