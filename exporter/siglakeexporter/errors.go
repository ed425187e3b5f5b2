package siglakeexporter

import (
	"context"
	"errors"
	"syscall"
	"time"

	"go.opentelemetry.io/collector/consumer/consumererror"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/wal"
)

// When a client should come back. Whole seconds and never less than one: the otlp receiver truncates the
// hint to seconds for Retry-After, and 0 would mean at once. Never more than ten: a client drops its rows at once
// when the hint is beyond the time it gives all its tries, which is a minute in some SDKs.
const (
	retryInFlight = 1 * time.Second  // bodies leave memory within milliseconds
	retrySpace    = 10 * time.Second // the age at which the drain commits, so space may be free then
	retryClosed   = 1 * time.Second  // a load balancer has another process by then
	retryStorage  = 5 * time.Second  // a full or failing disk does not heal faster
)

// errContent marks rows that cannot be turned into the table's shape, today or later.
var errContent = errors.New("cannot be stored")

// errPartly marks a request for several indexes of which some have their rows. A client that sends it again stores
// those twice.
var errPartly = errors.New("rows for other indexes were written")

// The limits that do not end with a request, within milliseconds: the drain has to make room, or a person.
const (
	limitBytes   = "max_bytes"
	limitFree    = "min_free"
	limitLanes   = "max_lanes"
	limitTenants = "max_tenants"
)

// classify turns what can end a request into the answer its client gets. It is the one place that does:
//
//	cause                                       gRPC                HTTP   retry hint
//	bad or unavailable mode, bad name           INVALID_ARGUMENT    400    none, permanent
//	index that holds another signal             INVALID_ARGUMENT    400    none, permanent
//	no tenant, or one while tenancy is off      INVALID_ARGUMENT    400    none, permanent
//	tenant not allowed                          PERMISSION_DENIED   403    none, permanent
//	rows that cannot be encoded                 INVALID_ARGUMENT    400    none, permanent
//	in-flight bytes, waiting requests, share    RESOURCE_EXHAUSTED  429    1 s
//	WAL bytes, free-disk floor, lanes, tenants  RESOURCE_EXHAUSTED  429    10 s
//	requests that wait for mirror or commit     RESOURCE_EXHAUSTED  429    1 s
//	mirrored, force: not confirmed in time      DEADLINE_EXCEEDED   504    none
//	force by default, and no drain runs         UNAVAILABLE         503    5 s
//	force, and no drain runs yet                UNAVAILABLE         503    1 s
//	client gone before admission                UNAVAILABLE         503    1 s
//	shutting down                               UNAVAILABLE         503    1 s
//	ENOSPC, EIO, fsync error, lock lost, else   UNAVAILABLE         503    5 s
//
// The error's text is the whole cause, for the log; the status has what the client may know.
func classify(err error) error {
	var full *wal.LimitError
	var holds *wal.HoldsError
	nothing := "nothing was written"
	if errors.Is(err, errPartly) {
		nothing = errPartly.Error()
	}
	var unconfirmed *unconfirmedError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errParameter), errors.Is(err, segment.ErrBadName):
		return refuse(err, codes.InvalidArgument)
	case errors.As(err, &holds):
		return refuse(err, codes.InvalidArgument)
	case errors.Is(err, errDenied):
		return refuse(err, codes.PermissionDenied)
	case errors.Is(err, errContent), errors.Is(err, wal.ErrRequest):
		return refuse(err, codes.InvalidArgument)
	case errors.As(err, &unconfirmed):
		return &answer{status.New(codes.DeadlineExceeded, err.Error()), []error{err}}
	case errors.Is(err, errWaiters):
		return retry(err, codes.ResourceExhausted, "refused, nothing was written: "+err.Error(), retryInFlight)
	case errors.As(err, &full):
		return retry(err, codes.ResourceExhausted, "refused, "+nothing+": "+full.Error(), retryAfterLimit(full))
	case errors.Is(err, wal.ErrNoDrain):
		return retry(err, codes.Unavailable, "commit::default is force and no drain runs, "+nothing, retryStorage)
	case errors.Is(err, wal.ErrNoDrainYet):
		return retry(err, codes.Unavailable, "force needs a drain and none runs yet, "+nothing, retryClosed)
	case errors.Is(err, wal.ErrClosed):
		return retry(err, codes.Unavailable, "shutting down, "+nothing, retryClosed)
	case errors.Is(err, wal.ErrLockLost):
		return retry(err, codes.Unavailable, "another process may have the write-ahead log, "+nothing, retryStorage)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return retry(err, codes.Unavailable, "the client gave up before its rows were admitted, "+nothing, retryClosed)
	default:
		return retry(err, codes.Unavailable, "storage trouble, the rows are not acknowledged"+errnoText(err), retryStorage)
	}
}

func retryAfterLimit(full *wal.LimitError) time.Duration {
	switch full.Limit {
	case limitBytes, limitFree, limitLanes, limitTenants:
		return retrySpace
	default:
		return retryInFlight
	}
}

// isPressure tells a limit on what is in flight, which a smaller batch may pass.
func isPressure(err error) bool {
	full, ok := errors.AsType[*wal.LimitError](err)
	return ok && retryAfterLimit(full) == retryInFlight
}

// isFull tells a disk limit that stands in the way of every request. Auto is refused from a lower mark on, while
// wait_for is still served.
func isFull(err error, mode wal.Mode) bool {
	full, ok := errors.AsType[*wal.LimitError](err)
	return ok && (full.Limit == limitBytes || full.Limit == limitFree) && mode != wal.Auto
}

// isUnconfirmed tells rows that are stored and whose copy or commit is not known of.
func isUnconfirmed(err error) bool {
	_, ok := errors.AsType[*unconfirmedError](err)
	return ok
}

// isTrouble tells what a person should look at from what a client can mend or wait out.
func isTrouble(err error) bool {
	if isUnconfirmed(err) {
		return false // the mirror's or the drain's, whose own status says so
	}
	for _, mild := range [...]error{
		nil, errParameter, errDenied, errContent, errWaiters, wal.ErrNoDrainYet, segment.ErrBadName, wal.ErrRequest, wal.ErrFull, wal.ErrClosed, context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, mild) {
			return false
		}
	}
	_, other := errors.AsType[*wal.HoldsError](err)
	return !other
}

// errnoText names the system's reason without the server's paths.
func errnoText(err error) string {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return ": " + errno.Error()
	}
	return ""
}

// answer is an error whose text is for the log and whose gRPC status is for the client.
type answer struct {
	status *status.Status
	causes []error
}

func (a *answer) Error() string   { return a.causes[0].Error() }
func (a *answer) Unwrap() []error { return a.causes }

// GRPCStatus is what the otlp receiver answers with.
func (a *answer) GRPCStatus() *status.Status { return a.status }

// refuse is for what the same bytes can never get past. consumererror.IsPermanent finds the second cause;
// wrapping the first would put "Permanent error: " before what the client reads.
func refuse(cause error, code codes.Code) error {
	return &answer{status.New(code, cause.Error()), []error{cause, consumererror.NewPermanent(cause)}}
}

// retry asks the client to come back after at least a second. Without RetryInfo OTLP clients drop what they
// were told is exhausted.
func retry(cause error, code codes.Code, text string, after time.Duration) error {
	st := status.New(code, text)
	if detailed, err := st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(after)}); err == nil {
		st = detailed
	}
	return &answer{st, []error{cause}}
}
