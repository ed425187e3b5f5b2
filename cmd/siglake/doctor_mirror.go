package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/siglakecol/siglakecol/internal/mirror"
	"github.com/siglakecol/siglakecol/internal/objstore"
)

// The checks of the mirror.
var (
	mirrorReach = check{
		name: "mirror-reach", costs: "no segment is copied, and requests with commit mode mirrored time out",
		fix: "correct the URL, the endpoint (AWS_ENDPOINT_URL_S3), the credentials, or the right to list",
	}
	mirrorPlace = check{
		name: "mirror-place", costs: "whoever loses the volume of the log loses its copies too",
		fix: "put the mirror on another volume, or into an object store",
	}
	mirrorPut         = check{name: "mirror-put", costs: "no segment is copied", fix: "give the identity s3:PutObject, or its like, below the prefix"}
	mirrorConditional = check{
		name: "mirror-conditional-put", costs: "a copy can be overwritten by another file of its name, and is then lost to a recovery",
		fix: "use a store, or a version of it, that honours If-None-Match: * (S3) or its like",
	}
	mirrorGet    = check{name: "mirror-get", costs: "no copy can be confirmed or restored", fix: "give the identity s3:GetObject, or its like, below the prefix"}
	mirrorList   = check{name: "mirror-list", costs: "a recovery does not find every copy", fix: "give the identity s3:ListBucket; use a store whose listings show what was written"}
	mirrorDigest = check{
		name: "mirror-digest", costs: "without a CRC-32 each copy costs more CPU (MD5, SHA-256); without any digest each is read back before it is confirmed",
		fix: "use a store that compares and shows x-amz-checksum-crc32",
	}
	mirrorClock = check{
		name: "mirror-clock", costs: "an S3 store refuses requests that are signed more than 15 minutes off",
		fix: "set the clock of this machine, or of the store, by NTP",
	}
	mirrorDelete = check{
		name: "mirror-delete", costs: "copies of open segments (active_interval) stay for ever",
		fix: "give the identity s3:DeleteObject, or its like, below the prefix",
	}
)

func mirrorTries() []check {
	return []check{mirrorPut, mirrorConditional, mirrorGet, mirrorList, mirrorDigest, mirrorClock, mirrorDelete}
}

// checkMirror tries a mirror with objects of its own.
func (d *doctor) checkMirror(ctx context.Context, at objstore.Location) {
	d.silent = false
	if d.mirror == "" {
		d.skip("no mirror is named; give --mirror or SIGLAKE_WAL_MIRROR_URL", mirrorReach)
		return
	}
	if v := d.overlap(at); v.result != "" {
		d.report(mirrorPlace, v)
		return
	}
	if at.Scheme == "file" {
		// The first copy makes the directory; a probe that did would leave it.
		if _, err := d.fs.List(at.Path); errors.Is(err, fs.ErrNotExist) {
			d.report(mirrorReach, verdict{unknown, at.String() + " is not there yet", "make the directory, as the first copy would, and ask again"})
			return
		}
		d.try(ctx, mirrorPlace, func(context.Context) verdict { return d.apart(at.Path) })
	}
	store, err := objstore.Open(ctx, at.String(), objstore.Options{FS: d.fs})
	if err != nil {
		d.report(mirrorReach, ok(err, ""))
		return
	}
	d.tryMirror(ctx, at, store)
	if err := store.Close(); err != nil && ctx.Err() == nil {
		d.report(mirrorReach, verdict{warned, "close the store: " + err.Error(), ""})
	}
}

// tryMirror runs the checks on an open store.
func (d *doctor) tryMirror(ctx context.Context, at objstore.Location, store objstore.Store) {
	p := &mirrorProbe{store: store, now: d.now, local: at.Scheme == "file", key: mirrorKey(d.now())}
	if !d.try(ctx, mirrorReach, func(ctx context.Context) verdict { return d.reach(ctx, p, at) }) {
		d.skip("the store could not be asked", mirrorTries()...)
		return
	}
	if d.try(ctx, mirrorPut, p.put) {
		d.try(ctx, mirrorConditional, p.conditional)
		d.try(ctx, mirrorGet, p.get)
		d.try(ctx, mirrorList, p.list)
		d.try(ctx, mirrorDigest, p.digest)
		d.try(ctx, mirrorClock, p.clock)
	} else {
		d.skip("no object could be written", mirrorTries()[1:6]...)
	}
	// Also after Ctrl-C: nothing stays.
	cleaning := context.WithoutCancel(ctx)
	wasSilent := d.silent
	d.silent = false
	d.try(cleaning, mirrorDelete, p.remove)
	d.silent = wasSilent
}

