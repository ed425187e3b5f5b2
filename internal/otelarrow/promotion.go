package otelarrow

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// Promotion asks for an attribute as a column of its own, as an operator writes it.
type Promotion struct {
	Attribute string
	From      string // attributes (also when empty), resource or scope
	Type      string // string (also when empty), int, long, double, bool or timestamp
	Column    string // empty: the attribute with _ for whatever is no letter, digit or _
	Signals   []string
}

// PromotedColumn is a column made from attributes. Of several origins the first whose value fits is taken.
type PromotedColumn struct {
	Name    string
	Type    string
	Origins []Origin
}

// Origin is where an attribute is looked for.
type Origin struct{ From, Attribute string }

// Promotions are the promoted columns of all signals. The zero value has none.
type Promotions struct{ columns [Metrics + 1][]PromotedColumn }

// Columns are those of a signal, in the order of the configuration.
func (p *Promotions) Columns(s Signal) []PromotedColumn { return p.columns[s] }

const legalTypes = "string, int, long, double, bool, timestamp"

// promotedTypes are the types of a promoted column: those that every engine has a word for.
func promotedType(name string) (arrow.DataType, bool) {
	switch name {
	case "string":
		return arrow.BinaryTypes.String, true
	case "int":
		return arrow.PrimitiveTypes.Int32, true
	case "long":
		return arrow.PrimitiveTypes.Int64, true
	case "double":
		return arrow.PrimitiveTypes.Float64, true
	case "bool":
		return arrow.FixedWidthTypes.Boolean, true
	case "timestamp":
		return arrow.FixedWidthTypes.Timestamp_us, true
	default:
		return nil, false
	}
}

// originPrefix is what the columns of an origin's attributes begin with.
func originPrefix(from string) (string, bool) {
	switch from {
	case "attributes":
		return "", true
	case "resource", "scope":
		return from + "_", true
	default:
		return "", false
	}
}

// maxPromotions bounds the columns that each row is searched for.
const maxPromotions = 200

var (
	wordColumn = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,127}$`)
	nonWord    = regexp.MustCompile(`[^A-Za-z0-9_]`)
)

// reservedColumns are names that no column of ours has and none may have: the partition field of the tables, which
// Iceberg keeps in the same space, and what a later version means to add.
var reservedColumns = []string{"timestamp_day"}

// NewPromotions checks a list of promotions and completes what it leaves out.
//
//	errors  all that is wrong with it, each with the place in the list, the key, the value and the way out
func NewPromotions(list []Promotion) (*Promotions, error) {
	p := &Promotions{}
	var errs []error
	if len(list) > maxPromotions {
		errs = append(errs, fmt.Errorf("promote: %d promotions are more than %d; every row is searched for each", len(list), maxPromotions))
	}
	for i, one := range list {
		if err := p.add(one); err != nil {
			errs = append(errs, fmt.Errorf("promote::%d::%w", i, err))
		}
	}
	return p, errors.Join(errs...)
}

func (p *Promotions) add(one Promotion) error {
	one.complete()
	signals, err := one.check()
	if err != nil {
		return err
	}
	for _, s := range signals {
		if err := p.addTo(s, one); err != nil {
			return err
		}
	}
	return nil
}

// complete puts in what was left out.
func (o *Promotion) complete() {
	if o.From == "" {
		o.From = "attributes"
	}
	if o.Type == "" {
		o.Type = "string"
	}
	if o.Column == "" {
		o.Column = nonWord.ReplaceAllLiteralString(o.Attribute, "_")
	}
}

// check looks at a promotion by itself and returns the signals it is for.
func (o *Promotion) check() ([]Signal, error) {
	if o.Attribute == "" {
		return nil, errors.New(`attribute: "" is no attribute; give its key, for example http.response.status_code`)
	}
	if _, ok := originPrefix(o.From); !ok {
		return nil, fmt.Errorf("from: %q is not one of attributes, resource, scope", o.From)
	}
	if _, ok := promotedType(o.Type); !ok {
		return nil, fmt.Errorf("type: %q is not one of %s", o.Type, legalTypes)
	}
	if !wordColumn.MatchString(o.Column) {
		return nil, fmt.Errorf("column: %.140q cannot be a column: want a letter, then at most 127 letters, digits and _; give the key column", o.Column)
	}
	if slices.ContainsFunc(reservedColumns, func(r string) bool { return strings.EqualFold(r, o.Column) }) {
		return nil, fmt.Errorf("column: %q is reserved; give another column", o.Column)
	}
	if len(o.Signals) == 0 {
		return []Signal{Logs, Traces, Metrics}, nil
	}
	var signals []Signal
	for _, name := range o.Signals {
		at := slices.IndexFunc([]Signal{Logs, Traces, Metrics}, func(s Signal) bool { return s.String() == name })
		if at < 0 {
			return nil, fmt.Errorf("signals: %q is not one of logs, traces, metrics", name)
		}
		if slices.Contains(signals, Signal(at)) {
			return nil, fmt.Errorf("signals: %q is listed twice; keep one", name)
		}
		signals = append(signals, Signal(at))
	}
	return signals, nil
}

// addTo gives a signal the column, or a column it has another origin.
func (p *Promotions) addTo(s Signal, o Promotion) error {
	for _, c := range layouts[s].columns {
		if strings.EqualFold(c.name, o.Column) {
			return fmt.Errorf("column: %q is a column of %s already (%s); give another column, or the key signals without %s",
				o.Column, s, c.name, s)
		}
	}
	origin := Origin{o.From, o.Attribute}
	for i := range p.columns[s] {
		c := &p.columns[s][i]
		switch {
		case !strings.EqualFold(c.Name, o.Column):
		case c.Name != o.Column:
			return fmt.Errorf("column: %q and %q differ in letter case only, which most engines take for one; give another column", o.Column, c.Name)
		case c.Type != o.Type:
			return fmt.Errorf("type: %q, but another promotion to column %q has type %q; give both the same type, or one another column",
				o.Type, o.Column, c.Type)
		case slices.Contains(c.Origins, origin):
			return fmt.Errorf("attribute: %q of %s is promoted to column %q twice; keep one", o.Attribute, o.From, o.Column)
		default:
			c.Origins = append(slices.Clone(c.Origins), origin)
			return nil
		}
	}
	p.columns[s] = append(p.columns[s], PromotedColumn{Name: o.Column, Type: o.Type, Origins: []Origin{origin}})
	return nil
}

// Check tells what keeps the column, read from where it was remembered, from being made.
func (c PromotedColumn) Check() error {
	if _, ok := promotedType(c.Type); !ok {
		return fmt.Errorf("column %q: type %q is not one of %s", c.Name, c.Type, legalTypes)
	}
	for _, o := range c.Origins {
		if _, ok := originPrefix(o.From); !ok {
			return fmt.Errorf("column %q: %q is not one of attributes, resource, scope", c.Name, o.From)
		}
	}
	return nil
}

// Field is the column in a table: never required.
func (c PromotedColumn) Field() arrow.Field {
	dt, ok := promotedType(c.Type)
	if !ok {
		panic("otelarrow: promoted column " + c.Name + " was not checked")
	}
	return arrow.Field{Name: c.Name, Type: dt, Nullable: true}
}
