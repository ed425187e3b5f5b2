package segment

import (
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/siglakecol/siglakecol/internal/frame"
)

// nameKey is the key of the schema's metadata under which a file says which segment it is.
const nameKey = "siglake.segment"

// ErrOther says that a file bears the name of one segment and has the bytes of another.
var ErrOther = errors.New("segment: the bytes are another segment's")

// Name returns s with the id in its metadata, for the file of the segment.
func (id ID) Name(s *arrow.Schema) *arrow.Schema {
	md := s.Metadata()
	named := arrow.NewMetadata(append(slices.Clone(md.Keys()), nameKey), append(slices.Clone(md.Values()), id.String()))
	return arrow.NewSchema(s.Fields(), &named)
}

// CheckName returns a *frame.CorruptError around ErrOther where the schema of a file names another segment: two files or
// objects were exchanged, or one was copied. Its rows would be committed under the wrong id, twice or never. A file that
// names none, by an older or another writer, is taken for what its name says.
func (id ID) CheckName(s *arrow.Schema) error {
	said, ok := s.Metadata().GetValue(nameKey)
	if !ok || said == id.String() {
		return nil
	}
	return &frame.CorruptError{Offset: frame.HeaderSize, Err: fmt.Errorf("%w: they say %.80q", ErrOther, said)}
}
