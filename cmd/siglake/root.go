package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/siglakecol/siglakecol/internal/drain"
	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/segment"
)

// app is the state of one command line.
type app struct {
	environment
	data, wal, catalog, warehouse string         // flags
	flags                         *pflag.FlagSet // those, and whether they were given
	output                        string
	started                       bool   // a command's own code runs
	stop                          func() // gives Ctrl-C back
	broken                        error  // a mistake in the definition of the commands
}

// define notes an error of a definition, for the first command that runs to return.
func (a *app) define(err error) { a.broken = errors.Join(a.broken, err) }

const rootLong = `Look into a siglakecol write-ahead log and its Iceberg tables, verify them, query them.

Everything is found below one data directory: DIR/wal, DIR/catalog.db and DIR/warehouse. DIR is --data, else
$SIGLAKE_DATA, else ./data; each of the three can be given on its own. All commands work beside a running
collector.

The catalog may be elsewhere: --catalog, else $SIGLAKE_CATALOG, is sqlite:///path, postgres://user@host/database or
rest+https://host/path. Only the catalog knows where existing tables are, so commands that read need no --warehouse.
Credentials come from the environment, never from flags: PGPASSWORD and the other PG* variables, or a password in
$SIGLAKE_CATALOG; AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL_S3 and what else the AWS SDK
knows; SIGLAKE_REST_TOKEN, or SIGLAKE_REST_CREDENTIAL (id:secret) with SIGLAKE_REST_OAUTH2_SERVER_URI and
SIGLAKE_REST_SCOPE; SIGLAKE_REST_WAREHOUSE, SIGLAKE_REST_PREFIX.

Exit codes:
  0  done
  1  failed
  2  wrong usage, or a wrong place: a path that is no WAL root, a catalog that does not exist
  3  damage found
  4  a check of doctor failed`

const rootExample = `  siglake status
  siglake sql "SELECT timestamp, service_name, body FROM events ORDER BY timestamp DESC LIMIT 10"
  siglake wal verify --data /var/lib/siglakecol`

// handlesInterrupts is the annotation of a command whose context Ctrl-C does not end.
const handlesInterrupts = "handles interrupts"

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:           "siglake",
		Short:         "The operator's command line of siglakecol",
		Long:          rootLong,
		Example:       rootExample,
		Version:       version(),
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		a.started = true
		if err := a.noSecretInFlags(); err != nil {
			return err
		}
		if _, ok := cmd.Annotations[handlesInterrupts]; !ok {
			var ctx context.Context
			ctx, a.stop = a.interrupt(cmd.Context())
			cmd.SetContext(ctx)
		}
		return a.broken
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError("%w; see %s --help", err, cmd.CommandPath())
	})
	f := root.PersistentFlags()
	a.flags = f
	f.StringVar(&a.data, "data", a.dataDefault(), "directory that holds wal/, catalog.db and warehouse/ (environment: SIGLAKE_DATA)")
	f.StringVar(&a.wal, "wal", "", "directory of the write-ahead log (default DATA/wal)")
	f.StringVar(&a.catalog, "catalog", "", "URI of the Iceberg catalog (environment: SIGLAKE_CATALOG; default sqlite:///DATA/catalog.db)")
	f.StringVar(&a.warehouse, "warehouse", "", "where new tables go, for drain and doctor (environment: SIGLAKE_WAREHOUSE; default DATA/warehouse)")
	for _, name := range []string{"data", "wal", "warehouse"} {
		a.define(root.MarkPersistentFlagDirname(name))
	}
	root.AddCommand(newStatus(a), newWAL(a), newWALRecover(a), newWALRequeue(a), newOrphans(a), newStale(a), newCatalogRepair(a), newTables(a), newGCOrphans(a), newDrain(a), newSQL(a), newDoctor(a))
	return root
}

// releaseVersion is the version of the distribution; builder-config.yaml has the same for siglakecol.
const releaseVersion = "0.1.0-dev"

// version adds the commit that the Go toolchain stamped into the binary.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return releaseVersion + ", commit " + s.Value
			}
		}
	}
	return releaseVersion
}

func (a *app) dataDefault() string {
	if dir := a.getenv("SIGLAKE_DATA"); dir != "" {
		return dir
	}
	return "data"
}

// outputFlag adds --output to a command; the first format is the default.
func (a *app) outputFlag(cmd *cobra.Command, formats ...string) {
	var value string // of this command: all of them are defined before one runs
	cmd.Flags().StringVarP(&value, "output", "o", formats[0], "output format: "+strings.Join(formats, ", "))
	a.define(cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)))
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains(formats, value) {
			return usageError("--output: %q is not one of %s", value, strings.Join(formats, ", "))
		}
		a.output = value
		return run(cmd, args)
	}
}

