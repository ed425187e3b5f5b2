package ingestparams

import (
	"bytes"
	"net/http"
)

// The OTLP receiver puts the decoder's words into its answer. When those quote bytes of the request that are no valid
// UTF-8 (a byte order mark, gzip sent as plain JSON), it cannot encode its answer and sends 500 with this body instead.
// The request can never succeed, so it is the client's fault, 400, and the answer must not read as ours.
var receiverSpeechless = []byte(`{"code": 13, "message": "failed to marshal error message"}`)

const undecodable = "the request body does not decode; its Content-Type or Content-Encoding may not be what it is"

// answerWriter holds back a 500 until its body shows whether it is the receiver's speechless one.
type answerWriter struct {
	http.ResponseWriter
	r    *http.Request
	held bool
}

// WriteHeader sends any status but 500 at once.
func (w *answerWriter) WriteHeader(code int) {
	if code == http.StatusInternalServerError {
		w.held = true
		return
	}
	w.ResponseWriter.WriteHeader(code)
}

// Write sends what was held back, as 400 in the request's encoding when it is the receiver's speechless answer.
func (w *answerWriter) Write(body []byte) (int, error) {
	if !w.held {
		return w.ResponseWriter.Write(body)
	}
	w.held = false
	if bytes.Equal(body, receiverSpeechless) {
		writeInvalid(w.ResponseWriter, w.r, undecodable)
		return len(body), nil
	}
	w.ResponseWriter.WriteHeader(http.StatusInternalServerError)
	return w.ResponseWriter.Write(body)
}

// end sends a 500 that came without a body.
func (w *answerWriter) end() {
	if w.held {
		w.ResponseWriter.WriteHeader(http.StatusInternalServerError)
	}
}

// Unwrap lets http.ResponseController reach the connection.
func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
