package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/siglakecol/siglakecol/testbed/internal/expect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestEveryFieldOfOTLPIsStored sends requests in which every field is set, as protobuf over HTTP and gRPC and as JSON,
// and finds each of them in the tables.
func TestEveryFieldOfOTLPIsStored(t *testing.T) {
	dir := t.TempDir()
	for _, signal := range []string{"logs", "traces", "metrics"} {
		for choice := range expect.Choices {
			m, err := expect.Full(signal, choice)
			require.NoError(t, err)
			wire, err := proto.Marshal(m)
			require.NoError(t, err)
			name := filepath.Join(dir, fmt.Sprintf("full_%d_%s", choice, signal))
			require.NoError(t, os.WriteFile(name+".pb", wire, 0o600))
			require.NoError(t, os.WriteFile(name+".json", asJSON(t, signal, wire), 0o600))
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "refused_logs.json"), []byte(`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"traceId":"zz"}]}]}]}`), 0o600))
	var out bytes.Buffer
	good, err := run(t.Context(), &out, dir, "sqlite", false, 50)
	t.Log("\n" + out.String())
	require.NoError(t, err)
	require.True(t, good, "the tables differ from what was sent")
}

func asJSON(t *testing.T, signal string, wire []byte) []byte {
	t.Helper()
	var r interface {
		UnmarshalProto([]byte) error
		MarshalJSON() ([]byte, error)
	}
	switch signal {
	case "logs":
		r = plogotlp.NewExportRequest()
	case "traces":
		r = ptraceotlp.NewExportRequest()
	default:
		r = pmetricotlp.NewExportRequest()
	}
	require.NoError(t, r.UnmarshalProto(wire))
	data, err := r.MarshalJSON()
	require.NoError(t, err)
	return data
}
