package servicetest

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A server heeds orders, comes back at its address, and is gone with its data after Close.
func TestService(t *testing.T) {
	t.Parallel()
	s, err := Start("s3")
	require.NoError(t, err)
	at := s.Info["endpoint"][len("http://"):]
	reach := func() error {
		c, err := net.Dial("tcp", at)
		if err != nil {
			return err
		}
		return c.Close()
	}
	require.NoError(t, reach())
	require.DirExists(t, s.Info["root"])
	require.NoError(t, s.Do("kill"))
	require.Error(t, reach())
	require.NoError(t, s.Do("start"))
	require.NoError(t, reach())
	require.ErrorContains(t, s.Do("burn"), `"burn"`)
	require.NoError(t, s.Close())
	require.Error(t, reach())
	require.NoDirExists(t, s.Info["root"])
}

// What cannot be started says why.
func TestStart_says_what_is_wrong(t *testing.T) {
	t.Parallel()
	_, err := Start("mainframe")
	require.ErrorContains(t, err, "mainframe")
}
