package lake

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// propPromote is the property of a table that remembers its promoted columns: it is written with the rows that first
// have them. Who drains without a configuration makes the same columns, and one that was renamed is found by its id.
const propPromote = "siglake.promote"

// firstPromotedID is the least field id of a promoted column. Ours stay below.
const firstPromotedID = 1000

// promoted is a promoted column and what it is in a table.
type promoted struct {
	column otelarrow.PromotedColumn
	id     int
}

// remembered is a promoted column as propPromote has it.
type remembered struct {
	Column string             `json:"column"`
	Type   string             `json:"type"`
	From   []rememberedOrigin `json:"from"`
	ID     int                `json:"id"`
}

type rememberedOrigin struct {
	From      string `json:"from"`
	Attribute string `json:"attribute"`
}

// promotedColumns are those that rows of the signal get in the table: the configured ones, or without a configuration
// those that the table remembers. The ids are those that the table remembers, 0 where it does not.
func promotedColumns(name string, meta table.Metadata, s otelarrow.Signal, configured *otelarrow.Promotions) ([]promoted, error) {
	have, err := readPromoted(meta)
	if configured == nil {
		if err != nil {
			return nil, fmt.Errorf("%w: property %s of %s: %w", ErrShape, propPromote, name, err)
		}
		return have, nil
	}
	// What cannot be read is written anew.
	ids := map[string]int{}
	for _, h := range have {
		ids[h.column.Name] = h.id
	}
	var out []promoted
	for _, c := range configured.Columns(s) {
		out = append(out, promoted{column: c, id: ids[c.Name]})
	}
	return out, nil
}

func readPromoted(meta table.Metadata) ([]promoted, error) {
	text, ok := meta.Properties()[propPromote]
	if !ok {
		return nil, nil
	}
	var list []remembered
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, err
	}
	out := make([]promoted, len(list))
	for i, r := range list {
		c := otelarrow.PromotedColumn{Name: r.Column, Type: r.Type}
		for _, o := range r.From {
			c.Origins = append(c.Origins, otelarrow.Origin{From: o.From, Attribute: o.Attribute})
		}
		if err := c.Check(); err != nil {
			return nil, err
		}
		out[i] = promoted{column: c, id: r.ID}
	}
	return out, nil
}

// encodePromoted is what the table is to remember; empty when it remembers that already.
func encodePromoted(meta table.Metadata, columns []promoted) (string, error) {
	list := make([]remembered, len(columns))
	for i, p := range columns {
		list[i] = remembered{Column: p.column.Name, Type: p.column.Type, ID: p.id}
		for _, o := range p.column.Origins {
			list[i].From = append(list[i].From, rememberedOrigin{From: o.From, Attribute: o.Attribute})
		}
	}
	text, err := json.Marshal(list)
	if err != nil {
		return "", fmt.Errorf("encode property %s: %w", propPromote, err)
	}
	have, ok := meta.Properties()[propPromote]
	if have == string(text) || !ok && len(columns) == 0 {
		return "", nil
	}
	return string(text), nil
}

// promote finds the promoted columns in the table, or adds them: by the id the table remembers, whatever the column
// is called by now, else by name. ours are the ids of the signal's own columns.
func (f *fitting) promote(name string, columns []promoted, ours map[int]bool) error {
	taken := map[int]string{}
	for i := range columns {
		c := &columns[i]
		want, err := promotedField(c.column)
		if err != nil {
			return err
		}
		have, err := f.findPromoted(name, c)
		if err != nil {
			return err
		}
		if have == nil {
			f.last = max(f.last, firstPromotedID-1)
			want.ID = 0 // none of a column of ours, none that was used
			fresh, err := f.take(want)
			if err != nil {
				return err
			}
			f.fields, f.grown = append(f.fields, fresh), true
			have = &fresh
		}
		switch {
		case !have.Type.Equals(want.Type):
			return fmt.Errorf("%w: column %s of %s is %s, and attribute %s is promoted to it as %s (%s): "+
				"give that promotion the type of the column, or another column; its rows wait in the write-ahead log",
				ErrShape, have.Name, name, have.Type, c.column.Origins[0].Attribute, c.column.Type, want.Type)
		case have.Required:
			return fmt.Errorf("%w: column %s of %s must not be required to take a promoted attribute", ErrShape, have.Name, name)
		case ours[have.ID] || taken[have.ID] != "":
			return fmt.Errorf("%w: promoted column %s of %s is called %s there, which is another column of ours: rename it",
				ErrShape, c.column.Name, name, have.Name)
		}
		c.id = have.ID
		taken[have.ID] = c.column.Name
	}
	return nil
}

func (f *fitting) findPromoted(name string, c *promoted) (*iceberg.NestedField, error) {
	for i := range f.fields {
		if c.id != 0 && f.fields[i].ID == c.id {
			return &f.fields[i], nil
		}
	}
	for i := range f.fields {
		switch h := &f.fields[i]; {
		case h.Name == c.column.Name:
			return h, nil
		case strings.EqualFold(h.Name, c.column.Name):
			return nil, fmt.Errorf("%w: %s has the column %s, which differs from promoted column %s in letter case only: "+
				"give that promotion another column; its rows wait in the write-ahead log", ErrShape, name, h.Name, c.column.Name)
		}
	}
	return nil, nil
}

func promotedField(c otelarrow.PromotedColumn) (iceberg.NestedField, error) {
	sc, err := table.ArrowSchemaToIceberg(arrow.NewSchema([]arrow.Field{withFieldID(c.Field(), 1)}, nil), false, nil)
	if err != nil {
		return iceberg.NestedField{}, fmt.Errorf("column %s: %w", c.Name, err)
	}
	return sc.Field(0), nil
}

// errNoColumn is for a schema that lacks what was just found in it or put there.
var errNoColumn = errors.New("no such column")

// promotedFields are the columns in the files: under the names and ids of the table.
func promotedFields(sc *iceberg.Schema, columns []promoted) ([]arrow.Field, error) {
	var out []arrow.Field
	for _, c := range columns {
		have, ok := sc.FindFieldByID(c.id)
		if !ok {
			return nil, fmt.Errorf("column %s with field id %d: %w", c.column.Name, c.id, errNoColumn)
		}
		f := withFieldID(c.column.Field(), c.id)
		f.Name = have.Name
		out = append(out, f)
	}
	return out, nil
}
