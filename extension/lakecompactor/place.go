package lakecompactor

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"go.opentelemetry.io/collector/config/configopaque"
	"go.opentelemetry.io/collector/config/configtls"

	"github.com/siglakecol/siglakecol/internal/lake"
)

// RESTConfig is the section rest: how an Iceberg REST catalog is spoken to.
type RESTConfig struct {
	// Token is a bearer token. Without, Credential (id:secret) is exchanged for one.
	Token      configopaque.String `mapstructure:"token"`
	Credential configopaque.String `mapstructure:"credential"`
	// OAuth2ServerURI is where. Empty: the catalog's own address.
	OAuth2ServerURI string `mapstructure:"oauth2_server_uri"`
	// Scope of the token. Empty: catalog.
	Scope string `mapstructure:"scope"`
	// Warehouse is the catalog's name for the warehouse, if it has several.
	Warehouse string `mapstructure:"warehouse"`
	// Prefix of the catalog's paths, unless it tells it itself.
	Prefix string                 `mapstructure:"prefix"`
	TLS    configtls.ClientConfig `mapstructure:"tls"`

	// prevent unkeyed literals
	_ struct{}
}

// Validate is called for the section by itself. No error repeats a secret.
func (c *RESTConfig) Validate() error {
	var errs []error
	if c.Token != "" && c.Credential != "" {
		errs = append(errs, errors.New("token: given together with credential; give one of them"))
	}
	if u, err := url.Parse(c.OAuth2ServerURI); c.OAuth2ServerURI != "" && (err != nil || u.Host == "" || u.User != nil) {
		errs = append(errs, errors.New("oauth2_server_uri: it is no http or https URL of a host; write for example https://login.example.net/oauth/tokens, and give the secret in credential"))
	}
	return errors.Join(errs...)
}

// restErr refuses the section where nothing reads it.
func (c *Config) restErr() error {
	r := c.REST
	if strings.HasPrefix(string(c.Catalog), "rest+") || r.Token == "" && r.Credential == "" && r.OAuth2ServerURI == "" && r.Warehouse == "" && r.Prefix == "" {
		return nil
	}
	return errors.New("rest: the section is for catalogs that begin with rest+https://; correct the key catalog, or remove the section")
}

// place is where the tables are, but for the TLS settings of a REST catalog.
func (c *Config) place() lake.Options {
	return lake.Options{
		Catalog: string(c.Catalog), Warehouse: c.Warehouse, S3: c.S3.Options(),
		REST: lake.REST{
			Token: string(c.REST.Token), Credential: string(c.REST.Credential), OAuth2URI: c.REST.OAuth2ServerURI,
			Scope: c.REST.Scope, Warehouse: c.REST.Warehouse, Prefix: c.REST.Prefix,
		},
	}
}

// withTLS reads the certificates of a REST catalog, if there is one.
func (c *Config) withTLS(ctx context.Context) (lake.Options, error) {
	opt := c.place()
	if !strings.HasPrefix(opt.Catalog, "rest+https://") {
		return opt, nil
	}
	tls, err := c.REST.TLS.LoadTLSConfig(ctx)
	if err != nil {
		return opt, fmt.Errorf("rest::tls: %w", err)
	}
	opt.REST.TLS = tls
	return opt, nil
}