// mirrorProbe tries what the mirror asks of a store.
type mirrorProbe struct {
	store objstore.Store
	now   func() time.Time
	local bool
	key   string
	// puts is when the put of the object was sent and answered, by the clock of this machine.
	puts [2]time.Time
}

// mirrorPrefix begins the keys of probes. It is no segment's and no tenant's.
const mirrorPrefix = "siglake-mirror.doctor-"

// mirrorAbandoned is how old an object of another doctor must be to be removed: it was killed.
const mirrorAbandoned = time.Hour

// mirrorKey says when it was made, for who finds it.
func mirrorKey(now time.Time) string {
	return fmt.Sprintf("%s%x-%s", mirrorPrefix, now.Unix(), uuid.NewString()[:8])
}

func abandonedKey(key string, now time.Time) bool {
	rest, ours := strings.CutPrefix(key, mirrorPrefix)
	made, _, _ := strings.Cut(rest, "-")
	seconds, err := strconv.ParseInt(made, 16, 64)
	return ours && err == nil && now.Sub(time.Unix(seconds, 0)) > mirrorAbandoned
}

func (p *mirrorProbe) text() []byte {
	return []byte("written by siglake doctor, and removed again: " + p.key + "\n")
}

func (p *mirrorProbe) content() *objstore.Content { return contentOf(p.text()) }

func contentOf(text []byte) *objstore.Content {
	return objstore.NewContent(bytes.NewReader(text), int64(len(text)))
}

// keys are the probes that a listing shows.
func (p *mirrorProbe) keys(ctx context.Context) (keys []string, err error) {
	err = p.store.List(ctx, mirrorPrefix, func(o objstore.Info) error {
		keys = append(keys, o.Key)
		return nil
	})
	return keys, err
}

// reach lists the objects of doctors, of which there are few, and looks for the marker.
func (d *doctor) reach(ctx context.Context, p *mirrorProbe, at objstore.Location) verdict {
	if _, err := p.keys(ctx); err != nil {
		return ok(err, "")
	}
	if mirror.Marked(ctx, p.store) {
		return verdict{passed, at.String() + " is a mirror", ""}
	}
	if dir := mirrorBelow(ctx, p.store); dir != "" {
		meant := at.Join(dir).String()
		return verdict{warned, fmt.Sprintf("%s is no mirror, and %s is one", at, meant), "run " + d.next("doctor", "--mirror", meant)}
	}
	return verdict{passed, at.String() + " answers; no log was copied there yet", ""}
}

// put makes the object. Where the store refuses the condition of the put and not the put, conditional tells.
func (p *mirrorProbe) put(ctx context.Context) verdict {
	p.puts[0] = time.Now()
	err := p.store.Put(ctx, p.key, p.content())
	if err != nil && p.store.Replace(ctx, p.key, p.content()) == nil {
		p.puts[1] = time.Now()
		return verdict{warned, fmt.Sprintf("written without a condition; with it: %v", err), mirrorConditional.fix}
	}
	p.puts[1] = time.Now()
	return ok(err, "an object was written")
}

// conditional puts another object under the key, which must be refused.
func (p *mirrorProbe) conditional(ctx context.Context) verdict {
	err := p.store.Put(ctx, p.key, contentOf([]byte("a second one\n")))
	switch {
	case errors.Is(err, objstore.ErrExists):
	case err == nil:
		return verdict{failed, "a second put under the same key was accepted", ""}
	default:
		return ok(err, "")
	}
	got, err := p.read(ctx)
	if err == nil && !bytes.Equal(got, p.text()) {
		return verdict{failed, "a second put under the same key was refused, and has replaced the object", ""}
	}
	return ok(err, "a second put under the same key was refused")
}

