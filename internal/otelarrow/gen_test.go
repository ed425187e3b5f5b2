package otelarrow_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
	"github.com/siglakecol/siglakecol/internal/otelarrow/otlptest"
)

// gen makes random OTLP from a logged seed.
type gen struct {
	*otlptest.Gen
	tb testing.TB
}

func newGen(tb testing.TB, dirty bool) gen {
	tb.Helper()
	seed := uint64(time.Now().UnixNano())
	tb.Logf("seed %d", seed)
	return gen{otlptest.New(seed, dirty), tb}
}

func (g gen) logs() plog.Logs {
	ld, err := g.Logs()
	require.NoError(g.tb, err)
	return ld
}

func (g gen) traces() ptrace.Traces {
	td, err := g.Traces()
	require.NoError(g.tb, err)
	return td
}

func (g gen) metrics() pmetric.Metrics {
	md, err := g.Metrics()
	require.NoError(g.tb, err)
	return md
}

func (g gen) request(sig otelarrow.Signal) any {
	switch sig {
	case otelarrow.Logs:
		return g.logs()
	case otelarrow.Traces:
		return g.traces()
	default:
		return g.metrics()
	}
}

// spell makes rows comparable that hold NaN, which is not equal to itself.
func spell(v any) string { return fmt.Sprintf("%#v", v) }
