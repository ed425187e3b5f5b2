package siglakeexporter

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/client"

	"github.com/siglakecol/siglakecol/internal/wal"
)

// ACK-1: no request gets another mode than it asked for.
func TestRequestMode(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		md   map[string][]string
		want promise
		err  string
	}{
		{name: "default", want: promise{wal: wal.WaitFor}},
		{name: "other metadata", md: map[string][]string{"user-agent": {"x"}}, want: promise{wal: wal.WaitFor}},
		{name: "auto", md: map[string][]string{"X-Siglake-Commit": {"auto"}}, want: promise{wal: wal.Auto}},
		{name: "wait_for", md: map[string][]string{keyCommit: {"wait_for"}}, want: promise{wal: wal.WaitFor}},
		{name: "force", md: map[string][]string{keyCommit: {"force"}}, want: promise{wal: wal.WaitFor, beyond: modeForce}},
		{name: "mirrored", md: map[string][]string{keyCommit: {"mirrored"}}, want: promise{wal: wal.WaitFor, beyond: modeMirrored}},
		{name: "unknown", md: map[string][]string{keyCommit: {"Auto\n"}}, err: `request parameter commit: "Auto\n" is not one of auto, wait_for, mirrored, force`},
		{name: "empty", md: map[string][]string{keyCommit: {""}}, err: `request parameter commit: "" is not one of auto, wait_for, mirrored, force`},
		{name: "repeated", md: map[string][]string{keyCommit: {"auto", "auto"}}, err: `request parameter commit: given 2 times, want exactly one of auto, wait_for, mirrored, force`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, named, err := requestMode(client.NewContext(t.Context(), client.Info{Metadata: client.NewMetadata(tc.md)}), promise{wal: wal.WaitFor})
			if tc.err != "" {
				require.EqualError(t, err, tc.err)
				require.ErrorIs(t, err, errParameter)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
			require.Equal(t, tc.name != "default" && tc.name != "other metadata", named)
		})
	}
}
