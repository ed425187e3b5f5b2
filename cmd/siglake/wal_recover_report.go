package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/siglakecol/siglakecol/internal/mirror"
	"github.com/siglakecol/siglakecol/internal/objstore"
)

// recovered is the report of wal-recover.
type recovered struct {
	DryRun     bool             `json:"dry_run"`
	From       string           `json:"from"`
	To         string           `json:"to"`
	Lanes      []recoveredLane  `json:"lanes"`
	Segments   int              `json:"segments"` // restored, or in a dry run to be restored
	Longer     int              `json:"longer"`   // of them those of which the root had only a beginning
	Rows       int64            `json:"rows"`
	Bytes      int64            `json:"bytes"`
	Present    int              `json:"present"`
	Poison     int              `json:"poison"`       // that the root has in poison/ only
	PoisonAt   []string         `json:"poison_files"` // below the root
	Unreadable []mirror.Finding `json:"unreadable"`
	Failed     []mirror.Finding `json:"failed"`
	Foreign    int              `json:"foreign"`
	Named      []string         `json:"foreign_keys"` // the first of them
	Superseded int              `json:"superseded"`
	Copies     []mirror.Copy    `json:"superseded_keys"`
	Gaps       []mirror.LaneGap `json:"gaps"`
	Unlike     []mirror.Unlike  `json:"unlike"` // restored to a lane that holds other rows
}

type recoveredLane struct {
	Tenant     string `json:"tenant"`
	Index      string `json:"index"`
	Segments   int    `json:"segments"`
	Open       int    `json:"open"`
	Longer     int    `json:"longer"`
	Rows       int64  `json:"rows"`
	Bytes      int64  `json:"bytes"`
	MinTime    string `json:"min_time,omitempty"`
	MaxTime    string `json:"max_time,omitempty"`
	Present    int    `json:"present"`
	Poison     int    `json:"poison"`
	Unreadable int    `json:"unreadable"`
	Failed     int    `json:"failed"`
}

func recoverReport(rep mirror.Report, f *recoverFlags) recovered {
	out := recovered{
		DryRun: f.dryRun, From: objstore.Redact(f.from), To: f.to, Lanes: []recoveredLane{}, Unreadable: orEmpty(rep.Unreadable),
		Failed: orEmpty(rep.Failed), Foreign: rep.Foreign, Named: orEmpty(rep.Named), Gaps: orEmpty(rep.Gaps),
		Superseded: len(rep.Superseded), Copies: orEmpty(rep.Superseded), Poison: len(rep.Poison), PoisonAt: orEmpty(rep.Poison),
		Unlike: orEmpty(rep.Unlike),
	}
	for _, l := range rep.Lanes {
		lane := recoveredLane{
			Tenant: l.Tenant, Index: l.Index, Segments: l.Restored, Open: l.Open, Longer: l.Longer, Rows: l.Rows, Bytes: l.Bytes,
			Present: l.Present, Poison: l.Poison, Unreadable: l.Unreadable, Failed: l.Failed,
		}
		if l.MinTime != 0 || l.MaxTime != 0 {
			lane.MinTime, lane.MaxTime = nanoTime(l.MinTime), nanoTime(l.MaxTime)
		}
		out.Lanes = append(out.Lanes, lane)
		out.Segments += l.Restored
		out.Longer += l.Longer
		out.Rows += l.Rows
		out.Bytes += l.Bytes
		out.Present += l.Present
	}
	return out
}

// orEmpty is a list that JSON shows as one.
func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// verdict turns what is missing into an error. That something may still come counts for more than what will not.
func (r *recovered) verdict() error {
	var parts []string
	if n := len(r.Unreadable); n > 0 {
		parts = append(parts, plural(n, "object", "objects")+" cannot be read as segments")
	}
	if r.Poison > 0 {
		parts = append(parts, plural(r.Poison, "segment is", "segments are")+" in the root only in poison/ (siglake wal-requeue)")
	}
	unlike := 0
	for _, u := range r.Unlike {
		unlike += u.Segments
	}
	if unlike > 0 {
		parts = append(parts, plural(unlike, "segment was restored to an index that holds other rows", "segments were restored to indexes that hold other rows"))
	}
	others := "all others are restored"
	if r.DryRun {
		others = "all others would be restored"
	}
	if n := len(r.Failed); n > 0 {
		parts = append(parts, plural(n, "object", "objects")+" could not be fetched: run it again", others)
		return errors.New(strings.Join(parts, "; "))
	}
	if len(parts) == 0 {
		return nil
	}
	return damageError("%s; %s", strings.Join(parts, "; "), others)
}