// formatFlag lets --format stand for --output: the first word is that of SQL shells, the second that of all commands here.
func (a *app) formatFlag(cmd *cobra.Command) {
	cmd.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "format" {
			name = "output"
		}
		return pflag.NormalizedName(name)
	})
}

// args returns a check for at least low and at most high arguments (-1 = any number) whose error is one of usage.
func args(low, high int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < low || high >= 0 && len(args) > high {
			return usageError("%s takes %s, got %d; see %s --help", cmd.CommandPath(), what, len(args), cmd.CommandPath())
		}
		return nil
	}
}

func (a *app) walDir() string {
	if a.wal != "" {
		return a.wal
	}
	return filepath.Join(a.data, "wal")
}

// openRoot opens the write-ahead log.
func (a *app) openRoot() (*segment.Root, error) { return segment.Open(a.fs, a.walDir()) }

// warehouseOf returns where new tables go. Only beside a catalog file there is a place that goes without saying.
func (a *app) warehouseOf(catalog string) string {
	if at := cmp.Or(a.warehouse, a.getenv("SIGLAKE_WAREHOUSE")); at != "" || !strings.HasPrefix(catalog, "sqlite://") {
		return at
	}
	return filepath.Join(a.data, "warehouse")
}

// catalogURI returns the catalog's URI, with an absolute path where it follows from --data.
func (a *app) catalogURI() (string, error) {
	if uri := cmp.Or(a.catalog, a.getenv("SIGLAKE_CATALOG")); uri != "" {
		return uri, nil
	}
	path, err := filepath.Abs(filepath.Join(a.data, "catalog.db"))
	if err != nil {
		return "", fmt.Errorf("find the catalog: %w", err)
	}
	return "sqlite://" + filepath.ToSlash(path), nil
}

// noSecretInFlags refuses a password in a flag: every user of the machine can see it there.
func (a *app) noSecretInFlags() error {
	u, err := url.Parse(a.catalog)
	if err != nil {
		return usageError("--catalog: it is no URL") // it may hold a password, so it is not repeated
	}
	if _, secret := u.User.Password(); secret || u.Query().Has("password") || u.Query().Has("sslpassword") {
		return usageError("--catalog: a password in a flag can be seen by every user of this machine; put it into PGPASSWORD, or the whole URI into SIGLAKE_CATALOG")
	}
	return nil
}

// lakeOptions say where catalog and warehouse are.
func (a *app) lakeOptions(readOnly bool) (lake.Options, error) {
	uri, err := a.catalogURI()
	return lake.Options{
		Catalog: uri, Warehouse: a.warehouseOf(uri), ReadOnly: readOnly, Now: a.now,
		REST: lake.REST{
			Token: a.getenv("SIGLAKE_REST_TOKEN"), Credential: a.getenv("SIGLAKE_REST_CREDENTIAL"),
			OAuth2URI: a.getenv("SIGLAKE_REST_OAUTH2_SERVER_URI"), Scope: a.getenv("SIGLAKE_REST_SCOPE"),
			Warehouse: a.getenv("SIGLAKE_REST_WAREHOUSE"), Prefix: a.getenv("SIGLAKE_REST_PREFIX"),
		},
	}, err
}

// openLake opens the catalog. The caller closes it.
func (a *app) openLake(ctx context.Context, readOnly bool) (*lake.Lake, error) {
	opt, err := a.lakeOptions(readOnly)
	if err != nil {
		return nil, err
	}
	l, err := lake.Open(ctx, opt)
	if errors.Is(err, lake.ErrNoCatalog) {
		return nil, a.noCatalog(err)
	}
	return l, err
}

// noCatalog adds to an error about a catalog that is not there how one comes about.
func (a *app) noCatalog(err error) error {
	switch {
	case errors.Is(err, lake.ErrNoHome): // it says that itself
		return fmt.Errorf("%w (--data or --catalog)", err)
	case a.lostCatalog():
		return fmt.Errorf("%w, and rows were committed to one from this log: %s shows what it can bring back; a collector that starts before makes an empty one. "+
			"Or name the right place (--data or --catalog)", err, a.next("catalog-repair"))
	}
	return fmt.Errorf("%w: start the collector once to make it, or name the right place (--data or --catalog)", err)
}

// lostCatalog tells of a place without a catalog whether there was one: rows were committed from the log.
func (a *app) lostCatalog() bool {
	root, err := a.openRoot()
	if err != nil {
		return false
	}
	had, err := drain.Committing(root)
	return err == nil && had
}
