package lake

import (
	"slices"
	"time"
)

// dropped is what a process has seen in the proofs of a table and they have dropped since (ADR 0034). It keeps the coverage
// of a busy table, to which 2,048 segments come in less than skewMargin, from being too short for any new segment, so that
// each would be looked for in the table's files. Of whoever has the turn to commit. The zero value has seen nothing.
//
// It never says what is committed, only what need not be looked up: a segment made within its coverage that neither it nor
// the proof lists was never committed. That holds because it follows proofs only as long as each lists the newest commit of
// the one before. Commits are dropped from the oldest on, so nothing has come and gone unseen in between, whoever made it.
type dropped struct {
	seen    proof            // last
	commits []proofCommit    // dropped since, oldest first
	at      map[string]int64 // of each id in them the last one's time
	// coverage: every id committed at or after it (Unix ms) is in commits or in seen.
	coverage int64
}

// see takes in the proof of a state of the table.
func (d *dropped) see(p proof, l limits) {
	if !p.follows(d.seen) {
		*d = dropped{seen: p, at: map[string]int64{}, coverage: p.coverage}
		return
	}
	for _, c := range d.seen.commits {
		if p.commits[0].within(c) { // the oldest that is listed still
			break
		}
		d.commits = append(d.commits, c)
		for _, e := range c.entries {
			d.at[e.id] = c.at
		}
	}
	d.seen = p
	old := p.newest().at - l.droppedAge.Milliseconds()
	for len(d.commits) > 0 && (len(d.at) > l.droppedEntries || d.commits[0].at < old) {
		d.forgetOldest()
	}
}

func (d *dropped) forgetOldest() {
	c := d.commits[0]
	for _, e := range c.entries {
		if d.at[e.id] == c.at { // else a later one names it, too
			delete(d.at, e.id)
		}
	}
	d.commits[0] = proofCommit{} // for the collector: the array stays
	d.commits = d.commits[1:]
	d.coverage = max(d.coverage, c.at+1)
}

// rulesOut tells whether a segment that seen does not list, made at the given time, was never committed.
func (d *dropped) rulesOut(id string, made time.Time) bool {
	_, was := d.at[id]
	return !was && covers(d.coverage, made)
}

// newest is the last commit; without entries when there is none.
func (p proof) newest() proofCommit {
	if len(p.commits) == 0 {
		return proofCommit{}
	}
	return p.commits[len(p.commits)-1]
}

// follows tells whether a proof lists all that was committed since an earlier one.
func (p proof) follows(earlier proof) bool {
	if p.table != earlier.table {
		return false
	}
	last := earlier.newest()
	if len(last.entries) == 0 {
		return p.coverage == earlier.coverage
	}
	return slices.ContainsFunc(p.commits, func(c proofCommit) bool { return c.within(last) })
}

// within tells whether a commit is another as a later proof lists it: without the ids that were named again since. One that
// came later has an entry of its own: a commit brings rows.
func (c proofCommit) within(earlier proofCommit) bool {
	if c.at != earlier.at {
		return false
	}
	left := earlier.entries
	for _, e := range c.entries {
		i := slices.Index(left, e)
		if i < 0 {
			return false
		}
		left = left[i+1:]
	}
	return true
}
