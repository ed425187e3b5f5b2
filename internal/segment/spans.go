package segment

import (
	"cmp"
	"slices"
)

// Span is a run of sequence numbers, from the first to the last, both in it. In JSON [first,last].
type Span [2]uint64

// Spans is a set of sequence numbers: spans in order that neither meet nor touch. Made by NewSpans and SpansOf.
type Spans []Span

// NewSpans orders spans and joins those that meet or touch.
func NewSpans(all ...Span) Spans {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b Span) int { return cmp.Compare(a[0], b[0]) })
	var out Spans
	for _, s := range all {
		if n := len(out); n > 0 && s[0]-1 <= out[n-1][1] { // numbers begin at 1
			out[n-1][1] = max(out[n-1][1], s[1])
			continue
		}
		out = append(out, s)
	}
	return out
}

// SpansOf is the set of single numbers.
func SpansOf(numbers []uint64) Spans {
	all := make([]Span, len(numbers))
	for i, n := range numbers {
		all[i] = Span{n, n}
	}
	return NewSpans(all...)
}

// With is the union.
func (s Spans) With(o Spans) Spans { return NewSpans(append(slices.Clone(s), o...)...) }

// Without is s less o.
func (s Spans) Without(o Spans) Spans {
	var out Spans
	for _, a := range s {
		for _, b := range o {
			if b[1] < a[0] || b[0] > a[1] {
				continue
			}
			if b[0] > a[0] {
				out = append(out, Span{a[0], b[0] - 1})
			}
			if b[1] >= a[1] {
				a = Span{} // nothing of it is left
				break
			}
			a[0] = b[1] + 1
		}
		if a != (Span{}) {
			out = append(out, a)
		}
	}
	return out
}

// Has tells whether a number is in the set.
func (s Spans) Has(n uint64) bool {
	i, found := slices.BinarySearchFunc(s, n, func(a Span, n uint64) int { return cmp.Compare(a[0], n) })
	return found || i > 0 && n <= s[i-1][1]
}

// top is the greatest number, 0 in an empty set.
func (s Spans) top() uint64 {
	if len(s) == 0 {
		return 0
	}
	return s[len(s)-1][1]
}

// upTo is every number from the first, which is 1, to n.
func upTo(n uint64) Spans {
	if n == 0 {
		return nil
	}
	return Spans{{1, n}}
}
