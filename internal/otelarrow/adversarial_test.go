package otelarrow_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/otelarrow/otlptest"
)

// Every payload that pdata accepts becomes exactly the rows of the index, all text valid, and can be rebuilt from them,
// whatever is in it. (The end-to-end tests send the same folder.)
func TestAdversarial_payloads(t *testing.T) {
	t.Parallel()
	payloads, err := otlptest.Payloads(os.DirFS("../../testbed/testdata/adversarial"))
	require.NoError(t, err)
	require.Greater(t, len(payloads), 100)
	for _, p := range payloads {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			rows, _ := tableOf(t, p.Data)
			require.Len(t, rows, p.Rows)
			adjusted := rebuilt(t, p.Data)
			if strings.Contains(p.Name, "utf8_invalid") || strings.Contains(p.Name, "raw_invalid_utf8") {
				require.Positive(t, adjusted[otlptest.InvalidUTF8])
			}
			if strings.Contains(p.Name, "duplicate_keys") {
				require.Positive(t, adjusted[otlptest.DuplicateKey])
			}
		})
	}
}
