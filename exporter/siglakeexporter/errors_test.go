package siglakeexporter

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/wal"
)

// answerCase is one line of the error table: a cause, and what must come of it everywhere.
type answerCase struct {
	name    string
	cause   error
	code    codes.Code
	http    int
	text    string
	retry   time.Duration // 0 = permanent
	trouble bool          // reported as the component's status, under wait_for, until the next success
	full    bool          // the same, until the log says that there is room
}

func answerCases() []answerCase {
	wrap := func(err error) error { return fmt.Errorf("append to default/events: %w", err) }
	full := func(limit string) error { return wrap(&wal.LimitError{Limit: limit, Used: 7, Max: 5}) }
	enospc := &fs.PathError{Op: "write", Path: "/secret/place", Err: syscall.ENOSPC}
	return []answerCase{
		{name: "in flight", cause: full("max_in_flight"), code: codes.ResourceExhausted, http: 429, retry: retryInFlight, text: "refused, nothing was written: wal: 7 of 5 bytes of max_in_flight in use"},
		{name: "wal bytes", cause: full("max_bytes"), code: codes.ResourceExhausted, http: 429, retry: retrySpace, full: true, text: "refused, nothing was written: wal: 7 of 5 bytes of max_bytes in use"},
		{name: "free floor", cause: full("min_free"), code: codes.ResourceExhausted, http: 429, retry: retrySpace, full: true, text: "refused, nothing was written: wal: 7 bytes free on the volume, min_free keeps 5"},
		{name: "waiting", cause: full("max_waiting"), code: codes.ResourceExhausted, http: 429, retry: retryInFlight, text: "refused, nothing was written: wal: 7 of 5 requests of max_waiting in use"},
		{name: "tenant share", cause: wrap(&wal.LimitError{Limit: "tenant_share", Of: "max_in_flight", Used: 7, Max: 5}), code: codes.ResourceExhausted, http: 429, retry: retryInFlight, text: "refused, nothing was written: wal: this tenant uses 7 bytes of max_in_flight, more than 5 is not its share now"},
		{name: "lanes", cause: full("max_lanes"), code: codes.ResourceExhausted, http: 429, retry: retrySpace, text: "refused, nothing was written: wal: 7 of 5 lanes of max_lanes in use"},
		{name: "tenants", cause: full("max_tenants"), code: codes.ResourceExhausted, http: 429, retry: retrySpace, text: "refused, nothing was written: wal: 7 of 5 tenants of max_tenants in use"},
		{name: "lock lost", cause: wrap(wal.ErrLockLost), code: codes.Unavailable, http: 503, retry: retryStorage, trouble: true, text: "another process may have the write-ahead log, nothing was written"},
		{name: "tenant denied", cause: fmt.Errorf("%w: x is not allowed here", errDenied), code: codes.PermissionDenied, http: 403, text: "tenant denied: x is not allowed here"},
		{name: "disk full", cause: wrap(enospc), code: codes.Unavailable, http: 503, retry: retryStorage, trouble: true, text: "storage trouble, the rows are not acknowledged: no space left on device"},
		{name: "fsync", cause: wrap(syscall.EIO), code: codes.Unavailable, http: 503, retry: retryStorage, trouble: true, text: "storage trouble, the rows are not acknowledged: input/output error"},
		{name: "damaged record", cause: wrap(fmt.Errorf("/secret/holds: %w", segment.ErrRecord)), code: codes.Unavailable, http: 503, retry: retryStorage, trouble: true, text: "storage trouble, the rows are not acknowledged"},
		{name: "unforeseen", cause: errors.New("boom"), code: codes.Unavailable, http: 503, retry: retryStorage, trouble: true, text: "storage trouble, the rows are not acknowledged"},
		{name: "closed", cause: wrap(wal.ErrClosed), code: codes.Unavailable, http: 503, retry: retryClosed, text: "shutting down, nothing was written"},
		{name: "client gone", cause: wrap(context.Canceled), code: codes.Unavailable, http: 503, retry: retryClosed, text: "the client gave up before its rows were admitted, nothing was written"},
		{name: "deadline", cause: wrap(context.DeadlineExceeded), code: codes.Unavailable, http: 503, retry: retryClosed, text: "the client gave up before its rows were admitted, nothing was written"},
		{name: "bad name", cause: wrap(segment.ErrReservedName), code: codes.InvalidArgument, http: 400, text: "append to default/events: segment: name not allowed: reserved"},
		{name: "bad rows", cause: fmt.Errorf("%w: encode logs: too deep", errContent), code: codes.InvalidArgument, http: 400, text: "cannot be stored: encode logs: too deep"},
		{name: "bad request", cause: wrap(wal.ErrRequest), code: codes.InvalidArgument, http: 400, text: "append to default/events: wal: malformed request"},
		{name: "bad mode", cause: fmt.Errorf("%w commit: x", errParameter), code: codes.InvalidArgument, http: 400, text: "request parameter commit: x"},
	}
}

// ACK-1: each cause has one answer, with a hint to come back exactly when coming back can help.
func TestClassify(t *testing.T) {
	t.Parallel()
	require.NoError(t, classify(nil))
	require.False(t, isTrouble(nil))
	for _, tc := range answerCases() {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			err := classify(tc.cause)
			require.ErrorIs(t, err, tc.cause)
			require.EqualError(t, err, tc.cause.Error(), "the log gets the cause")
			st, ok := status.FromError(err)
			require.True(t, ok)
			require.Equal(t, tc.code, st.Code())
			require.Equal(t, tc.text, st.Message())
			require.Equal(t, tc.retry == 0, consumererror.IsPermanent(err))
			require.Equal(t, tc.retry, retryDelay(st))
			require.Equal(t, tc.trouble, isTrouble(tc.cause))
			require.Equal(t, tc.full, isFull(tc.cause, wal.WaitFor))

			// Wrapped by others on the way, it stays what it is.
			wrapped := fmt.Errorf("fan out: %w", err)
			require.Equal(t, tc.code, status.Code(wrapped))
			require.Equal(t, tc.retry == 0, consumererror.IsPermanent(wrapped))
		})
	}
	// auto is refused from a lower mark on: no reason to call the component ill.
	require.False(t, isFull(&wal.LimitError{Limit: "max_bytes"}, wal.Auto))
}

// retryDelay is the hint in a status, 0 when there is none.
func retryDelay(st *status.Status) time.Duration {
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			return info.GetRetryDelay().AsDuration()
		}
	}
	return 0
}
