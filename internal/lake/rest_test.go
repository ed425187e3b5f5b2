package lake

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// What a server says of its own trouble names nothing: every error says which catalog it is of, and which table or namespace
// was asked for.
func TestREST_errors_say_what_they_are_about(t *testing.T) {
	t.Parallel()
	s := newRESTServer(t)
	var down atomic.Bool
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			send(w, http.StatusBadRequest, "boom")
			return
		}
		s.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	l := lakeOf(t, Options{Catalog: "rest+" + front.URL, Warehouse: t.TempDir(), REST: REST{Token: "only-the-server-knows"}}, hooks{})
	tbl := events(t, l)
	st, err := tbl.load(t.Context())
	require.NoError(t, err)
	ctx, id, ns := t.Context(), table.Identifier{"siglake", "events"}, table.Identifier{"siglake"}
	down.Store(true)
	for name, tc := range map[string]struct {
		call func() error
		of   string
	}{
		"load":             {func() error { _, err := l.open(ctx, id); return err }, "table siglake.events"},
		"commit":           {func() error { _, _, err := l.cat.CommitTable(ctx, id, nil, nil); return err }, "table siglake.events"},
		"commit_rows":      {func() error { _, err := tbl.Commit(ctx, []Segment{newSegment(t, 1, 3)}); return err }, "table siglake.events"},
		"make":             {func() error { _, _, err := l.Ensure(ctx, "default", "spans", otelarrow.Traces); return err }, "table siglake.spans"},
		"register":         {func() error { return l.register(ctx, id, st.tbl.MetadataLocation()) }, "table siglake.events"},
		"drop":             {func() error { return l.cat.dropTable(ctx, id) }, "table siglake.events"},
		"namespaces":       {func() error { _, err := l.Tables(ctx); return err }, "list of namespaces"},
		"tables":           {func() error { _, err := l.cat.tableNames(ctx, ns); return err }, "tables of namespace siglake"},
		"namespace":        {func() error { _, err := l.cat.CheckNamespaceExists(ctx, ns); return err }, "namespace siglake"},
		"make_a_namespace": {func() error { return l.cat.CreateNamespace(ctx, ns, nil) }, "namespace siglake"},
		"drop_a_namespace": {func() error { return l.cat.DropNamespace(ctx, ns) }, "namespace siglake"},
	} {
		err := tc.call()
		require.ErrorContains(t, err, "catalog rest+"+front.URL+", "+tc.of+": ", name)
		require.NotContains(t, err.Error(), "only-the-server-knows", name)
	}
}