func (r *recovered) write(w io.Writer) error {
	g := grid{
		header: []string{"TENANT", "INDEX", "SEGMENTS", "ROWS", "BYTES", "FROM", "TO", "PRESENT", "UNREADABLE", "FAILED"},
		right:  []bool{false, false, true, true, true, false, false, true, true, true},
	}
	for _, l := range r.Lanes {
		g.add(l.Tenant, l.Index, humanCount(int64(l.Segments)), humanCount(l.Rows), humanBytes(l.Bytes), l.MinTime, l.MaxTime,
			humanCount(int64(l.Present)), humanCount(int64(l.Unreadable)), humanCount(int64(l.Failed)))
	}
	if len(r.Lanes) > 0 {
		if err := g.write(w); err != nil {
			return err
		}
	}
	var b strings.Builder
	for _, list := range []struct {
		word  string
		found []mirror.Finding
	}{{"unreadable", r.Unreadable}, {"failed", r.Failed}} {
		for _, f := range list.found {
			fmt.Fprintf(&b, "%s: %s: %s\n", list.word, oneLine(f.Key), oneLine(f.Reason))
			if f.Instead != "" {
				fmt.Fprintf(&b, "  taken instead: %s\n", oneLine(f.Instead))
			}
		}
	}
	for _, c := range r.Copies {
		if c.OtherLane {
			fmt.Fprintf(&b, "of another lane, not taken: %s (%s); taken: %s\n", oneLine(c.Key), humanBytes(c.Size), cmp.Or(oneLine(c.Used), "none yet"))
		}
	}
	for _, u := range r.Unlike {
		fmt.Fprintf(&b, "%s holds %s, and %s restored to it with rows of %s, for one %s; the drain does not commit %s there\n"+
			"(docs/operations/damaged-segments.md, segments in the wrong index)\n",
			u.Lane, u.Holds, plural(u.Segments, "segment was", "segments were"), u.Rows, oneLine(u.Key), agree(u.Segments, "it", "them"))
	}
	for _, file := range r.PoisonAt {
		fmt.Fprintf(&b, "in poison/ only: %s\n", oneLine(file))
	}
	if r.Poison > 0 {
		fmt.Fprintf(&b, "%s in the root only in poison/, and their rows may be in no table. To take the copies of the mirror, move ID.arrow and ID.arrow.json\n"+
			"out of poison/ and run this again; or siglake wal-requeue (docs/operations/damaged-segments.md).\n", plural(r.Poison, "segment is", "segments are"))
	}
	for _, g := range r.Gaps {
		fmt.Fprintf(&b, "no object: lane %s, writer %s, numbers %d to %d\n", g.Lane, g.Writer, g.First, g.Last)
	}
	if len(r.Gaps) > 0 {
		b.WriteString("Segments without an object are, as a rule, committed: the compactor deletes their copies when retention::mirror is over.\n" +
			"Else they were empty, or were lost with the volume before their upload. Compare the rows of the tables.\n")
	}
	for _, key := range r.Named {
		fmt.Fprintf(&b, "no segment, left alone: %s\n", oneLine(key))
	}
	if r.Longer > 0 {
		fmt.Fprintf(&b, "%s of which the root had only the beginning; the drain writes the rows behind it\n", plural(r.Longer, "segment", "segments"))
	}
	verb := "restored"
	if r.DryRun {
		verb = "would be restored, nothing was written"
	}
	fmt.Fprintf(&b, "%s, %s rows, %s %s; %s present already\n", plural(r.Segments, "segment", "segments"), humanCount(r.Rows), humanBytes(r.Bytes),
		verb, humanCount(int64(r.Present)))
	_, err := w.Write([]byte(b.String()))
	return err
}
