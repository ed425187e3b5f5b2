package lake

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"strings"

	"github.com/apache/iceberg-go/table"
)

// whereabouts are the places that files of a table of the catalog may be in.
type whereabouts struct {
	table  string
	places []string // plain
	// unread is why the table cannot be read; nil: it can. Without places it may have files anywhere then.
	unread error
}

// conflict tells why files at the location of another table may be this one's.
func (w whereabouts) conflict(location string) error {
	if w.unread != nil && len(w.places) == 0 {
		return fmt.Errorf("table %s cannot be read, and the catalog does not tell where its files are: nobody can tell that they are not at %s: %w",
			w.table, location, w.unread)
	}
	for _, at := range w.places {
		if within(at, location) || within(location, at) {
			return fmt.Errorf("its location %s and that of %s, %s, are inside one another: nobody can tell whose the files are", location, w.table, at)
		}
	}
	return nil
}

// whereabouts are those of all tables in the catalog. One that cannot be read is no error: others are collected beside it.
func (l *Lake) whereabouts(ctx context.Context) ([]whereabouts, error) {
	spaces, err := l.cat.ListNamespaces(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	var out []whereabouts
	for _, ns := range spaces {
		ids, err := l.cat.tableNames(ctx, ns)
		if err != nil {
			return nil, fmt.Errorf("list tables of %s: %w", strings.Join(ns, "."), err)
		}
		for _, id := range ids {
			w, err := l.whereaboutsOf(ctx, id)
			if errors.Is(err, ErrNoTable) {
				continue // dropped since
			}
			if err != nil {
				return nil, fmt.Errorf("find out where the files of all tables are: %w", err)
			}
			out = append(out, w)
		}
	}
	return out, nil
}

func (l *Lake) whereaboutsOf(ctx context.Context, id table.Identifier) (whereabouts, error) {
	w := whereabouts{table: strings.Join(id, ".")}
	t, err := l.open(ctx, id)
	switch {
	case err == nil:
		w.places = placesIn(t.Metadata())
		return w, nil
	case ctx.Err() != nil:
		return w, context.Cause(ctx)
	case errors.Is(err, ErrCatalogGone):
		return w, err
	}
	w.unread = err
	if len(id) != 2 || l.db == nil {
		return w, ignoreUnlessDropped(err)
	}
	at, perr := l.pointer(ctx, id)
	switch {
	case errors.Is(perr, sql.ErrNoRows):
		return w, ignoreUnlessDropped(err)
	case perr != nil:
		return w, perr
	case at != "":
		w.places = l.placesBeside(ctx, id, at)
	}
	return w, context.Cause(ctx)
}

// ignoreUnlessDropped makes nothing of any error but that a table is not there any more.
func ignoreUnlessDropped(err error) error {
	if errors.Is(err, ErrNoTable) {
		return err
	}
	return nil
}

// placesIn are those that a state of a table names.
func placesIn(meta table.Metadata) (out []string) {
	props := meta.Properties()
	for _, at := range []string{
		meta.Location(), props[table.WriteDataPathKey], props[table.WriteMetadataPathKey],
		props["write.object-storage.path"], props["write.folder-storage.path"], // of other engines
	} {
		if at == "" {
			continue
		}
		if at, err := plain(at); err == nil { // one that is not of this kind is no place of ours
			out = append(out, at)
		}
	}
	return out
}

// placesBeside are the places of a table whose metadata file cannot be read: first what is above that file, if all other
// metadata files beside it say that this is its location. Where there are none it must be where a new table of its name
// is made. None: nobody can tell.
func (l *Lake) placesBeside(ctx context.Context, id table.Identifier, metadata string) (out []string) {
	dir := metadata[:max(0, strings.LastIndexByte(metadata, '/'))]
	home, err := plain(strings.TrimSuffix(dir, "/metadata"))
	if err != nil || path.Base(dir) != "metadata" {
		return nil
	}
	files, err := l.metadataFilesIn(dir)
	if err != nil {
		return nil
	}
	for _, f := range files {
		st, err := l.stored(ctx, id, f)
		switch {
		case f == metadata, isAbsent(err):
		case err != nil && !readable(l, f):
			return nil // it may name another place
		case err != nil: // torn by a kill, or damaged as well
		default:
			places := placesIn(st.Metadata())
			if len(places) == 0 || places[0] != home {
				return nil
			}
			out = append(out, places...)
		}
	}
	if len(out) == 0 && l.isBirthplace(id, home) {
		out = []string{home}
	}
	return out
}

// isBirthplace tells whether a new table of the name is made at a place.
func (l *Lake) isBirthplace(id table.Identifier, home string) bool {
	at, err := l.birthplace(id)
	if err != nil || at == "" {
		return false
	}
	at, err = plain(at)
	return err == nil && at == home
}

// birthplace is where a new table of the name goes; empty: the catalog chooses.
func (l *Lake) birthplace(id table.Identifier) (string, error) {
	if l.home == "" {
		return "", nil
	}
	return url.JoinPath(l.home, id[0]+".db", id[1])
}

// metadataFilesIn are the metadata files in a directory, without order.
func (l *Lake) metadataFilesIn(dir string) (out []string, err error) {
	err = l.io.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if isAbsent(err) {
			return nil
		}
		if err == nil && !d.IsDir() && strings.HasSuffix(d.Name(), metadataSuffix) {
			out = append(out, dir+"/"+d.Name())
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	return out, nil
}
