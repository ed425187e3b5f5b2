package objstore_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/objstore"
)

// pod is the identity service of a pod: it gives keys, good for a minute, to whoever shows the token of the day.
type pod struct {
	mu         sync.Mutex
	key, token string
	away       bool
}

func (p *pod) set(key, token string, away bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.key, p.token, p.away = key, token, away
}

func (p *pod) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away || r.Header.Get("Authorization") != p.token {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{ // the client has gone
		"AccessKeyId": p.key, "SecretAccessKey": "not-to-be-seen", "Token": "session", "Expiration": time.Now().Add(time.Minute).UTC().Format(time.RFC3339),
	})
}

// signer is the key that the last request was signed with.
func signer(s *stub) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, rest, _ := strings.Cut(s.requests[len(s.requests)-1].Header.Get("Authorization"), "Credential=")
	key, _, _ := strings.Cut(rest, "/")
	return key
}

// F6: keys of a pod's identity are asked for anew when they end; while that service is away a write is an error that is none
// of ours, and when it is back, with another token in the file, it goes on. Keys in a file are read once.
func TestS3_F6_credentials_of_the_environment(t *testing.T) {
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	shared := filepath.Join(t.TempDir(), "credentials")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", shared)
	t.Setenv("AWS_CONFIG_FILE", shared+".none")
	p, tokens := &pod{}, filepath.Join(t.TempDir(), "token")
	identity := httptest.NewServer(p)
	defer identity.Close()
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", identity.URL)
	t.Setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", tokens)
	token := func(text string) { require.NoError(t, os.WriteFile(tokens, []byte(text), 0o600)) }

	s := &stub{}
	server := httptest.NewServer(s)
	defer server.Close()
	open := func() objstore.Store {
		store, err := objstore.Open(t.Context(), "s3://bucket/dir", objstore.Options{S3: objstore.S3{Endpoint: server.URL}})
		require.NoError(t, err)
		return store
	}
	store := open()
	token("monday")
	p.set("first", "monday", false)
	require.NoError(t, putStub(t.Context(), t, store))
	require.Equal(t, "first", signer(s))
	p.set("first", "monday", true)
	n := len(s.requests)
	err := putStub(t.Context(), t, store)
	require.Error(t, err)
	require.NotErrorIs(t, err, objstore.ErrExists)
	require.NotErrorIs(t, err, objstore.ErrNotFound)
	require.NotContains(t, err.Error(), "not-to-be-seen")
	require.Len(t, s.requests, n, "nothing is sent without keys")
	token("tuesday")
	p.set("second", "tuesday", false)
	require.NoError(t, putStub(t.Context(), t, store))
	require.Equal(t, "second", signer(s))
	require.NoError(t, store.Close())

	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "")
	keys := func(id string) {
		require.NoError(t, os.WriteFile(shared, []byte("[default]\naws_access_key_id = "+id+"\naws_secret_access_key = not-to-be-seen\n"), 0o600))
	}
	keys("third")
	store = open()
	require.NoError(t, putStub(t.Context(), t, store))
	keys("fourth")
	require.NoError(t, putStub(t.Context(), t, store))
	require.Equal(t, "third", signer(s), "as docs/operations/disaster-recovery.md says")
	require.NoError(t, store.Close())
}
