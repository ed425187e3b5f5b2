package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/siglakecol/siglakecol/internal/mirror"
	"github.com/siglakecol/siglakecol/internal/objstore"
	"github.com/siglakecol/siglakecol/internal/segment"
)

// recoverFlags are those of wal-recover.
type recoverFlags struct {
	from, to       string
	dryRun, online bool
	concurrency    int
}

const walRecoverLong = `Rebuild a write-ahead log whose volume was lost from its mirror: write each segment of the mirror that the root does not
have to <tenant>/<index>/sealed/ below it, also one of which the root has only the beginning. The drain then commits them
like any others; rows that are in a table already are found there and not written again. Safe to interrupt and to run again.

--from is the mirror's own URL: the bucket_url and the prefix of the walmirror extension, for example
s3://telemetry/wal-mirror or file:///mnt/mirror/wal-mirror. Credentials and the endpoint of S3 come from the environment:
AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL_S3 and all else that the AWS SDK reads. With an endpoint
of your own the bucket goes into the path of the URL.
--to is the root: what the collector has as exporters::siglake::wal::directory. As shipped it is wal/ in the data directory;
another directory in that one or around it is refused, unless --wal names it, too.

Each object is decoded before it is written. One that cannot be read is named, and another object of the same segment is
restored instead, if there is one: its beginning in _active/, or a copy in another lane. All others are restored.
A segment that the root has in poison/ and nowhere else is named and left there.
What a user index holds (logs, traces or metrics) is recorded as most of its segments say, unless the root knows.

Exit codes:
  0  everything the mirror has is in the root
  1  failed, or some objects could not be fetched: run it again (also when there is what makes it 3)
  2  wrong usage, or a wrong place: --from is not the root of a mirror, --to is not the root of a log
  3  some objects cannot be read as segments, the root has some segments in poison/ only, or some were restored to an index that
     holds other rows`

func newWALRecover(a *app) *cobra.Command {
	var f recoverFlags
	cmd := &cobra.Command{
		Use:   "wal-recover --from URL --to WALROOT",
		Short: "Rebuild a lost write-ahead log from its mirror",
		Long:  walRecoverLong,
		Example: `  siglake wal-recover --from s3://telemetry/wal-mirror --to /var/lib/siglakecol/wal --dry-run
  siglake wal-recover --from s3://telemetry/wal-mirror --to /var/lib/siglakecol/wal`,
		Args: args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.walRecover(cmd.Context(), cmd, &f) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.from, "from", a.getenv("SIGLAKE_WAL_MIRROR_URL"), "URL of the mirror (environment: SIGLAKE_WAL_MIRROR_URL)")
	fl.StringVar(&f.to, "to", "", "directory of the write-ahead log to rebuild (required)")
	fl.BoolVar(&f.dryRun, "dry-run", false, "read and decode everything, write nothing")
	fl.BoolVar(&f.online, "online", false, "go on beside a collector that has the root open: restore to orphans/, where its drain looks everything up")
	fl.IntVar(&f.concurrency, "concurrency", 8, "objects read at a time")
	a.define(cmd.MarkFlagDirname("to"))
	a.outputFlag(cmd, "text", "json")
	return cmd
}

func (a *app) walRecover(ctx context.Context, cmd *cobra.Command, f *recoverFlags) error {
	from, err := f.check()
	if err != nil {
		return err
	}
	dir, err := a.checkPlace(f.to)
	if err != nil {
		return err
	}
	opt := objstore.Options{FS: a.fs} // S3 from the environment
	store, err := objstore.Open(ctx, from.String(), opt)
	if err != nil {
		return err
	}
	shown := a.showRecover(from.String())
	rep, err := mirror.Restore(ctx, mirror.RestoreOptions{
		FS: a.fs, Dir: dir, Store: store, DryRun: f.dryRun, Online: f.online, Concurrency: f.concurrency,
		Holder: holder("wal-recover"),
		Step:   shown.step, Progress: shown.progress,
	})
	shown.end()
	err = errors.Join(a.explainRecover(ctx, "--from", from, opt, err), store.Close())
	if _, wrong := errors.AsType[*exitError](err); wrong || err != nil && len(rep.Lanes) == 0 {
		return err
	}
	out := recoverReport(rep, f)
	if err := a.show(cmd.OutOrStdout(), out, out.write, err); err != nil {
		return err
	}
	return out.verdict()
}

// check looks at the flags.
func (f *recoverFlags) check() (objstore.Location, error) {
	if f.from == "" || f.to == "" {
		return objstore.Location{}, usageError("wal-recover: give --from, the URL of the mirror, and --to, the directory of the write-ahead log")
	}
	from, err := objstore.ParseURL(f.from)
	if err != nil {
		return objstore.Location{}, usageError("--from: %w", err)
	}
	if f.concurrency < 1 {
		return objstore.Location{}, usageError("--concurrency: %d is below 1", f.concurrency)
	}
	// A segment would come to lie in <root>/<tenant>/<index>/sealed/<tenant>/<index>/sealed, which nothing drains.
	if base := filepath.Base(filepath.Clean(f.to)); base == string(segment.Sealed) {
		parent := filepath.Dir(filepath.Clean(f.to))
		return objstore.Location{}, usageError("--to: %s is a directory of segments; give the root of the write-ahead log, the directory of siglake-wal.json (some levels above %s)", f.to, parent)
	}
	return from, nil
}
