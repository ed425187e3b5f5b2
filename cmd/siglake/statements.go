package main

import "strings"

// splitter cuts text into SQL statements at the semicolons that stand outside of quotes and comments. It is fed line
// by line, each with its line break. The zero value is ready.
type splitter struct {
	pending strings.Builder
	content bool // pending holds more than white space and comments
	inside  inside
}

// inside is what the text has begun and not ended. The zero value is plain SQL.
type inside struct {
	// until ends it: a quote, "$tag$", "*/" for a comment; "" when nothing is begun.
	until   string
	depth   int  // of comments
	escapes bool // a backslash keeps the next character: E'…'
}

// add takes one line and returns the statements that it completes, without their semicolons.
func (s *splitter) add(line string) []string {
	var out []string
	start := 0
	for i := 0; i < len(line); {
		if s.inside.until != "" {
			i += s.inside.skip(line[i:])
			continue
		}
		n, next := begins(line, i)
		switch {
		case next.until != "":
			s.inside = next
			s.content = s.content || next.depth == 0
		case line[i] == ';':
			s.pending.WriteString(line[start:i])
			if s.content {
				out = append(out, s.pending.String())
			}
			s.reset()
			start = i + 1
		case n == 1 && !isSpace(line[i]):
			s.content = true
		}
		i += n
	}
	s.pending.WriteString(line[start:])
	return out
}

// rest returns what no semicolon has ended; ok is false when that is nothing.
func (s *splitter) rest() (statement string, ok bool) { return s.pending.String(), s.content }

func (s *splitter) reset() { *s = splitter{} }

// begins tells what begins at line[i], and how many bytes that takes. A comment to the end of the line is one step.
func begins(line string, i int) (n int, next inside) {
	rest := line[i:]
	switch {
	case strings.HasPrefix(rest, "--"):
		if end := strings.IndexByte(rest, '\n'); end >= 0 {
			return end + 1, inside{}
		}
		return len(rest), inside{}
	case strings.HasPrefix(rest, "/*"):
		return 2, inside{until: "*/", depth: 1}
	case rest[0] == '"':
		return 1, inside{until: `"`}
	case rest[0] == '\'':
		escapes := i > 0 && (line[i-1] == 'e' || line[i-1] == 'E') && (i == 1 || !isWord(line[i-2]))
		return 1, inside{until: "'", escapes: escapes}
	case rest[0] == '$' && (i == 0 || !isWord(line[i-1])):
		if tag := dollarTag(rest); tag != "" {
			return len(tag), inside{until: tag}
		}
	}
	return 1, inside{}
}

// skip returns how many bytes of text to pass, and notes where what was begun ends. A doubled quote ends it and
// begins it again, which comes to the same.
func (in *inside) skip(text string) int {
	switch {
	case in.escapes && text[0] == '\\':
		return min(2, len(text))
	case in.depth > 0 && strings.HasPrefix(text, "/*"):
		in.depth++
		return 2
	case !strings.HasPrefix(text, in.until):
		return 1
	case in.depth > 1:
		in.depth--
		return 2
	}
	n := len(in.until)
	*in = inside{}
	return n
}

// dollarTag returns the opening quote $tag$ that text begins with, or "".
func dollarTag(text string) string {
	for i := 1; i < len(text); i++ {
		if text[i] == '$' {
			return text[:i+1]
		}
		if !isWord(text[i]) || i == 1 && text[i] >= '0' && text[i] <= '9' {
			return ""
		}
	}
	return ""
}

func isSpace(c byte) bool {
	return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v'
}

func isWord(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c >= 0x80
}

// words returns the words of a statement outside of quotes, comments and parentheses, in lower case.
func words(statement string) []string {
	var (
		out    []string
		in     inside
		depth  int
		inWord bool
	)
	for i := 0; i < len(statement); {
		if in.until != "" {
			i += in.skip(statement[i:])
			continue
		}
		n, next := begins(statement, i)
		in = next
		c := statement[i]
		word := n == 1 && next.until == "" && isWord(c)
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case word && depth == 0 && !inWord:
			out = append(out, "")
		}
		if word && depth == 0 {
			out[len(out)-1] += string(c)
		}
		inWord = word
		i += n
	}
	for i := range out {
		out[i] = strings.ToLower(out[i])
	}
	return out
}
