package main

import "github.com/spf13/cobra"

func newWAL(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "wal",
		Short: "List, inspect and verify the segments of the write-ahead log",
		Long: `Look at the segments of the write-ahead log. Everything here reads only and works beside a running collector: a
segment that moves on while it is looked at is followed, or left out when it is gone.`,
		Example: "  siglake wal ls --state poison\n  siglake wal inspect 01999f3e-2b7c-7cc1-9d37-0b8a3f1c2d4e-5f1e2d3c4b5a-17\n  siglake wal verify",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newWALList(a), newWALInspect(a), newWALVerify(a))
	return cmd
}

// filterFlags adds the flags that narrow a listing.
func (a *app) filterFlags(cmd *cobra.Command, f *filter) {
	cmd.Flags().StringVar(&f.lane, "lane", "", "only this lane, as tenant/index")
	cmd.Flags().StringVar(&f.state, "state", "", "only this state: active, sealed, processing, committed, orphans, poison, stale")
	names := make([]string, 0, len(states()))
	for _, st := range states() {
		names = append(names, string(st))
	}
	a.define(cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)))
}
