package siglakeexporter

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"go.opentelemetry.io/collector/client"

	"github.com/siglakecol/siglakecol/internal/wal"
)

// Mode is a commit mode as clients and users write it.
type Mode string

const (
	modeAuto     Mode = "auto"
	modeWaitFor  Mode = "wait_for"
	modeMirrored Mode = "mirrored"
	modeForce    Mode = "force"
)

const (
	legalModes = "auto, wait_for, mirrored, force"
	// noDrainText is for force where nothing commits the log.
	noDrainText = "needs a drain on this write-ahead log, and none runs (extensions::lakecompactor, with the same wal_directory); use auto or wait_for (legal values: " +
		legalModes + ")"
	// noMirrorText is for mirrored where nothing copies the log.
	noMirrorText = "needs a mirror, and none is configured (extensions::walmirror::bucket_url); use auto or wait_for (legal values: " + legalModes + ")"
)

// Keys of client.Info, set by the ingestparams extension, or by a receiver with include_metadata.
const (
	keyCommit = "x-siglake-commit"
	keyIndex  = "x-siglake-index"
	keyTenant = "x-siglake-tenant"
)

// maxQuoted bounds how much of a client's value an answer repeats, in bytes.
const maxQuoted = 40

// errParameter marks what a client may change to be served.
var errParameter = errors.New("request parameter")

// promise is what an answer waits for.
type promise struct {
	wal    wal.Mode
	beyond Mode // mirrored or force: what it waits for once the rows are on the disk; empty: nothing
}

// Validate accepts a mode that requests can be served under.
func (m Mode) Validate() error {
	_, err := m.promise()
	return err
}

func (m Mode) promise() (promise, error) {
	switch m {
	case modeAuto:
		return promise{wal: wal.Auto}, nil
	case modeWaitFor:
		return promise{wal: wal.WaitFor}, nil
	case modeMirrored:
		return promise{wal: wal.WaitFor, beyond: modeMirrored}, nil
	case modeForce:
		return promise{wal: wal.WaitFor, beyond: modeForce}, nil
	default:
		return promise{}, fmt.Errorf("%s is not one of %s", quote(string(m)), legalModes)
	}
}

// requestMode returns what the answer to the request behind ctx has to wait for, and whether the request says so. A receiver with
// include_metadata and without the ingestparams extension brings headers unchecked, so all is checked here.
// Errors satisfy errors.Is with errParameter.
func requestMode(ctx context.Context, byDefault promise) (mode promise, named bool, err error) {
	values := client.FromContext(ctx).Metadata.Get(keyCommit)
	switch len(values) {
	case 0:
		return byDefault, false, nil
	case 1:
		mode, err := Mode(values[0]).promise()
		if err != nil {
			return promise{}, true, fmt.Errorf("%w commit: %w", errParameter, err)
		}
		return mode, true, nil
	default:
		return promise{}, true, fmt.Errorf("%w commit: given %d times, want exactly one of %s", errParameter, len(values), legalModes)
	}
}

// quote makes a client's text safe to repeat: printable ASCII, bounded.
func quote(s string) string {
	if len(s) > maxQuoted {
		return strconv.QuoteToASCII(s[:maxQuoted]) + "..."
	}
	return strconv.QuoteToASCII(s)
}
