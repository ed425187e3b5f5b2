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

func spellAll(names []string) []spelled {
	out, s := make([]spelled, len(names)), spellings{}
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
