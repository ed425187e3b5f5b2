package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/siglakecol/siglakecol/internal/lake"
)

func newTables(a *app) *cobra.Command {
	var olderThan time.Duration
	cmd := &cobra.Command{
		Use:   "tables",
		Short: "List the Iceberg tables: rows, files, snapshots, last commit",
		Long: `List the tables of the catalog as of their current snapshots. A table that cannot be read is named in the error;
the others are listed all the same.

With --older-than it lists the day partitions instead that the compactor would delete with that retention::table, and
deletes nothing.`,
		Example: "  siglake tables\n  siglake tables --older-than 720h\n  siglake tables -o json | jq -r '.[] | \"\\(.namespace).\\(.name) \\(.rows)\"'",
		Args:    args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("older-than") {
				return a.oldDays(cmd.Context(), cmd.OutOrStdout(), olderThan)
			}
			return a.tables(cmd.Context(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().DurationVar(&olderThan, "older-than", 0, "list the days that ended longer ago, which retention::table of that length would delete")
	a.outputFlag(cmd, "text", "json")
	return cmd
}

func (a *app) tables(ctx context.Context, w io.Writer) error {
	tables, listErr := a.tableStatus(ctx, func(*lake.Lake, []tableStatus) error { return nil })
	if tables == nil && listErr != nil {
		return listErr
	}
	var err error
	switch {
	case a.output == "json":
		err = writeJSONArray(w, tables)
	case len(tables) == 0:
		_, err = fmt.Fprintln(w, "No tables yet: nothing has been drained.")
	default:
		err = tableGrid(tables, a.now()).write(w)
	}
	if err != nil {
		return err
	}
	return listErr
}
