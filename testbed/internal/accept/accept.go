// Package accept sends OTLP requests one at a time, remembers what must become of each, and compares the tables with
// that, cell by cell.
//
// A row belongs to the request during which it arrived (ingested_at); within a request rows keep the order of the
// message, which the position columns (segment_id, segment_row) tell.
package accept

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"

	"github.com/siglakecol/siglakecol/testbed/internal/expect"
	"github.com/siglakecol/siglakecol/testbed/internal/load"
)

// Request is one request to send.
type Request struct {
	Name   string // file, and line where it has several
	Signal string
	Form   string // json, pb (both over HTTP) or grpc
	Body   []byte
	// For bodies that are encoded once more; Body is then what goes over the wire and Plain what must be stored.
	Encoding string
	Plain    []byte
	Type     string // Content-Type; empty: that of the form
}

// Sent is a request that was sent, and what must hold after it.
type Sent struct {
	Request

	Window expect.Window
	Code   int    // HTTP status; for gRPC 200 or the nearest HTTP status
	Answer string // what the answer says
	Reject error  // pdata's words when it refuses the request
	Rows   []expect.Row
	Unseen []string // populated fields that no rule covers
	Remark string   // where pdata and the official decoder disagree
}

// Sender sends over HTTP and gRPC.
type Sender struct {
	// SecondOpinion also decodes each request without pdata and remarks where that makes other rows.
	SecondOpinion bool

	http string
	grpc map[string]load.Client
	cl   *http.Client
}

// NewSender makes a sender for the addresses of a collector.
func NewSender(httpAddr, grpcAddr string) (*Sender, error) {
	s := &Sender{http: httpAddr, grpc: map[string]load.Client{}, cl: &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableCompression: true}}}
	for signal := range expect.Tables {
		c, err := load.Dial(load.Endpoint{Protocol: "grpc", Address: grpcAddr}, signal)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.grpc[signal] = c
	}
	return s, nil
}

// Close closes all connections.
func (s *Sender) Close() error {
	s.cl.CloseIdleConnections()
	var errs []error
	for _, c := range s.grpc {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// Send decodes a request with pdata, works out its rows and sends it. An error means that no answer came.
func (s *Sender) Send(ctx context.Context, r Request) (Sent, error) {
	out := Sent{Request: r}
	plain := r.Body
	if r.Plain != nil {
		plain = r.Plain
	}
	d, err := expect.Decode(r.Signal, plain, r.Form == "json")
	if err != nil {
		return out, fmt.Errorf("%s: %w", r.Name, err)
	}
	out.Reject = d.Rejected
	if d.Rejected == nil {
		m, err := expect.Message(r.Signal, d.Proto)
		if err != nil {
			return out, fmt.Errorf("%s: %w", r.Name, err)
		}
		out.Rows, out.Unseen = expect.Rows(m)
		if s.SecondOpinion {
			out.Remark = secondOpinion(r.Signal, plain, r.Form == "json", out.Rows, len(out.Unseen))
		}
		if len(out.Rows) != d.Records {
			return out, fmt.Errorf("%s: pdata counts %d records, the rules make %d rows", r.Name, d.Records, len(out.Rows))
		}
	}
	out.Window.From = time.Now().UnixNano()
	if r.Form == "grpc" {
		out.Code, out.Answer, err = s.sendGRPC(ctx, r)
	} else {
		out.Code, out.Answer, err = s.sendHTTP(ctx, r)
	}
	out.Window.To = time.Now().UnixNano()
	if err != nil {
		return out, fmt.Errorf("send %s (%s): %w", r.Name, r.Form, err)
	}
	return out, nil
}

// fromGRPC are the HTTP statuses that say the same as a code, where it matters who is at fault.
var fromGRPC = map[string]int{
	"InvalidArgument": 400, "Internal": 400, // grpc-go's word for a message that does not decode
	"ResourceExhausted": 429, "Unavailable": 503, "DeadlineExceeded": 504, "Unimplemented": 501, "PermissionDenied": 403,
}

func (s *Sender) sendGRPC(ctx context.Context, r Request) (int, string, error) {
	err := s.grpc[r.Signal].Send(ctx, r.Body)
	if err == nil {
		return http.StatusOK, "", nil
	}
	st, ok := status.FromError(err)
	if !ok {
		return 0, "", err
	}
	code, ok := fromGRPC[st.Code().String()]
	if !ok {
		code = http.StatusInternalServerError
	}
	return code, st.Code().String() + ": " + st.Message(), nil
}

// contentTypes by form.
var contentTypes = map[string]string{"json": "application/json", "pb": "application/x-protobuf"}

func (s *Sender) sendHTTP(ctx context.Context, r Request) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.http+"/v1/"+r.Signal, bytes.NewReader(r.Body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", contentTypes[r.Form])
	switch r.Type {
	case "":
	case "-":
		req.Header.Del("Content-Type")
	default:
		req.Header.Set("Content-Type", r.Type)
	}
	if r.Encoding != "" {
		req.Header.Set("Content-Encoding", r.Encoding)
	}
	resp, err := s.cl.Do(req)
	if err != nil {
		return 0, "", err
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close() // read to its end
	if err != nil {
		return 0, "", err
	}
	return resp.StatusCode, answer(resp.Header.Get("Content-Type"), resp.StatusCode, body), nil
}

// answer is the message of a google.rpc.Status, or the bare text of the body.
func answer(contentType string, code int, body []byte) string {
	if code/100 == 2 {
		return ""
	}
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return string(body)
	}
	var st rpcstatus.Status
	switch {
	case kind == "application/x-protobuf" && proto.Unmarshal(body, &st) == nil,
		kind == "application/json" && protojson.Unmarshal(body, &st) == nil:
		return st.GetMessage()
	}
	return string(body)
}

// AnswerProblem says what is wrong with the answer to a request, judged by what pdata makes of it: taken means 200,
// refused means 4xx, and never 5xx, which a client would repeat for ever.
func (s Sent) AnswerProblem() string {
	switch {
	case s.Reject == nil && s.Code != http.StatusOK:
		return fmt.Sprintf("pdata takes it, the answer is %d %s", s.Code, s.Answer)
	case s.Reject != nil && (s.Code < 400 || s.Code > 499):
		return fmt.Sprintf("pdata refuses it (%s), the answer is %d %s", s.Reject, s.Code, s.Answer)
	}
	return ""
}

// Stored is the number of rows that must be in the table for the request.
func (s Sent) Stored() int {
	if s.Code != http.StatusOK {
		return 0
	}
	return len(s.Rows)
}
