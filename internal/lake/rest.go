package lake

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/catalog/rest"
	"github.com/apache/iceberg-go/table"
)

// restURL reads the key catalog and returns the URL of the server.
func restURL(value string) (string, error) {
	bad := func(why string) (string, error) {
		return "", fmt.Errorf("catalog: %q %s; write rest+https://host/path and give credentials in the section rest", redactURL(value), why)
	}
	uri := strings.TrimPrefix(value, "rest+")
	u, err := url.Parse(uri)
	switch {
	case err != nil:
		return bad("is no URL")
	case u.Host == "":
		return bad("names no host")
	case u.User != nil, u.RawQuery != "", u.Fragment != "":
		return bad("has more than a host and a path")
	}
	return uri, nil
}

// restSource is a catalog behind the Iceberg REST protocol.
func restSource(opt Options) (source, error) {
	uri, err := restURL(opt.Catalog)
	if err != nil {
		return source{}, err
	}
	_, word, _ := strings.Cut(opt.REST.Credential, ":")
	return source{
		name: redactURL(opt.Catalog), secrets: secrets{opt.REST.Token, opt.REST.Credential, word},
		open: func(ctx context.Context, _ string) (opened, error) {
			return openREST(ctx, uri, redactURL(opt.Catalog), opt.REST, opt.ReadOnly)
		},
	}, nil
}

func openREST(ctx context.Context, uri, name string, opt REST, readOnly bool) (_ opened, err error) {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: opt.TLS, ForceAttemptHTTP2: true,
		ResponseHeaderTimeout: time.Minute, IdleConnTimeout: 90 * time.Second, MaxIdleConnsPerHost: 4,
	}
	defer func() {
		if err != nil {
			transport.CloseIdleConnections()
		}
	}()
	options := []rest.Option{
		rest.WithCustomTransport(transport), rest.WithOAuthToken(opt.Token), rest.WithCredential(opt.Credential),
		rest.WithScope(opt.Scope), rest.WithWarehouseLocation(opt.Warehouse), rest.WithPrefix(opt.Prefix),
		// All snapshots, not those with a name only: a commit whose answer was lost is looked for among them.
		rest.WithAdditionalProps(iceberg.Properties{"snapshot-loading-mode": string(rest.SnapshotModeAll)}),
	}
	if opt.OAuth2URI != "" {
		u, err := url.Parse(opt.OAuth2URI)
		if err != nil {
			return opened{}, fmt.Errorf("rest::oauth2_server_uri: %q is no URL", redactURL(opt.OAuth2URI))
		}
		options = append(options, rest.WithAuthURI(u))
	}
	cat, err := rest.NewCatalog(ctx, catalogName, uri, options...)
	if err != nil {
		return opened{}, restAdvice(err, readOnly)
	}
	named := restCatalog{cat, name}
	return opened{
		cat: named, make: named.make, register: named.register,
		close: func() error {
			err := cat.Close()
			transport.CloseIdleConnections()
			return err
		},
	}, nil
}

// restAdvice adds what to do about an error.
func restAdvice(err error, readOnly bool) error {
	switch {
	case errors.Is(err, rest.ErrUnauthorized), errors.Is(err, rest.ErrForbidden), errors.Is(err, rest.ErrOAuthError):
		return fmt.Errorf("%w; correct the section rest: token or credential, and warehouse", err)
	case readOnly && errors.Is(err, rest.ErrBadRequest):
		return fmt.Errorf("%w: %w", ErrNoHome, err)
	}
	return err
}

// restCatalog says in its errors which catalog they are of and what was asked of it: the texts of servers do not.
type restCatalog struct {
	*rest.Catalog

	name string // without credentials
}

// of is the error of a call about a table or a namespace.
func (c restCatalog) of(what string, id table.Identifier, err error) error {
	if err == nil {
		return nil
	}
	if len(id) == 0 {
		return fmt.Errorf("catalog %s, %s: %w", c.name, what, err)
	}
	return fmt.Errorf("catalog %s, %s %s: %w", c.name, what, strings.Join(id, "."), err)
}

func (c restCatalog) LoadTable(ctx context.Context, id table.Identifier) (*table.Table, error) {
	t, err := c.Catalog.LoadTable(ctx, id)
	return t, c.of("table", id, err)
}

func (c restCatalog) CommitTable(
	ctx context.Context, id table.Identifier, r []table.Requirement, u []table.Update,
) (table.Metadata, string, error) {
	meta, location, err := c.Catalog.CommitTable(ctx, id, r, u)
	return meta, location, c.of("table", id, err)
}

func (c restCatalog) CheckNamespaceExists(ctx context.Context, ns table.Identifier) (bool, error) {
	there, err := c.Catalog.CheckNamespaceExists(ctx, ns)
	return there, c.of("namespace", ns, err)
}

func (c restCatalog) CreateNamespace(ctx context.Context, ns table.Identifier, props iceberg.Properties) error {
	return c.of("namespace", ns, c.Catalog.CreateNamespace(ctx, ns, props))
}

func (c restCatalog) ListNamespaces(ctx context.Context, parent table.Identifier) ([]table.Identifier, error) {
	out, err := c.Catalog.ListNamespaces(ctx, parent)
	return out, c.of("list of namespaces", parent, err)
}

func (c restCatalog) DropNamespace(ctx context.Context, ns table.Identifier) error {
	return c.of("namespace", ns, c.Catalog.DropNamespace(ctx, ns))
}

func (c restCatalog) tableNames(ctx context.Context, ns table.Identifier) ([]table.Identifier, error) {
	out, err := listed(c.ListTables(ctx, ns))
	return out, c.of("tables of namespace", ns, err)
}

func (c restCatalog) dropTable(ctx context.Context, id table.Identifier) error {
	return c.of("table", id, c.PurgeTable(ctx, id))
}

// make asks the server for a table, in one request: it makes one if there is none of the name, and whoever comes second
// is told so. Not every server takes a first commit for that, as SQL catalogs do. The server may give the columns field
// ids of its own; they are then the table's, and rows are written under them.
func (c restCatalog) make(ctx context.Context, id table.Identifier, b birth) (string, error) {
	b.props["format-version"] = "2"
	t, err := c.CreateTable(ctx, id, b.schema, catalog.WithPartitionSpec(&b.spec), catalog.WithSortOrder(b.order),
		catalog.WithProperties(b.props), catalog.WithLocation(b.location))
	if err != nil {
		return "", c.of("table", id, err)
	}
	return t.MetadataLocation(), nil
}

// register makes a table known that the server does not have.
func (c restCatalog) register(ctx context.Context, id table.Identifier, metadata string) error {
	_, err := c.RegisterTable(ctx, id, metadata)
	return c.of("table", id, err)
}
