package objstore

import (
	"cmp"
	"context"
	"fmt"

	"gocloud.dev/blob"

	"github.com/siglakecol/siglakecol/internal/vfs"
)

// Options of Open.
type Options struct {
	S3 S3
	FS vfs.FS // of file://; nil: the real one
}

// Open opens the store at a URL (ParseURL). It looks at the URL and the configuration and sends nothing: a store that
// is away is no error here. A directory of file:// is made by the first Put.
func Open(ctx context.Context, rawURL string, opt Options) (Store, error) {
	l, err := ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	var s Store
	switch l.Scheme {
	case "file":
		s = &dir{fs: cmp.Or(opt.FS, vfs.OS()), root: l.Path}
	case "s3":
		s, err = openS3(ctx, l, opt.S3)
	default:
		s, err = openBucket(l)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", l, err)
	}
	return s, nil
}

// openBucket leaves the rest to gocloud.dev, with the credentials of the environment.
func openBucket(l Location) (Store, error) {
	b, _, err := OpenBucket(l.Scheme+"://"+l.Bucket, S3{}) // of these schemes there is nothing to let go
	if err != nil {
		return nil, err
	}
	return below(b, l.Path), nil
}

func below(b *blob.Bucket, prefix string) *bucket {
	if prefix != "" {
		b = blob.PrefixedBucket(b, prefix+"/")
	}
	return &bucket{b: b}
}
