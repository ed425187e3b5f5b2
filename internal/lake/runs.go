package lake

import (
	"cmp"
	"slices"
)

// runs are rows of a segment: positions [from, to), in order and apart.
type runs [][2]int64

// runsOf are those of positions, which it sorts.
func runsOf(positions []int64) runs {
	slices.Sort(positions)
	var out runs
	for _, n := range positions {
		if last := len(out) - 1; last >= 0 && n <= out[last][1] {
			out[last][1] = max(out[last][1], n+1)
			continue
		}
		out = append(out, [2]int64{n, n + 1})
	}
	return out
}

// with is the union.
func (r runs) with(other runs) runs {
	all := slices.Concat(r, other)
	slices.SortFunc(all, func(a, b [2]int64) int { return cmp.Compare(a[0], b[0]) })
	var out runs
	for _, a := range all {
		if last := len(out) - 1; last >= 0 && a[0] <= out[last][1] {
			out[last][1] = max(out[last][1], a[1])
			continue
		}
		out = append(out, a)
	}
	return out
}

// common counts the rows that are in both.
func (r runs) common(other runs) (n int64) {
	for i, j := 0, 0; i < len(r) && j < len(other); {
		n += max(0, min(r[i][1], other[j][1])-max(r[i][0], other[j][0]))
		if r[i][1] < other[j][1] {
			i++
		} else {
			j++
		}
	}
	return n
}

func (r runs) size() (n int64) {
	for _, a := range r {
		n += a[1] - a[0]
	}
	return n
}

// gap is the first position that is missing; whole says that nothing is behind it.
func (r runs) gap() (at int64, whole bool) {
	switch {
	case len(r) == 0:
		return 0, true
	case r[0][0] > 0:
		return 0, false
	default:
		return r[0][1], len(r) == 1
	}
}
