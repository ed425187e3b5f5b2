package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/siglakecol/siglakecol/internal/mirror"
	"github.com/siglakecol/siglakecol/internal/objstore"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// explainRecover says what to do about what ends a recovery. The URL came by that flag.
func (a *app) explainRecover(ctx context.Context, flag string, from objstore.Location, opt objstore.Options, err error) error {
	if locked, ok := errors.AsType[*vfs.LockedError](err); ok {
		return fmt.Errorf("the root is in use: %s is held by %s; stop that process, or give --online to restore beside it", locked.Name, locked.Holder)
	}
	if errors.Is(err, segment.ErrNotEmpty) || errors.Is(err, mirror.ErrPlace) {
		return usageError("--to: %w", err)
	}
	if marker, ok := errors.AsType[*mirror.MarkerError](err); ok {
		return explainMarker(flag, from, marker)
	}
	if store, ok := errors.AsType[*mirror.StoreError](err); ok {
		return a.explainStore(flag, from, store)
	}
	missing, ok := errors.AsType[*mirror.NoMirrorError](err)
	if !ok {
		return err
	}
	var hint string
	switch up := a.mirrorAbove(ctx, from, opt); {
	case len(missing.Below) > 0:
		hint = "there is one at " + from.Join(missing.Below[0]).String()
	case up != "":
		hint = "there is one at " + up
	case missing.Objects == 0:
		hint = "nothing is there; give bucket_url and prefix of the walmirror extension, as bucket_url/prefix"
	case missing.Inner > missing.Segments:
		up := from
		for range missing.Levels {
			up = up.Join("..")
		}
		hint = plural(missing.Inner, "segment lies", "segments lie") + " here without the directories of tenant and index that are below the root; it is probably " + up.String()
	default:
		hint = plural(missing.Objects, "object is", "objects are") +
			" there and none is siglake-mirror.json; give bucket_url and prefix of the walmirror extension, as bucket_url/prefix"
		if missing.Segments > 0 {
			hint += fmt.Sprintf(". If that is what you gave, the marker of %s was deleted: put an object siglake-mirror.json with the content %s there",
				plural(missing.Segments, "segment", "segments"), mirror.EmptyMarker)
		}
	}
	return usageError("%s: %s is not the root of a mirror: %s", flag, from, hint)
}

// explainMarker says what to do about a siglake-mirror.json that says nothing to us.
func explainMarker(flag string, from objstore.Location, err *mirror.MarkerError) error {
	if err.Newer {
		return usageError("%s: %s: %w; use the siglake of the version that wrote this mirror", flag, from, err)
	}
	return usageError("%s: %s: %w; if this is the mirror, put an object siglake-mirror.json with the content %s in its place", flag, from, err, mirror.EmptyMarker)
}

// explainStore says what to look at when the listing did not come.
func (a *app) explainStore(flag string, from objstore.Location, err error) error {
	check := "check the URL and the credentials in the environment"
	switch from.Scheme {
	case "file":
		check = "check the directory, its permissions and its volume"
	case "s3":
		endpoint := cmp.Or(a.getenv("AWS_ENDPOINT_URL_S3"), a.getenv("AWS_ENDPOINT_URL"))
		if endpoint != "" {
			endpoint = "AWS_ENDPOINT_URL_S3 says " + objstore.Redact(endpoint)
		} else {
			endpoint = "AWS_ENDPOINT_URL_S3 is not set, so it is Amazon's"
		}
		if objstore.NoSuchBucket(err) {
			return usageError("%s: %s: the store has no bucket %s; correct the URL, or the endpoint (%s)", flag, from, from.Bucket, endpoint)
		}
		check = "check the URL, the keys (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION) and the endpoint (" + endpoint + ")"
	}
	return fmt.Errorf("%s: %w; %s", from, err, check)
}

// mirrorAbove looks for the root that the user may have meant, up to three levels up: tenant, index and a directory
// named twice.
func (a *app) mirrorAbove(ctx context.Context, from objstore.Location, opt objstore.Options) string {
	for range 3 {
		up := from.Join("..")
		if up == from {
			return ""
		}
		from = up
		store, err := objstore.Open(ctx, from.String(), opt)
		if err != nil {
			return ""
		}
		found := mirror.Marked(ctx, store)
		_ = store.Close() // only read
		if found {
			return from.String()
		}
	}
	return ""
}
