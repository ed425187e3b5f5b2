package objstore

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// DefaultPrefix is the directory of a mirror beneath its bucket where the configuration names none, as the reference system
// names it.
const DefaultPrefix = "wal-mirror"

// Location is a parsed store URL.
type Location struct {
	Scheme string // s3, gs, azblob, file
	Bucket string // empty for file
	Path   string // below the bucket, without slashes at its ends; of file the directory as written
}

// schemes are those of Open.
func schemes() []string { return []string{"s3", "gs", "azblob", "file"} }

// ParseURL reads s3://bucket/path, gs://…, azblob://container/path and file:///absolute/path (also file://./relative).
// The error repeats no more of the value than scheme, host and path: it may hold a secret.
func ParseURL(raw string) (Location, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme == "" {
		return Location{}, noURL(raw)
	}
	l := Location{Scheme: u.Scheme, Bucket: u.Host, Path: strings.Trim(path.Clean("/"+u.Path), "/")}
	switch {
	case !slices.Contains(schemes(), u.Scheme):
		return Location{}, fmt.Errorf("%q is no object store; %s", Redact(raw), writeURL)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return Location{}, fmt.Errorf("%q has more than a bucket and a path; credentials and options go into the section s3 or the environment", Redact(raw))
	case u.Scheme == "file":
		dir := strings.TrimPrefix(raw, "file://")
		if dir == "" || u.Host != "" && !strings.HasPrefix(dir, "./") && !strings.HasPrefix(dir, "../") {
			return Location{}, fmt.Errorf("%q names no local directory; write file:///absolute/path", Redact(raw))
		}
		l.Bucket, l.Path = "", filepath.Clean(dir)
	case u.Host == "":
		return Location{}, fmt.Errorf("%q names no bucket; write %s://bucket/path", Redact(raw), u.Scheme)
	}
	return l, nil
}

const writeURL = "write s3://bucket/path, gs://bucket/path, azblob://container/path or file:///absolute/path"

// noURL shows a path, of which a URL is easily made, and nothing that may hold a secret.
func noURL(raw string) error {
	dir := strings.HasPrefix(raw, "/") && !strings.HasPrefix(raw, "//") || strings.HasPrefix(raw, "./") || strings.HasPrefix(raw, "../")
	if !dir || strings.ContainsAny(raw, "?#@%") {
		return errors.New("it is no URL and is not repeated here, as it may hold credentials; " + writeURL)
	}
	return fmt.Errorf("%q is a path and no URL; write file://%s", raw, raw)
}

// ParsePlace reads a URL as ParseURL does, and the path of a directory. A relative directory is made absolute, as it
// means now.
func ParsePlace(text string) (Location, error) {
	l := Location{Scheme: "file", Path: filepath.Clean(text)}
	if strings.Contains(text, "://") {
		var err error
		if l, err = ParseURL(text); err != nil {
			return Location{}, err
		}
	}
	return l.Absolute()
}

// Absolute makes a relative directory mean what it means now.
func (l Location) Absolute() (Location, error) {
	if l.Scheme != "file" {
		return l, nil
	}
	dir, err := filepath.Abs(l.Path)
	l.Path = dir
	return l, err
}

// String is the URL again.
func (l Location) String() string {
	switch {
	case l.Scheme == "file":
		return "file://" + l.Path
	case l.Path == "":
		return l.Scheme + "://" + l.Bucket
	default:
		return l.Scheme + "://" + l.Bucket + "/" + l.Path
	}
}

// Join is the location of a path below l.
func (l Location) Join(elem string) Location {
	if l.Scheme == "file" {
		l.Path = filepath.Join(l.Path, elem)
	} else {
		l.Path = strings.Trim(path.Join("/", l.Path, elem), "/")
	}
	return l
}

// Contains tells whether o is l or below it, as written: no link and no working directory is looked at.
func (l Location) Contains(o Location) bool {
	if l.Scheme != o.Scheme || l.Bucket != o.Bucket {
		return false
	}
	return l.Path == "" || l.Path == "/" || o.Path == l.Path || strings.HasPrefix(o.Path, l.Path+"/")
}

// Overlaps tells whether one is the other or below it. Where the copies of a log are and where the log is, or the tables
// are, must not.
func (l Location) Overlaps(o Location) bool { return l.Contains(o) || o.Contains(l) }

// Redact cuts a URL to scheme, host and path; a user, a query or what is no URL may hold a secret.
func Redact(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme == "" {
		return "(not a URL)"
	}
	return u.Scheme + "://" + u.Host + u.Path
}
