package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// command is one backslash command of the shell.
type command struct {
	name, args, help string
	run              func(sh *shell, ctx context.Context, args []string) error
}

func commands() []command {
	return []command{
		{`\d`, "[TABLE]", "list the tables; with a name, its columns, their types and when they are NULL", (*shell).describe},
		{`\x`, "", "one value a line, or back", (*shell).toggleExpanded},
		{`\format`, "[FORMAT]", "print results as table, json or csv", (*shell).setFormat},
		{`\timing`, "", "say what each statement took and read, or stop that", (*shell).toggleTiming},
		{`\refresh`, "", "see the tables as they are now; until then each stays as it was when first named", (*shell).refresh},
		{`\?`, "", "this list (also help)", (*shell).help},
		{`\q`, "", "leave (also Ctrl-D, quit, exit)", func(*shell, context.Context, []string) error { return errQuit }},
	}
}

// command runs a line that begins with a backslash.
func (sh *shell) command(ctx context.Context, words []string) error {
	for _, c := range commands() {
		if c.name != words[0] {
			continue
		}
		if most := min(1, len(c.args)); len(words)-1 > most {
			return usageError("%s takes %s, got %d", c.name, plural(most, "argument", "arguments"), len(words)-1)
		}
		return c.run(sh, ctx, words[1:])
	}
	return usageError(`there is no command %s; \? lists them`, words[0])
}

func (sh *shell) help(context.Context, []string) error {
	var g grid
	for _, c := range commands() {
		g.rows = append(g.rows, []string{strings.TrimSpace(c.name + " " + c.args), c.help})
	}
	g.header, g.rows = g.rows[0], g.rows[1:]
	if err := g.write(sh.r.out); err != nil {
		return err
	}
	_, err := fmt.Fprintln(sh.r.out, "Everything else is SQL and ends with \";\". Ctrl-C ends a statement that runs, or throws a line away.")
	return err
}

func (sh *shell) toggleExpanded(context.Context, []string) error {
	sh.r.expanded = !sh.r.expanded
	return sh.say("expanded: %s", onOff(sh.r.expanded))
}

func (sh *shell) toggleTiming(context.Context, []string) error {
	sh.setTiming(!sh.timing)
	return sh.say("timing: %s", onOff(sh.timing))
}

func (sh *shell) setFormat(_ context.Context, args []string) error {
	formats := []string{"table", "json", "csv"}
	if len(args) == 1 {
		if !slices.Contains(formats, args[0]) {
			return usageError(`\format: %q is not one of %s`, args[0], strings.Join(formats, ", "))
		}
		sh.r.format = args[0]
	}
	return sh.say("format: %s", sh.r.format)
}

func (sh *shell) refresh(context.Context, []string) error {
	if err := sh.r.view.refresh(); err != nil {
		return err
	}
	return sh.say("each table is read as it is when it is named next")
}

// say answers a person; in a pipe, where stdout is a result, it is silent.
func (sh *shell) say(format string, args ...any) error {
	if !sh.typed {
		return nil
	}
	_, err := fmt.Fprintf(sh.r.out, format+"\n", args...)
	return err
}

func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}

func (sh *shell) describe(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return sh.listTables(ctx)
	}
	t, err := sh.r.view.lookup(ctx, typedRef(args[0]))
	if err != nil {
		return err
	}
	if len(t.plan.Schema) == 0 {
		return fmt.Errorf("%s", t.refused)
	}
	return writeColumns(sh.r.out, t)
}

// typedRef reads a name as a person types it: [namespace.]table, quotes or not. Only the first dot counts.
func typedRef(arg string) tableRef {
	arg = strings.ReplaceAll(arg, `"`, "")
	if space, name, ok := strings.Cut(arg, "."); ok {
		return tableRef{space, name}
	}
	return tableRef{name: arg}
}

// listTables is \d: every table, as siglake tables shows it.
func (sh *shell) listTables(ctx context.Context) error {
	var (
		infos   []lake.TableInfo
		listErr error
	)
	if l := sh.r.view.lake; l != nil {
		infos, listErr = l.Tables(ctx)
	}
	if len(infos) == 0 && listErr == nil {
		return sh.say("No tables yet: nothing has been drained.")
	}
	tables := make([]tableStatus, len(infos))
	for i, info := range infos {
		tables[i] = newTableStatus(info)
	}
	if err := tableGrid(tables, sh.a.now()).write(sh.r.out); err != nil {
		return err
	}
	return listErr
}

// writeColumns is \d TABLE.
func writeColumns(w io.Writer, t dataTable) error {
	docs := map[string]otelarrow.ColumnDoc{}
	for s := otelarrow.Logs; s <= otelarrow.Metrics; s++ {
		if s.String() == t.plan.Table.Signal {
			docs = otelarrow.Describe(s)
		}
	}
	g := grid{header: []string{"column", "type", "NULL when"}}
	for _, c := range t.plan.Schema {
		null := docs[c.Name].NullWhen
		if c.Required {
			null = "never (required)"
		}
		g.add(oneLine(c.Name), c.DuckDBType, null)
	}
	return g.write(w)
}
