// Package stores holds the configuration sections about object stores that components have in common.
package stores

import (
	"errors"
	"fmt"
	"net/url"

	"go.opentelemetry.io/collector/config/configopaque"

	"github.com/siglakecol/siglakecol/internal/objstore"
)

// S3Config is the section s3: how a store with an S3 interface is reached. What is empty comes from the SDK's own chain
// (AWS_* variables, shared files, the identity of the pod or machine).
type S3Config struct {
	Endpoint        string              `mapstructure:"endpoint"` // URL of a store that is not Amazon's
	Region          string              `mapstructure:"region"`
	AccessKeyID     string              `mapstructure:"access_key_id"`
	SecretAccessKey configopaque.String `mapstructure:"secret_access_key"`
	SessionToken    configopaque.String `mapstructure:"session_token"`
	PathStyle       *bool               `mapstructure:"path_style"` // the bucket in the URL's path, not in its host; nil: with an endpoint
	Checksum        string              `mapstructure:"checksum"`   // when_required, when_supported

	// prevent unkeyed literals
	_ struct{}
}

// Default is the section where a user writes none.
func Default() S3Config { return S3Config{Checksum: objstore.WhenRequired} }

// Validate looks at the text only. No error repeats a secret.
func (c *S3Config) Validate() error {
	var errs []error
	if c.Endpoint != "" && !plainURL(c.Endpoint) {
		errs = append(errs, errors.New("endpoint: it is no http or https URL of a host; write for example https://minio.example.net:9000, without credentials"))
	}
	if (c.AccessKeyID == "") != (c.SecretAccessKey == "") {
		errs = append(errs, errors.New("access_key_id: given without secret_access_key, or the reverse; give both, or neither to use the AWS_* variables or the identity of the pod"))
	}
	if c.SessionToken != "" && c.AccessKeyID == "" {
		errs = append(errs, errors.New("session_token: given without access_key_id; give access_key_id and secret_access_key with it"))
	}
	if c.Checksum != objstore.WhenRequired && c.Checksum != objstore.WhenSupported {
		errs = append(errs, fmt.Errorf("checksum: %q is not one of %s, %s", c.Checksum, objstore.WhenRequired, objstore.WhenSupported))
	}
	return errors.Join(errs...)
}

// plainURL tells whether text is the URL of a host, without credentials. What is not may hold some, and is not shown.
func plainURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") && u.User == nil && u.RawQuery == ""
}

// Options are the section as the store takes it.
func (c *S3Config) Options() objstore.S3 {
	return objstore.S3{
		Endpoint: c.Endpoint, Region: c.Region, PathStyle: c.PathStyle, Checksum: c.Checksum,
		AccessKeyID: c.AccessKeyID, SecretAccessKey: string(c.SecretAccessKey), SessionToken: string(c.SessionToken),
	}
}
