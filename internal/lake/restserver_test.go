package lake

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"
)

// restServer is an Iceberg REST catalog in memory. As the reference server does, it numbers the columns of a new table
// itself, answers 409 to a commit whose requirements do not hold, and keeps the metadata to itself.
type restServer struct {
	*httptest.Server

	mu     sync.Mutex
	spaces map[string]bool
	tables map[string]restTable // by namespace.name
	// fault answers the next commits or creations, one each. do is the real thing.
	faults []func(w http.ResponseWriter, do func() (int, any))
}

type restTable struct {
	location string
	meta     table.Metadata
}

func newRESTServer(tb testing.TB) *restServer {
	tb.Helper()
	s := &restServer{spaces: map[string]bool{}, tables: map[string]restTable{}}
	mux := http.NewServeMux()
	for pattern, h := range map[string]func(*http.Request) (int, any){
		"GET /v1/config": func(*http.Request) (int, any) {
			return 200, map[string]any{"defaults": map[string]string{}, "overrides": map[string]string{}}
		},
		"GET /v1/namespaces":                        s.listSpaces,
		"POST /v1/namespaces":                       s.makeSpace,
		"GET /v1/namespaces/{ns}":                   s.space,
		"HEAD /v1/namespaces/{ns}":                  s.space,
		"GET /v1/namespaces/{ns}/tables":            s.listTables,
		"GET /v1/namespaces/{ns}/tables/{table}":    s.load,
		"POST /v1/namespaces/{ns}/tables":           s.create,
		"POST /v1/namespaces/{ns}/register":         s.register,
		"POST /v1/namespaces/{ns}/tables/{table}":   s.commit,
		"DELETE /v1/namespaces/{ns}/tables/{table}": s.drop,
		"DELETE /v1/namespaces/{ns}":                s.dropSpace,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, h) })
	}
	s.Server = httptest.NewServer(mux)
	tb.Cleanup(s.Close)
	return s
}

// answer runs a handler, or the fault that was set for it.
func (s *restServer) answer(w http.ResponseWriter, r *http.Request, h func(*http.Request) (int, any)) {
	do := func() (int, any) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return h(r)
	}
	var fault func(http.ResponseWriter, func() (int, any))
	if r.Method == http.MethodPost && strings.Contains(r.URL.Path, "/tables") {
		s.mu.Lock()
		if len(s.faults) > 0 {
			fault, s.faults = s.faults[0], s.faults[1:]
		}
		s.mu.Unlock()
	}
	if fault != nil {
		fault(w, do)
		return
	}
	code, body := do()
	send(w, code, body)
}

func send(w http.ResponseWriter, code int, body any) {
	if text, ok := body.(string); ok {
		body = map[string]any{"error": map[string]any{"message": text, "type": "Exception", "code": code}}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if code == http.StatusNoContent {
		return
	}
	_ = json.NewEncoder(w).Encode(body) // a client that is gone does not care
}

func (s *restServer) listSpaces(*http.Request) (int, any) {
	out := [][]string{}
	for ns := range s.spaces {
		out = append(out, []string{ns})
	}
	return 200, map[string]any{"namespaces": out}
}

func (s *restServer) makeSpace(r *http.Request) (int, any) {
	var in struct{ Namespace []string }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return 400, err.Error()
	}
	name := strings.Join(in.Namespace, ".")
	if s.spaces[name] {
		return 409, "namespace exists"
	}
	s.spaces[name] = true
	return 200, map[string]any{"namespace": in.Namespace, "properties": map[string]string{}}
}

func (s *restServer) space(r *http.Request) (int, any) {
	if !s.spaces[r.PathValue("ns")] {
		return 404, "no such namespace"
	}
	return 200, map[string]any{"namespace": []string{r.PathValue("ns")}, "properties": map[string]string{}}
}

func (s *restServer) listTables(r *http.Request) (int, any) {
	out := []map[string]any{}
	for id := range s.tables {
		if ns, name, _ := strings.Cut(id, "."); ns == r.PathValue("ns") {
			out = append(out, map[string]any{"namespace": []string{ns}, "name": name})
		}
	}
	return 200, map[string]any{"identifiers": out}
}

func (t restTable) answer() map[string]any {
	return map[string]any{"metadata-location": t.location, "metadata": t.meta, "config": map[string]string{}}
}

func (s *restServer) load(r *http.Request) (int, any) {
	t, ok := s.tables[r.PathValue("ns")+"."+r.PathValue("table")]
	if !ok {
		return 404, "no such table"
	}
	return 200, t.answer()
}

func metadataName(location string, version int) string {
	return fmt.Sprintf("%s/metadata/%05d-%s.metadata.json", location, version, uuid.NewString())
}

func (s *restServer) create(r *http.Request) (int, any) {
	var in struct {
		Name     string
		Location string
		Schema   *iceberg.Schema
		Spec     *iceberg.PartitionSpec `json:"partition-spec"`
		Order    table.SortOrder        `json:"write-order"`
		Props    iceberg.Properties     `json:"properties"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return 400, err.Error()
	}
	id := r.PathValue("ns") + "." + in.Name
	if _, ok := s.tables[id]; ok {
		return 409, "table exists"
	}
	meta, err := table.NewMetadata(in.Schema, in.Spec, in.Order, in.Location, in.Props)
	if err != nil {
		return 400, err.Error()
	}
	t := restTable{metadataName(in.Location, 0), meta}
	s.tables[id] = t
	return 200, t.answer()
}

func (s *restServer) register(r *http.Request) (int, any) {
	var in struct {
		Name     string
		Location string `json:"metadata-location"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return 400, err.Error()
	}
	id := r.PathValue("ns") + "." + in.Name
	if _, ok := s.tables[id]; ok {
		return 409, "table exists"
	}
	path, err := localPath(in.Location)
	if err != nil {
		return 400, err.Error()
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return 400, err.Error()
	}
	meta, err := table.ParseMetadataBytes(raw)
	if err != nil {
		return 400, err.Error()
	}
	s.tables[id] = restTable{in.Location, meta}
	return 200, s.tables[id].answer()
}

func (s *restServer) commit(r *http.Request) (int, any) {
	var in struct {
		Requirements table.Requirements
		Updates      table.Updates
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return 400, err.Error()
	}
	id := r.PathValue("ns") + "." + r.PathValue("table")
	t, ok := s.tables[id]
	if !ok {
		return 404, "no such table"
	}
	for _, want := range in.Requirements {
		if err := want.Validate(t.meta); err != nil {
			return 409, err.Error()
		}
	}
	meta, err := table.UpdateTableMetadata(t.meta, in.Updates, t.location)
	if err != nil {
		return 400, err.Error()
	}
	version, _ := metadataVersion(t.location)
	t = restTable{metadataName(meta.Location(), version+1), meta}
	s.tables[id] = t
	return 200, t.answer()
}

func (s *restServer) drop(r *http.Request) (int, any) {
	id := r.PathValue("ns") + "." + r.PathValue("table")
	if _, ok := s.tables[id]; !ok {
		return 404, "no such table"
	}
	delete(s.tables, id)
	return 204, nil
}

func (s *restServer) dropSpace(r *http.Request) (int, any) {
	for id := range s.tables {
		if strings.HasPrefix(id, r.PathValue("ns")+".") {
			return 409, "namespace is not empty"
		}
	}
	delete(s.spaces, r.PathValue("ns"))
	return 204, nil
}
