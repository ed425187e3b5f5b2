package otelarrow

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// A reader turns a value, as the WAL has it, into a cell; misfits means that it fits.
type reader func(text []byte, kind uint8) (cell, Misfit)

func readerOf(typ string) reader {
	switch typ {
	case "int":
		return func(text []byte, kind uint8) (cell, Misfit) { return readWhole(text, kind, 32) }
	case "long":
		return func(text []byte, kind uint8) (cell, Misfit) { return readWhole(text, kind, 64) }
	case "double":
		return readDouble
	case "bool":
		return readBool
	case "timestamp":
		return readTimestamp
	default:
		return readText
	}
}

func misfit(why Misfit) (cell, Misfit)   { return cell{}, why }
func fitting(bits uint64) (cell, Misfit) { return cell{bits: bits, ok: true}, misfits }
func readText(t []byte, _ uint8) (cell, Misfit) {
	return cell{text: t, ok: true}, misfits
}

// readWhole takes ints, doubles that are whole, and strings of decimal digits.
func readWhole(text []byte, kind uint8, bits int) (cell, Misfit) {
	switch kind {
	case valueInt, valueString:
		n, err := strconv.ParseInt(string(text), 10, bits)
		if errors.Is(err, strconv.ErrRange) {
			return misfit(MisfitRange)
		}
		if err != nil {
			return misfit(MisfitType)
		}
		return fitting(uint64(n))
	case valueDouble:
		f, ok := parseDouble(text, kind)
		limit := math.Ldexp(1, bits-1)
		switch {
		case !ok:
			return misfit(MisfitType)
		case math.IsNaN(f) || f < -limit || f >= limit:
			return misfit(MisfitRange)
		case f != math.Trunc(f):
			return misfit(MisfitFraction)
		}
		return fitting(uint64(int64(f)))
	default:
		return misfit(MisfitType)
	}
}

// readDouble takes ints, doubles, and strings of a decimal number. A number between two doubles becomes the nearer.
func readDouble(text []byte, kind uint8) (cell, Misfit) {
	switch kind {
	case valueInt, valueDouble, valueString:
		f, ok := parseDouble(text, kind)
		switch {
		case !ok:
			return misfit(MisfitType)
		case math.IsInf(f, 0) && kind == valueString && isDigit(text[len(text)-1]):
			return misfit(MisfitRange) // digits beyond the largest double, not the word
		}
		return fitting(math.Float64bits(f))
	default:
		return misfit(MisfitType)
	}
}

// parseDouble reads what appendDouble wrote, or a decimal number. What is beyond the largest double reads as infinite.
func parseDouble(text []byte, kind uint8) (float64, bool) {
	if len(text) == 0 {
		return 0, false
	}
	s := string(text)
	if kind == valueDouble && text[0] == '{' {
		s = strings.TrimSuffix(strings.TrimPrefix(s, `{"$double":"`), `"}`)
	}
	for i := range len(s) {
		// Of what Go reads as a number, hexadecimal and underscores are none elsewhere.
		if c := s[i]; c == '_' || c == 'x' || c == 'X' || c == 'p' || c == 'P' {
			return 0, false
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil || errors.Is(err, strconv.ErrRange)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// readBool takes bools, and the words true and false in any letter case.
func readBool(text []byte, kind uint8) (cell, Misfit) {
	if kind != valueBool && kind != valueString {
		return misfit(MisfitType)
	}
	switch s := string(text); {
	case strings.EqualFold(s, "true"):
		return fitting(1)
	case strings.EqualFold(s, "false"):
		return fitting(0)
	default:
		return misfit(MisfitType)
	}
}

// readTimestamp takes strings of RFC 3339, and ints as nanoseconds since 1970, which is how OTLP writes times. The
// result is microseconds, floor.
func readTimestamp(text []byte, kind uint8) (cell, Misfit) {
	switch kind {
	case valueInt:
		ns, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil {
			return misfit(MisfitType)
		}
		return fitting(uint64(floorMicros(ns)))
	case valueString:
		t, err := time.Parse(time.RFC3339Nano, string(text))
		if err != nil {
			return misfit(MisfitType)
		}
		if t = t.UTC(); t.Year() < 1 || t.Year() > 9999 { // beyond what most programs can show
			return misfit(MisfitRange)
		}
		return fitting(uint64(t.UnixMicro()))
	default:
		return misfit(MisfitType)
	}
}
