package otelarrow

import (
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"
)

// A request with more text than offsets reach is refused before the memory is taken.
func TestEncode_refuses_more_text_than_offsets_reach(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		fill func(plog.LogRecord)
	}{
		{"body", func(lr plog.LogRecord) { lr.Body().SetStr(strings.Repeat("x", 600)) }},
		{"keys", func(lr plog.LogRecord) {
			lr.Attributes().PutStr(strings.Repeat("x", 400), "")
			lr.Attributes().PutStr(strings.Repeat("y", 400), "")
		}},
		{"nested", func(lr plog.LogRecord) { lr.Body().SetEmptyBytes().FromRaw(make([]byte, 600)) }},
	} {
		mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
		s := newScratch(Logs, mem, nil)
		s.maxText = 1000
		ld := plog.NewLogs()
		lrs := ld.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()
		tc.fill(lrs.AppendEmpty())
		b, err := s.encodeLogs(time.Now(), ld)
		require.NoError(t, err, "%s: one record fits", tc.name)
		b.Record.Release()

		tc.fill(lrs.AppendEmpty())
		lrs.AppendEmpty().Body().SetStr("small")
		_, err = s.encodeLogs(time.Now(), ld)
		require.ErrorIs(t, err, ErrTooBig, tc.name)
		mem.AssertSize(t, 0)
	}
}
