package lake

import (
	"fmt"
	"strings"

	"gocloud.dev/gcerrors"

	"github.com/siglakecol/siglakecol/internal/objstore"
)

// probe asks for an object that is not there, to learn now whether the bucket is, and lets us in.
func (s *stores) probe(warehouse string) error {
	location := strings.TrimSuffix(warehouse, "/") + "/.siglake-probe"
	at, err := s.at(location)
	if err != nil {
		return err
	}
	o, ok := at.(*objectIO)
	if !ok {
		return fmt.Errorf("%s is in no bucket", warehouse)
	}
	key, err := o.key(location)
	if err != nil {
		return err
	}
	t := o.transfer()
	defer t.end(nil)
	err = t.step(func() error {
		r, err := o.bucket.NewRangeReader(t.ctx, key, 0, 1, nil)
		if err != nil {
			return err
		}
		return r.Close()
	})
	switch {
	case err == nil, gcerrors.Code(err) == gcerrors.NotFound && !objstore.NoSuchBucket(err):
		return nil
	case objstore.NoSuchBucket(err):
		return fmt.Errorf("%w; make the bucket, or correct the key warehouse", err)
	case gcerrors.Code(err) == gcerrors.PermissionDenied:
		return fmt.Errorf("%w; give this identity s3:GetObject, s3:PutObject, s3:DeleteObject, s3:AbortMultipartUpload and s3:ListBucket", err)
	}
	return err
}
