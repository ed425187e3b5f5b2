package objstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/azureblob" // azblob://
	_ "gocloud.dev/blob/gcsblob"   // gs://
	"gocloud.dev/blob/s3blob"
)

// defaultRegion is what stores that are not Amazon's are content with.
const defaultRegion = "us-east-1"

// Values of S3.Checksum.
const (
	WhenRequired  = "when_required"
	WhenSupported = "when_supported"
)

// S3 says how an S3 store is reached. What is empty comes from the SDK's own chain: AWS_* variables, shared files, the
// identity of the pod or machine.
type S3 struct {
	Endpoint        string // URL of a store that is not Amazon's
	Region          string // empty and nowhere else given: us-east-1
	AccessKeyID     string
	SecretAccessKey string
	SessionToken    string
	PathStyle       *bool  // the bucket in the path of the URL, not in its host; nil: if there is an endpoint
	Checksum        string // WhenRequired (also if empty) or WhenSupported: when the SDK adds checksums of its own
}

// OpenBucket opens a bucket, given as s3://name, gs://name or azblob://name. It talks to nobody: what is wrong with
// bucket or credentials shows in the first request. idle lets go of connections that are not in use; call it after the
// bucket's Close. Credentials of gs and azblob come from the environment, as their SDKs find them.
func OpenBucket(home string, opt S3) (b *blob.Bucket, idle func(), err error) {
	name, isS3 := strings.CutPrefix(home, "s3://")
	if !isS3 {
		b, err = blob.OpenBucket(context.Background(), home)
		return b, func() {}, err
	}
	client, idle, err := opt.client()
	if err != nil {
		return nil, nil, err
	}
	b, err = s3blob.OpenBucket(context.Background(), client, name, nil)
	return b, idle, err
}

// NoSuchBucket tells whether an S3 store said that it has no such bucket.
func NoSuchBucket(err error) bool {
	said, ok := errors.AsType[smithy.APIError](err)
	return ok && said.ErrorCode() == "NoSuchBucket"
}

func (o S3) client() (*s3.Client, func(), error) {
	request, response := aws.RequestChecksumCalculationWhenRequired, aws.ResponseChecksumValidationWhenRequired
	if o.Checksum == WhenSupported {
		request, response = aws.RequestChecksumCalculationWhenSupported, aws.ResponseChecksumValidationWhenSupported
	}
	load := []func(*config.LoadOptions) error{
		// The SDK would write to the process's own output. What matters comes back as an error.
		config.WithLogger(logging.Nop{}),
		config.WithRequestChecksumCalculation(request), config.WithResponseChecksumValidation(response),
	}
	if o.Region != "" {
		load = append(load, config.WithRegion(o.Region))
	}
	if o.AccessKeyID != "" {
		load = append(load, config.WithCredentialsProvider(
			credentials.NewStaticCredentialsProvider(o.AccessKeyID, o.SecretAccessKey, o.SessionToken)))
	}
	cfg, err := config.LoadDefaultConfig(context.Background(), load...)
	if err != nil {
		return nil, nil, fmt.Errorf("find the configuration of S3: %w", err)
	}
	cfg.Region = cmp.Or(cfg.Region, defaultRegion)
	transport := transportOf(cfg.HTTPClient)
	cfg.HTTPClient = &http.Client{Transport: transport, CheckRedirect: sameMethod}
	client := s3.NewFromConfig(cfg, func(so *s3.Options) {
		if o.Endpoint != "" {
			so.BaseEndpoint = aws.String(o.Endpoint)
		}
		// A store of one's own seldom has a name per bucket. BaseEndpoint is also set by the environment.
		so.UsePathStyle = so.BaseEndpoint != nil
		if o.PathStyle != nil {
			so.UsePathStyle = *o.PathStyle
		}
	})
	return client, transport.CloseIdleConnections, nil
}

// transportOf is the SDK's transport, AWS_CA_BUNDLE included, with a limit for an answer to begin.
func transportOf(found aws.HTTPClient) *http.Transport {
	buildable, ok := found.(*awshttp.BuildableClient)
	if !ok {
		buildable = awshttp.NewBuildableClient()
	}
	t := buildable.GetTransport()
	t.ResponseHeaderTimeout = time.Minute
	return t
}

// sameMethod follows only redirects that leave the method as it is.
func sameMethod(r *http.Request, via []*http.Request) error {
	if status := r.Response.StatusCode; status != http.StatusTemporaryRedirect && status != http.StatusPermanentRedirect || len(via) > 5 {
		return http.ErrUseLastResponse
	}
	return nil
}
