package otelarrow

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/xpdata/entity"
)

// entityRefs adds the references as JSON text, with the names that OTLP gives the fields in JSON; none is NULL. OTLP has
// them in development: text keeps what they say without a type that later versions would have to change.
func (s *scratch) entityRefs(t *text, refs entity.EntityRefSlice) {
	if refs.Len() == 0 {
		t.put("")
		return
	}
	s.json = append(s.json[:0], '[')
	for i, ref := range refs.All() {
		if i > 0 {
			s.json = append(s.json, ',')
		}
		s.json = append(s.json, `{"schemaUrl":`...)
		s.json = s.appendString(s.json, ref.SchemaUrl())
		s.json = append(s.json, `,"type":`...)
		s.json = s.appendString(s.json, ref.Type())
		s.json = append(s.json, `,"idKeys":`...)
		s.json = s.appendStrings(s.json, ref.IdKeys())
		s.json = append(s.json, `,"descriptionKeys":`...)
		s.json = s.appendStrings(s.json, ref.DescriptionKeys())
		s.json = append(s.json, '}')
	}
	s.json = append(s.json, ']')
	t.addBytes(s.json)
}

func (s *scratch) appendStrings(dst []byte, all pcommon.StringSlice) []byte {
	dst = append(dst, '[')
	for i, v := range all.All() {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = s.appendString(dst, v)
	}
	return append(dst, ']')
}
