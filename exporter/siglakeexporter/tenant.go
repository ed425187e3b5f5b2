package siglakeexporter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/client"

	"github.com/siglakecol/siglakecol/internal/segment"
)

// errDenied marks a tenant that the sender may not write to.
var errDenied = errors.New("tenant denied")

// TenancyConfig says whose rows a request holds. Off, all rows are those of the tenant default.
type TenancyConfig struct {
	Enabled bool `mapstructure:"enabled"`
	// AuthAttribute takes the tenant from this attribute of the receiver's authenticator, and not from the request.
	AuthAttribute string `mapstructure:"auth_attribute"`
	// Allowed lists the tenants that may write; empty: every well-formed name, up to wal::max_tenants.
	Allowed []string `mapstructure:"allowed"`
}

// Validate checks the keys of this level.
func (c *TenancyConfig) Validate() error {
	if !c.Enabled {
		if c.AuthAttribute != "" || len(c.Allowed) > 0 {
			return errors.New("enabled: false, but auth_attribute or allowed is set; set enabled: true, or remove them")
		}
		return nil
	}
	var errs []error
	seen := map[string]string{}
	for _, name := range c.Allowed {
		if err := segment.CheckTenant(name); err != nil {
			errs = append(errs, fmt.Errorf("allowed: %w; give a name that can be a tenant", err))
			continue
		}
		folded := strings.ToLower(name)
		if other, ok := seen[folded]; ok {
			errs = append(errs, fmt.Errorf("allowed: %q and %q differ in letter case only, or not at all; keep one", other, name))
		}
		seen[folded] = name
	}
	return errors.Join(errs...)
}

// Why a request is refused for its tenant; the closed set of the attribute reason of tenantRefused.
const (
	tenantOff        = "tenancy_off"
	tenantMissing    = "missing"
	tenantBadName    = "bad_name"
	tenantNotAllowed = "not_allowed"
	tenantMismatch   = "mismatch"
)

func tenantReasons() []string {
	return []string{tenantOff, tenantMissing, tenantBadName, tenantNotAllowed, tenantMismatch}
}

// of returns the tenant of the request behind ctx. A name is taken as it is or refused: never repaired, and never
// replaced by the default.
//
//	reason  why there is an error, for the counter
//	errors  errParameter (400) and errDenied (403); nothing is written under either
func (c *TenancyConfig) of(ctx context.Context) (name, reason string, err error) {
	info := client.FromContext(ctx)
	named := info.Metadata.Get(keyTenant)
	switch {
	case !c.Enabled && len(named) > 0:
		return "", tenantOff, fmt.Errorf("%w %s: tenancy is off here; leave it out (rows go to the tenant default)", errParameter, keyTenant)
	case !c.Enabled:
		return segment.DefaultTenant, "", nil
	case c.AuthAttribute != "":
		name, reason, err = c.ofAuth(info.Auth, named)
	default:
		name, reason, err = ofRequest(named)
	}
	if err != nil {
		return "", reason, err
	}
	if err := segment.CheckTenant(name); err != nil {
		return "", tenantBadName, fmt.Errorf("%w %s: %w", errParameter, keyTenant, err)
	}
	if len(c.Allowed) > 0 && !slices.Contains(c.Allowed, name) {
		return "", tenantNotAllowed, fmt.Errorf("%w: %s is not allowed here", errDenied, quote(name))
	}
	return name, "", nil
}

// ofRequest is the tenant that the request itself names.
func ofRequest(named []string) (name, reason string, err error) {
	switch len(named) {
	case 0:
		return "", tenantMissing, fmt.Errorf("%w %s: missing; every request names its tenant here", errParameter, keyTenant)
	case 1:
		return named[0], "", nil
	default:
		return "", tenantBadName, fmt.Errorf("%w %s: given %d times, want exactly one", errParameter, keyTenant, len(named))
	}
}

// ofAuth is the tenant that the authenticator vouches for. A request may name it too, but no other.
func (c *TenancyConfig) ofAuth(auth client.AuthData, named []string) (name, reason string, err error) {
	var value any
	if auth != nil {
		value = auth.GetAttribute(c.AuthAttribute)
	}
	switch v := value.(type) {
	case string:
		name = v
	case []string:
		if len(v) == 1 {
			name = v[0]
		}
	}
	if name == "" {
		return "", tenantMissing, fmt.Errorf("%w: the sender's authentication names no tenant in %s", errDenied, quote(c.AuthAttribute))
	}
	for _, other := range named {
		if other != name {
			return "", tenantMismatch, fmt.Errorf("%w: the request names tenant %s and the sender's authentication another", errDenied, quote(other))
		}
	}
	return name, "", nil
}
