package siglakeexporter

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/testdata"
	"google.golang.org/grpc"
	grpcgzip "google.golang.org/grpc/encoding/gzip"
)

// T-17: what a client has compressed is stored like anything else, on both transports. ACK-1.
func TestDoor_T17_compressed_requests(t *testing.T) {
	t.Parallel()
	d := openDoor(t)
	sent := plogotlp.NewExportRequestFromLogs(testdata.GenerateLogs(3))
	plain, err := sent.MarshalProto()
	require.NoError(t, err)
	for encoding, writer := range map[string]func(io.Writer) io.WriteCloser{
		"gzip": func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
		"zstd": func(w io.Writer) io.WriteCloser {
			z, err := zstd.NewWriter(w)
			require.NoError(t, err)
			return z
		},
	} {
		var body bytes.Buffer
		w := writer(&body)
		_, err = w.Write(plain)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://siglake/v1/logs", &body)
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/x-protobuf")
		req.Header.Set("Content-Encoding", encoding)
		resp, err := d.http.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode, encoding)
	}
	_, err = plogotlp.NewGRPCClient(d.conn).Export(t.Context(), sent, grpc.UseCompressor(grpcgzip.Name))
	require.NoError(t, err)
	taken := d.rig.log.taken()
	require.Len(t, taken, 3)
	for _, r := range taken {
		require.Equal(t, 3, r.Rows)
	}
}
