package drain

import "errors"

// Joined is errors.Join that says each thing once: what ails a table, each of its segments meets.
func Joined(errs ...error) error {
	told := map[string]bool{}
	var out []error
	for _, err := range apart(errs) {
		if text := err.Error(); !told[text] {
			told[text] = true
			out = append(out, err)
		}
	}
	return errors.Join(out...)
}

// apart undoes joins, not errors that have more than one cause.
func apart(errs []error) (out []error) {
	for _, err := range errs {
		many, ok := err.(interface{ Unwrap() []error })
		switch {
		case err == nil:
		case ok && errors.Join(many.Unwrap()...).Error() == err.Error():
			out = append(out, apart(many.Unwrap())...)
		default:
			out = append(out, err)
		}
	}
	return out
}
