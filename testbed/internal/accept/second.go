package accept

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/siglakecol/siglakecol/testbed/internal/expect"
)

// secondOpinion decodes a request without pdata and says where that leads to other rows. The collector decodes with
// pdata, so this is a remark about pdata, not a failure; "" when both agree or the official decoder refuses. known is
// the number of fields without a rule that pdata's request has too.
func secondOpinion(signal string, body []byte, isJSON bool, rows []expect.Row, known int) string {
	m, err := official(signal, body, isJSON)
	if err != nil {
		return ""
	}
	other, unseen := expect.Rows(m)
	if len(other) != len(rows) {
		return fmt.Sprintf("pdata makes %d rows, the official decoder %d", len(rows), len(other))
	}
	for i, r := range rows {
		if d := r.Compare(expect.Window{}, other[i].Wanted()); len(d) > 0 {
			return fmt.Sprintf("row %d column %s differs by the official decoder: %s", i, d[0].Column, d[0].Problem)
		}
	}
	if len(unseen) > known {
		return "pdata drops: " + unseen[0]
	}
	return ""
}

func official(signal string, body []byte, isJSON bool) (proto.Message, error) {
	if !isJSON {
		return expect.Message(signal, body)
	}
	m, err := expect.NewRequest(signal)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var doc any
	if err := d.Decode(&doc); err != nil {
		return nil, err
	}
	if body, err = json.Marshal(idsToBase64(doc)); err != nil {
		return nil, err
	}
	return m, protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(body, m)
}

var idKeys = map[string]bool{"traceId": true, "spanId": true, "parentSpanId": true, "trace_id": true, "span_id": true, "parent_span_id": true}

// idsToBase64 turns OTLP/JSON into the JSON that the official decoder reads: OTLP writes ids in hex.
func idsToBase64(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for k, e := range x {
			if s, ok := e.(string); ok && idKeys[k] {
				if b, err := hex.DecodeString(s); err == nil {
					x[k] = base64.StdEncoding.EncodeToString(b)
				}
				continue
			}
			x[k] = idsToBase64(e)
		}
	case []any:
		for i, e := range x {
			x[i] = idsToBase64(e)
		}
	}
	return v
}
