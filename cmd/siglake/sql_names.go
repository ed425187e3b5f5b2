package main

import (
	"fmt"
	"slices"
	"strings"
)

// spellings are the names in one place of SQL, by their lower-case form.
type spellings map[string][]string

// visible is a name's form in SQL, which does not tell letter cases apart: the second of two that differ in nothing
// else gets a number.
func (s spellings) visible(name string) string {
	key := strings.ToLower(name)
	i := slices.Index(s[key], name)
	if i < 0 {
		i = len(s[key])
		s[key] = append(s[key], name)
	}
	if i == 0 {
		return name
	}
	return fmt.Sprintf("%s (%d)", name, i+1)
}

// take keeps a name from being anybody's.
func (s spellings) take(name string) {
	key := strings.ToLower(name)
	s[key] = append(s[key], "")
}

// spelled is a name and its form in SQL.
type spelled struct{ name, visible string }

// union adds to a what only b has.
func union(a, b []string) []string {
	for _, s := range b {
		if !slices.Contains(a, s) {
			a = append(a, s)
		}
	}
	return a
}

// spellAll spells names of which some are taken by others.
func spellAll(names []string, taken ...string) []spelled {
	out, s := make([]spelled, len(names)), spellings{}
	for _, n := range taken {
		s.take(n)
	}
	for i, n := range names {
		out[i] = spelled{n, s.visible(n)}
	}
	return out
}

// find looks a name up as SQL does, without regard to case.
func find(all []spelled, name string) (spelled, bool) {
	i := slices.IndexFunc(all, func(s spelled) bool { return strings.EqualFold(s.visible, name) })
	if i < 0 {
		return spelled{}, false
	}
	return all[i], true
}

// nearestFirst orders the names of tables by how far they are from name, of which either may lack the namespace.
func nearestFirst(all []string, name string) {
	bare := func(name string) string { return strings.ToLower(name[strings.IndexByte(name, '.')+1:]) }
	far := make(map[string]int, len(all))
	for _, n := range all {
		far[n] = distance(bare(n), bare(name))
	}
	slices.SortStableFunc(all, func(a, b string) int { return far[a] - far[b] })
}

// distance is how many characters have to be added, taken away or changed to make b out of a.
func distance(a, b string) int {
	from, to := []rune(a), []rune(b)
	row := make([]int, len(to)+1)
	for j := range row {
		row[j] = j
	}
	for i := range from {
		diagonal := row[0]
		row[0] = i + 1
		for j := range to {
			change := diagonal
			if from[i] != to[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(to)]
}
