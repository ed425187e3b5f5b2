package main

import (
	"fmt"
	"io"
	"strings"
)

// write tells it to a person; next is the command that would delete.
func (r *gcReport) write(w io.Writer, next string) error {
	var b strings.Builder
	if len(r.Tables) == 0 {
		b.WriteString("No tables yet: nothing has been drained.\n")
	}
	var orphans, deleted int
	var size, freed int64
	for i := range r.Tables {
		t := &r.Tables[i]
		t.write(&b, r)
		orphans, size = orphans+t.Orphans, size+t.OrphanBytes
		deleted, freed = deleted+t.Deleted, freed+t.DeletedBytes
	}
	switch {
	case !r.DryRun && deleted > 0:
		fmt.Fprintf(&b, "deleted %s, %s\n", plural(deleted, "orphan", "orphans"), humanBytes(freed))
	case r.DryRun && orphans > 0:
		fmt.Fprintf(&b, "%s, %s; nothing was changed: %s\n", plural(orphans, "orphan", "orphans"), humanBytes(size), next)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (t *gcTable) write(b *strings.Builder, r *gcReport) {
	fmt.Fprintf(b, "%s  %s\n", t.Table, oneLine(t.Location))
	if t.Error != "" {
		fmt.Fprintf(b, "  %s\n", oneLine(t.Error))
	}
	if t.Error != "" && t.Orphans == 0 {
		return
	}
	fmt.Fprintf(b, "  %s: %s needed, %s younger than %s, %s", plural(t.Files, "file", "files"), humanCount(int64(t.Needed)),
		humanCount(int64(t.Young)), humanAge(r.age), plural(t.Orphans, "orphan", "orphans"))
	if t.Orphans > 0 {
		fmt.Fprintf(b, " of %s", humanBytes(t.OrphanBytes))
	}
	if t.Foreign > 0 {
		fmt.Fprintf(b, ", %s of no table kept", humanCount(int64(t.Foreign)))
	}
	b.WriteByte('\n')
	if !r.files {
		return
	}
	for _, f := range t.List {
		fmt.Fprintf(b, "  %s  %s  %s\n", f.Modified, humanBytes(f.Bytes), oneLine(f.Path))
	}
}
