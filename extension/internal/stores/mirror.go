package stores

import (
	"errors"
	"fmt"
	"strings"

	"github.com/siglakecol/siglakecol/internal/objstore"
)

// MirrorConfig says where the mirror of a write-ahead log is.
type MirrorConfig struct {
	// BucketURL names the store, credentials never in it. Empty: no mirror.
	BucketURL string `mapstructure:"bucket_url"`
	// Prefix is the directory of the copies in it. Empty: no mirror.
	Prefix string `mapstructure:"prefix"`
	// S3 says how s3:// is reached.
	S3 S3Config `mapstructure:"s3"`

	// prevent unkeyed literals
	_ struct{}
}

// DefaultMirror is the section where a user writes none.
func DefaultMirror() MirrorConfig { return MirrorConfig{Prefix: objstore.DefaultPrefix, S3: Default()} }

// Idle tells that there is no mirror.
func (c *MirrorConfig) Idle() bool { return c.BucketURL == "" || c.Prefix == "" }

// Location is where the copies are; a relative directory is made absolute, as it means now.
func (c *MirrorConfig) Location() (objstore.Location, error) {
	l, err := objstore.ParseURL(c.BucketURL)
	if err != nil {
		return objstore.Location{}, err
	}
	return l.Join(c.Prefix).Absolute()
}

// Validate looks at the text only. S3 is validated by itself.
func (c *MirrorConfig) Validate() error {
	var errs []error
	if c.BucketURL != "" {
		if _, err := objstore.ParseURL(c.BucketURL); err != nil {
			errs = append(errs, fmt.Errorf("bucket_url: %w", err))
		}
	}
	if c.Prefix != "" && !cleanPrefix(c.Prefix) {
		errs = append(errs, fmt.Errorf("prefix: %q is no path of plain names; write for example wal-mirror, or \"\" for no mirror", c.Prefix))
	}
	return errors.Join(errs...)
}

// cleanPrefix accepts names that mean themselves in every store and in the path of a URL.
func cleanPrefix(prefix string) bool {
	for name := range strings.SplitSeq(prefix, "/") {
		if name == "" || name == "." || name == ".." || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.=") != "" {
			return false
		}
	}
	return true
}
