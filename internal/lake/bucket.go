package lake

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
	"gocloud.dev/gcerrors"
)

// defaultRegion is what stores that are not Amazon's are content with.
const defaultRegion = "us-east-1"

// openObjects opens a bucket, given as scheme://name, without talking to it.
func openObjects(home string, opt S3, patience time.Duration) (*objectIO, error) {
	o := &objectIO{home: home, patience: patience, idle: func() {}}
	name, isS3 := strings.CutPrefix(home, "s3://")
	if !isS3 {
		// The SDK finds the credentials: GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT and their like.
		b, err := blob.OpenBucket(context.Background(), home)
		o.bucket = b
		return o, err
	}
	client, idle, err := s3Client(opt)
	if err != nil {
		return nil, err
	}
	o.idle = idle
	o.bucket, err = s3blob.OpenBucket(context.Background(), client, name, nil)
	return o, err
}

// s3Client is the SDK's client. What opt leaves empty is found by the SDK: AWS_* variables, shared files, the identity
// of the machine.
func s3Client(opt S3) (*s3.Client, func(), error) {
	load := []func(*config.LoadOptions) error{config.WithLogger(logging.Nop{})}
	if opt.Region != "" {
		load = append(load, config.WithRegion(opt.Region))
	}
	if opt.AccessKeyID != "" {
		load = append(load, config.WithCredentialsProvider(
			credentials.NewStaticCredentialsProvider(opt.AccessKeyID, opt.SecretAccessKey, opt.SessionToken)))
	}
	cfg, err := config.LoadDefaultConfig(context.Background(), load...)
	if err != nil {
		return nil, nil, fmt.Errorf("find the configuration of S3: %w", err)
	}
	cfg.Region = cmp.Or(cfg.Region, defaultRegion)
	cfg.Logger = logging.Nop{} // it would write to the process's own output; what matters comes back as an error
	transport := s3Transport(cfg.HTTPClient)
	cfg.HTTPClient = &http.Client{Transport: transport, CheckRedirect: sameMethod}
	client := s3.NewFromConfig(cfg, func(o *s3.Options) {
		if opt.Endpoint != "" {
			o.BaseEndpoint = aws.String(opt.Endpoint)
		}
		// A store of one's own seldom has a name per bucket. o knows of the endpoint in the environment too.
		o.UsePathStyle = o.BaseEndpoint != nil
		if opt.PathStyle != nil {
			o.UsePathStyle = *opt.PathStyle
		}
		o.DisableLogOutputChecksumValidationSkipped = true
	})
	return client, transport.CloseIdleConnections, nil
}

// s3Transport is the SDK's transport, AWS_CA_BUNDLE included, with a limit for an answer to begin.
func s3Transport(found aws.HTTPClient) *http.Transport {
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
	var said smithy.APIError
	switch {
	case err == nil, gcerrors.Code(err) == gcerrors.NotFound && (!errors.As(err, &said) || said.ErrorCode() != "NoSuchBucket"):
		return nil
	case gcerrors.Code(err) == gcerrors.NotFound:
		return fmt.Errorf("%w; make the bucket, or correct the key warehouse", err)
	case gcerrors.Code(err) == gcerrors.PermissionDenied:
		return fmt.Errorf("%w; give this identity s3:GetObject, s3:PutObject, s3:DeleteObject, s3:AbortMultipartUpload and s3:ListBucket", err)
	}
	return err
}
