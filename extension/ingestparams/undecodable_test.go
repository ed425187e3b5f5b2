package ingestparams

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// A body that can never be decoded is answered 400 in the request's encoding, also when the receiver cannot quote it.
func TestServer_undecodable_bytes_are_the_clients_fault(t *testing.T) {
	t.Parallel()
	s := startServer(t, false)
	for _, body := range []string{"\xef\xbb\xbf{}", "\x1f\x8b\x08\x00\xff\xff", "{\"resourceLogs\":\xff}", "["} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://siglake/v1/logs", bytes.NewReader([]byte(body)))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		resp, err := s.http.Do(req)
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusBadRequest, resp.StatusCode, "%q: %s", body, text)
		require.Equal(t, "application/json", resp.Header.Get("Content-Type"))
		require.Contains(t, string(text), `"code":3`)
	}
	s.nothing(t)
}

func TestAnswerWriter_lets_every_other_answer_through(t *testing.T) {
	t.Parallel()
	pb := func() *http.Request {
		r := httptest.NewRequest(http.MethodPost, "/v1/logs", http.NoBody)
		r.Header.Set("Content-Type", "application/x-protobuf")
		return r
	}
	for _, tc := range []struct {
		name string
		code int
		body string
		want int
	}{
		{"success", 200, "{}", 200},
		{"unavailable", 503, string(receiverSpeechless), 503},
		{"another 500", 500, "boom", 500},
		{"500 without a body", 500, "", 500},
		{"503 without a body", 503, "", 503},
	} {
		rec := httptest.NewRecorder()
		w := &answerWriter{ResponseWriter: rec, r: pb()}
		w.WriteHeader(tc.code)
		if tc.body != "" {
			_, err := w.Write([]byte(tc.body))
			require.NoError(t, err, tc.name)
		}
		w.end()
		require.Equal(t, tc.want, rec.Code, tc.name)
		require.Equal(t, tc.body, rec.Body.String(), tc.name)
	}

	rec := httptest.NewRecorder()
	w := &answerWriter{ResponseWriter: rec, r: pb()}
	w.WriteHeader(http.StatusInternalServerError)
	_, err := w.Write(receiverSpeechless)
	require.NoError(t, err)
	w.end()
	require.Equal(t, http.StatusBadRequest, rec.Code)
	var st spb.Status
	require.NoError(t, proto.Unmarshal(rec.Body.Bytes(), &st))
	require.Equal(t, int32(codes.InvalidArgument), st.GetCode())
	require.Same(t, rec, w.Unwrap())
}

// DEADLINE_EXCEEDED is 504 in both encodings; what asks the client to come again stays 503.
func TestAnswerWriter_deadline_exceeded_is_504(t *testing.T) {
	t.Parallel()
	for code, want := range map[codes.Code]int{codes.DeadlineExceeded: http.StatusGatewayTimeout, codes.Unavailable: http.StatusServiceUnavailable} {
		st := &spb.Status{Code: int32(code), Message: "mirrored: not confirmed"}
		pb, err := proto.Marshal(st)
		require.NoError(t, err)
		text, err := protojson.Marshal(st)
		require.NoError(t, err)
		for contentType, body := range map[string][]byte{"application/x-protobuf": pb, "application/json": text} {
			rec := httptest.NewRecorder()
			w := &answerWriter{ResponseWriter: rec, r: httptest.NewRequest(http.MethodPost, "/v1/logs", http.NoBody)}
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(http.StatusServiceUnavailable)
			_, err := w.Write(body)
			require.NoError(t, err)
			w.end()
			require.Equal(t, want, rec.Code, "%s %s", code, contentType)
			require.Equal(t, body, rec.Body.Bytes())
		}
	}
}
