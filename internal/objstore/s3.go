package objstore

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"path"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"gocloud.dev/blob"
	"gocloud.dev/blob/s3blob"
)

// s3Store is bucket with writes of its own: gocloud.dev sends an object in parts of its own buffers, which no MD5
// vouches for and which a lost connection leaves behind. Here an object is one request of a body that can be read
// again, so that the SDK signs it anew when it tries again.
type s3Store struct {
	*bucket
	client       *s3.Client
	idle         func() // lets go of connections
	name, prefix string
}

func openS3(ctx context.Context, l Location, opt S3) (Store, error) {
	client, idle, err := opt.client()
	if err != nil {
		return nil, err
	}
	b, err := s3blob.OpenBucket(ctx, client, l.Bucket, nil)
	if err != nil {
		return nil, err
	}
	return &s3Store{bucket: below(b, l.Path), client: client, idle: idle, name: l.Bucket, prefix: l.Path}, nil
}

// Close implements Store.
func (s *s3Store) Close() error {
	err := s.bucket.Close()
	s.idle()
	return err
}

// Put implements Store.
func (s *s3Store) Put(ctx context.Context, key string, r io.ReaderAt, size int64, sum []byte) error {
	return s.put(ctx, key, r, size, sum, aws.String("*"))
}

// Replace implements Store.
func (s *s3Store) Replace(ctx context.Context, key string, r io.ReaderAt, size int64, sum []byte) error {
	return s.put(ctx, key, r, size, sum, nil)
}

func (s *s3Store) put(ctx context.Context, key string, r io.ReaderAt, size int64, sum []byte, unless *string) error {
	_, err := s.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: aws.String(s.name), Key: aws.String(path.Join(s.prefix, key)),
		Body: io.NewSectionReader(r, 0, size), ContentLength: aws.Int64(size), ContentType: aws.String(contentType),
		ContentMD5:  aws.String(base64.StdEncoding.EncodeToString(sum)),
		Metadata:    map[string]string{digestKey: hex.EncodeToString(sum)},
		IfNoneMatch: unless,
	})
	if status, ok := errors.AsType[*smithyhttp.ResponseError](err); ok && status.HTTPStatusCode() == http.StatusPreconditionFailed {
		err = mark(err, ErrExists)
	}
	return s.explain("put", key, err)
}

// explain names the step and the reason the store gave.
func (s *s3Store) explain(step, key string, err error) error {
	if code, ok := errors.AsType[smithy.APIError](err); ok && code.ErrorCode() == "NotFound" {
		err = mark(err, ErrNotFound)
	}
	return s.bucket.explain(step, key, err)
}

// encrypted tells whether the ETag of an S3 object is no MD5 of its bytes.
func encrypted(a *blob.Attributes) bool {
	var head s3.HeadObjectOutput
	if !a.As(&head) {
		return false
	}
	return head.SSECustomerAlgorithm != nil ||
		head.ServerSideEncryption != "" && head.ServerSideEncryption != types.ServerSideEncryptionAes256
}