func (p *mirrorProbe) read(ctx context.Context) ([]byte, error) {
	r, err := p.store.Get(ctx, p.key)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(r, 1<<20))
	return b, errors.Join(err, r.Close())
}

// get asks for what the mirror confirms a copy by.
func (p *mirrorProbe) get(ctx context.Context) verdict {
	info, err := p.store.Stat(ctx, p.key)
	if err != nil {
		return ok(err, "")
	}
	got, err := p.read(ctx)
	if err == nil && info.Size != int64(len(got)) {
		err = fmt.Errorf("%d bytes came back of an object that has %d", len(got), info.Size)
	}
	return ok(err, "size and content came back")
}

// list looks whether a listing shows the object at once.
func (p *mirrorProbe) list(ctx context.Context) verdict {
	keys, err := p.keys(ctx)
	if err != nil {
		return ok(err, "")
	}
	if slices.Contains(keys, p.key) {
		return verdict{passed, "the listing shows the object", ""}
	}
	return verdict{failed, "the listing does not show an object that was just written", ""}
}

// digest looks by which digest a copy is confirmed.
func (p *mirrorProbe) digest(ctx context.Context) verdict {
	if p.local {
		return verdict{skipped, "a directory keeps no digests; copies are read back", ""}
	}
	info, err := p.store.Stat(ctx, p.key)
	if err != nil {
		return ok(err, "")
	}
	same, err := objstore.Holds(ctx, p.store, info, p.content())
	switch {
	case err != nil:
		return ok(err, "")
	case !same:
		return verdict{failed, "the store has other bytes than were sent", ""}
	case info.CRC32 != nil:
		return verdict{passed, "the store shows the CRC-32", ""}
	case info.MD5 != nil || info.Claimed != nil:
		return verdict{passed, "the store shows the MD5, and no CRC-32", ""}
	}
	return verdict{warned, "the store shows no digest", ""}
}

// Differences of clocks.
const (
	mildSkew   = 30 * time.Second
	severeSkew = 15 * time.Minute
)

// clock compares the time that the store gave the object with ours while it was written.
func (p *mirrorProbe) clock(ctx context.Context) verdict {
	if p.local {
		return verdict{skipped, "a directory has no clock of its own", ""}
	}
	info, err := p.store.Stat(ctx, p.key)
	if err != nil {
		return ok(err, "")
	}
	if info.ModTime.IsZero() {
		return verdict{unknown, "the store tells no times", ""}
	}
	return judgeSkew(info.ModTime, p.puts[0], p.puts[1])
}

// judgeSkew compares a time of the store, exact to a second, with the span in which it was taken.
func judgeSkew(theirs, from, to time.Time) verdict {
	var off time.Duration
	switch {
	case theirs.Before(from.Add(-time.Second)):
		off = theirs.Sub(from)
	case theirs.After(to.Add(time.Second)):
		off = theirs.Sub(to)
	default:
		return verdict{passed, "the store's clock agrees, to about a second", ""}
	}
	seen := fmt.Sprintf("the store's clock is %s ahead", off.Round(time.Second))
	if off < 0 {
		seen = fmt.Sprintf("the store's clock is %s behind", (-off).Round(time.Second))
	}
	switch {
	case off.Abs() >= severeSkew:
		return verdict{failed, seen, ""}
	case off.Abs() >= mildSkew:
		return verdict{warned, seen, ""}
	}
	return verdict{passed, seen, ""}
}

// remove deletes what this doctor has made, and what others have left that were killed.
func (p *mirrorProbe) remove(ctx context.Context) verdict {
	ours := []string{p.key}
	keys, err := p.keys(ctx)
	for _, key := range keys {
		if abandonedKey(key, p.now()) {
			ours = append(ours, key)
		}
	}
	for _, key := range ours {
		if derr := p.store.Delete(ctx, key); derr != nil {
			err = errors.Join(err, fmt.Errorf("%w; it stays", derr))
		}
	}
	if err != nil {
		return ok(err, "")
	}
	if _, err := p.store.Stat(ctx, p.key); !errors.Is(err, objstore.ErrNotFound) {
		return ok(errors.Join(err, fmt.Errorf("%s is still there", p.key)), "")
	}
	return verdict{passed, "the object was deleted", ""}
}
