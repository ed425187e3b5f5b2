package objstore

import (
	"context"
	"crypto/md5" //nolint:gosec // only its size
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"net/http"
	"path"
	"strings"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"gocloud.dev/blob/s3blob"
)

// s3Store is bucket with writes and stats of its own: gocloud.dev sends an object in parts of its own buffers, which no digest
// vouches for and which a lost connection leaves behind, and asks for no CRC. Here an object is one request of a body that can
// be read again, so that the SDK signs it anew when it tries again.
//
// A request says the CRC-32 of the body in a signed header, and the body itself is not signed. A store that does not know that
// header, or takes no unsigned body, is found out by its first answers: from then on it gets what every store knows, a
// Content-MD5 and a signed digest, which cost thirty times as much.
type s3Store struct {
	*bucket
	client       *s3.Client
	idle         func() // lets go of connections
	name, prefix string
	plain        atomic.Bool // no CRC
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
func (s *s3Store) Put(ctx context.Context, key string, c *Content) error {
	return s.put(ctx, key, c, aws.String("*"))
}

// Replace implements Store.
func (s *s3Store) Replace(ctx context.Context, key string, c *Content) error {
	return s.put(ctx, key, c, nil)
}

func (s *s3Store) put(ctx context.Context, key string, c *Content, unless *string) error {
	err := s.either(func(plain bool) error {
		in := &s3.PutObjectInput{
			Bucket: aws.String(s.name), Key: aws.String(path.Join(s.prefix, key)),
			Body: c.Reader(), ContentLength: aws.Int64(c.Size()), ContentType: aws.String(contentType),
			IfNoneMatch: unless,
		}
		if plain {
			return s.putPlain(ctx, in, c)
		}
		return s.putChecked(ctx, in, c)
	})
	if statusOf(err) == http.StatusPreconditionFailed {
		err = mark(err, ErrExists)
	}
	return s.explain("put", key, err)
}

// putChecked has the store compare the CRC.
func (s *s3Store) putChecked(ctx context.Context, in *s3.PutObjectInput, c *Content) error {
	sum, err := c.CRC32()
	if err != nil {
		return err
	}
	in.ChecksumCRC32 = aws.String(base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum)))
	out, err := s.client.PutObject(ctx, in, unsigned)
	if err == nil && out.ChecksumCRC32 == nil {
		s.plain.Store(true) // it has looked at nothing
	}
	return err
}

// unsigned leaves the body out of the signature: the CRC is in it.
func unsigned(o *s3.Options) {
	o.APIOptions = append(o.APIOptions, v4.SwapComputePayloadSHA256ForUnsignedPayloadMiddleware)
}

// putPlain has the store compare the MD5, and leaves it beside the object.
func (s *s3Store) putPlain(ctx context.Context, in *s3.PutObjectInput, c *Content) error {
	sum, err := c.MD5()
	if err != nil {
		return err
	}
	in.ContentMD5 = aws.String(base64.StdEncoding.EncodeToString(sum))
	in.Metadata = map[string]string{digestKey: hex.EncodeToString(sum)}
	_, err = s.client.PutObject(ctx, in)
	return err
}

// Stat implements Store.
func (s *s3Store) Stat(ctx context.Context, key string) (Info, error) {
	var head *s3.HeadObjectOutput
	err := s.either(func(plain bool) (err error) {
		in := &s3.HeadObjectInput{Bucket: aws.String(s.name), Key: aws.String(path.Join(s.prefix, key))}
		if !plain {
			in.ChecksumMode = types.ChecksumModeEnabled
		}
		head, err = s.client.HeadObject(ctx, in)
		return err
	})
	if err != nil {
		return Info{}, s.explain("stat", key, err)
	}
	info := Info{
		Key: key, Size: aws.ToInt64(head.ContentLength), ModTime: aws.ToTime(head.LastModified),
		CRC32: crcOf(head), MD5: md5Of(head), Claimed: claimed(head.Metadata),
	}
	return info, nil
}

// either calls with a CRC, and where the store takes offence at that, without. It remembers what worked.
func (s *s3Store) either(call func(plain bool) error) error {
	if s.plain.Load() {
		return call(true)
	}
	err := call(false)
	if !offended(err) {
		return err
	}
	err = call(true)
	if err == nil {
		s.plain.Store(true)
	}
	return err
}

// offended tells whether a store may have refused a request for its form, or an unsigned body by the bucket's policy. Not that
// other bytes came than the CRC speaks of.
func offended(err error) bool {
	said, ok := errors.AsType[smithy.APIError](err)
	if ok && said.ErrorCode() == "BadDigest" {
		return false
	}
	status := statusOf(err)
	return status == http.StatusBadRequest || status == http.StatusNotImplemented || ok && said.ErrorCode() == "AccessDenied"
}

// statusOf is the HTTP status of the answer behind an error; 0 without one.
func statusOf(err error) int {
	if said, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		return said.HTTPStatusCode()
	}
	return 0
}

// explain names the step and the reason the store gave.
func (s *s3Store) explain(step, key string, err error) error {
	if statusOf(err) == http.StatusNotFound {
		if code, ok := errors.AsType[smithy.APIError](err); ok && code.ErrorCode() == "NotFound" {
			err = mark(err, ErrNotFound)
		}
	}
	return s.bucket.explain(step, key, err)
}

// crcOf is the CRC that the store shows of a whole object.
func crcOf(head *s3.HeadObjectOutput) *uint32 {
	sum, err := base64.StdEncoding.DecodeString(aws.ToString(head.ChecksumCRC32))
	if err != nil || len(sum) != crc32.Size || head.ChecksumType == types.ChecksumTypeComposite {
		return nil
	}
	return aws.Uint32(binary.BigEndian.Uint32(sum))
}

// md5Of is the MD5 that an ETag is of an object that was put in one request and is not encrypted by a key of one's own.
func md5Of(head *s3.HeadObjectOutput) []byte {
	if head.SSECustomerAlgorithm != nil ||
		head.ServerSideEncryption != "" && head.ServerSideEncryption != types.ServerSideEncryptionAes256 {
		return nil
	}
	sum, err := hex.DecodeString(strings.Trim(aws.ToString(head.ETag), `"`))
	if err != nil || len(sum) != md5.Size {
		return nil
	}
	return sum
}
