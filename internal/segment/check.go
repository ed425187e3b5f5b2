package segment

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
)

// ErrRecord says that a record of ours is there and is damaged.
var ErrRecord = errors.New("segment: damaged record")

// A record that is JSON ends with the CRC-32C of what is before it in the file. Without it one flipped bit makes another table
// or a smaller number of it, which reads as well as what was written.
const (
	checkBegin = `,"check":"`
	checkEnd   = "\"}\n"
)

func checkOf(b []byte) string {
	return fmt.Sprintf("%08x", crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}

// EncodeRecord is the file of a record, which is a JSON object with a key at least.
func EncodeRecord(record any) ([]byte, error) {
	b, err := json.Marshal(record)
	if err != nil {
		return nil, err
	}
	b = bytes.TrimSuffix(b, []byte("}"))
	return append(b, checkBegin+checkOf(b)+checkEnd...), nil
}

// DecodeRecord reads what EncodeRecord made. Records of before have no check: in them a key that nobody knows is damage, not something newer.
//
//	errors  ErrRecord
func DecodeRecord(file []byte, record any) error {
	body, check, checked := bytes.Cut(file, []byte(checkBegin))
	if checked {
		if string(check) != checkOf(body)+checkEnd {
			return fmt.Errorf("%w: the check does not match", ErrRecord)
		}
		body = append(bytes.Clone(body), '}')
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if !checked {
		d.DisallowUnknownFields()
	}
	if err := d.Decode(record); err != nil {
		return fmt.Errorf("%w: %w", ErrRecord, err)
	}
	if rest, ok := strings.CutPrefix(string(body[d.InputOffset():]), "\n"); rest != "" || checked && ok {
		return fmt.Errorf("%w: %.40q behind its end", ErrRecord, rest)
	}
	return nil
}
