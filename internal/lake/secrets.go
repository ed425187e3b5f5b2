package lake

import "strings"

// secrets are texts that no message may hold. Servers and drivers are not known to repeat them; this makes sure.
type secrets []string

// shortestSecret keeps a word that is no secret worth the name from tearing holes into every message.
const shortestSecret = 6

// hide returns an error that reads without the secrets and is otherwise the same.
func (s secrets) hide(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	clean := text
	for _, secret := range s {
		if len(secret) >= shortestSecret {
			clean = strings.ReplaceAll(clean, secret, "[REDACTED]")
		}
	}
	if clean == text {
		return err
	}
	return &hiddenError{clean, err}
}

// hiddenError has a text of its own. What it wraps is for errors.Is and errors.As only.
type hiddenError struct {
	text string
	err  error
}

func (e *hiddenError) Error() string { return e.text }

func (e *hiddenError) Unwrap() error { return e.err }

// redactURL leaves of a URL what may be shown: no user, no password, no query. Nothing of it has to be well-formed.
func redactURL(value string) string {
	scheme, rest, ok := strings.Cut(value, "://")
	if !ok {
		if strings.ContainsAny(value, "=@ ") {
			return "[REDACTED]" // keywords of a database driver, perhaps with a password among them
		}
		return value
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		rest = rest[at+1:]
	}
	rest, _, _ = strings.Cut(rest, "?")
	return scheme + "://" + rest
}
