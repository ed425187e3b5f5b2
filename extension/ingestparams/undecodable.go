package ingestparams

import (
	"bytes"
	"net/http"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// The OTLP receiver puts the decoder's words into its answer. When those quote bytes of the request that are no valid
// UTF-8 (a byte order mark, gzip sent as plain JSON), it cannot encode its answer and sends 500 with this body instead.
// The request can never succeed, so it is the client's fault, 400, and the answer must not read as ours.
var receiverSpeechless = []byte(`{"code": 13, "message": "failed to marshal error message"}`)

const undecodable = "the request body does not decode; its Content-Type or Content-Encoding may not be what it is"

// answerWriter holds back a 500 and a 503 until the body shows what they are: the receiver's speechless answer is 400, and
// DEADLINE_EXCEEDED, for which the receiver knows no status of its own, is 504.
type answerWriter struct {
	http.ResponseWriter
	r    *http.Request
	held int // the status held back; 0: none
}

// WriteHeader sends any other status at once.
func (w *answerWriter) WriteHeader(code int) {
	if code == http.StatusInternalServerError || code == http.StatusServiceUnavailable {
		w.held = code
		return
	}
	w.ResponseWriter.WriteHeader(code)
}

// Write sends what was held back.
func (w *answerWriter) Write(body []byte) (int, error) {
	code := w.held
	w.held = 0
	switch {
	case code == 0:
		return w.ResponseWriter.Write(body)
	case code == http.StatusInternalServerError && bytes.Equal(body, receiverSpeechless):
		writeInvalid(w.ResponseWriter, w.r, undecodable)
		return len(body), nil
	case code == http.StatusServiceUnavailable && exceeded(w.Header().Get("Content-Type"), body):
		code = http.StatusGatewayTimeout
	}
	w.ResponseWriter.WriteHeader(code)
	return w.ResponseWriter.Write(body)
}

// exceeded tells whether an answer is a status of DEADLINE_EXCEEDED.
func exceeded(contentType string, body []byte) bool {
	var st spb.Status
	if contentType == "application/x-protobuf" {
		return proto.Unmarshal(body, &st) == nil && st.GetCode() == int32(codes.DeadlineExceeded)
	}
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(body, &st) == nil && st.GetCode() == int32(codes.DeadlineExceeded)
}

// end sends a status that came without a body.
func (w *answerWriter) end() {
	if w.held != 0 {
		w.ResponseWriter.WriteHeader(w.held)
	}
}

// Unwrap lets http.ResponseController reach the connection.
func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
