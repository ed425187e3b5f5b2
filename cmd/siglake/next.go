package main

import "strings"

// next is a command line for whoever reads the output to run. It is about the same places as this one: it carries the
// flags that say where, as they were given. What the environment says, it says to that command as well.
func (a *app) next(args ...string) string {
	line := "siglake"
	for _, arg := range args {
		line += " " + shellWord(arg)
	}
	for _, name := range placeFlags() {
		if f := a.flags.Lookup(name); f != nil && f.Changed {
			line += " --" + name + " " + shellWord(f.Value.String())
		}
	}
	return line
}

// placeFlags are the flags of all commands that say where everything is.
func placeFlags() []string { return []string{"data", "wal", "catalog", "warehouse"} }

// shellWord writes text so that a shell takes it for one word that means itself.
func shellWord(text string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=@%+,"
	if text != "" && strings.Trim(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
