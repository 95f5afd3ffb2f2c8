package ratelimit

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A luaText is Lua whose local functions are to be written out where they are
// called. So that this can be done line by line, each function
//
//   - begins in the first column, and so does its end
//   - returns at its end, or not at all
//   - has no string or field that is called as one of its parameters
//   - gives values to variables in lines that begin with their names
//   - is called by a line of its own: f(…), a, b = f(…) or local a, b = f(…)
//
// and where it is wanted as a value, a line of its own says local g = f.
type luaText struct {
	functions map[string]*luaFunction
	calls     int
}

type luaFunction struct {
	parameters string
	body       []string
	results    string // what it returns
}

var (
	luaDefinition = regexp.MustCompile(`^local function (\w+)\((.*)\)$`)
	luaCall       = regexp.MustCompile(`^\s*(?:(?<local>local )?(?<names>[\w, ]+?) = )?(?<function>\w+)\((?<arguments>.*)\)$`)
	luaName       = regexp.MustCompile(`^[A-Za-z]\w*$`)
	luaSet        = regexp.MustCompile(`(?m)^\s*(?:local |for )?([\w, ]+?)(?: = |$)`)
	luaAlias      = regexp.MustCompile(`^local (?<alias>\w+) = (?<function>\w+)$`)
)

func newLua() *luaText { return &luaText{functions: map[string]*luaFunction{}} }

// inlined writes out all functions of a script.
func inlined(text string) string {
	l := newLua()
	return l.inline(l.define(text, ""))
}

func (l *luaText) inline(lines []string) string {
	var text strings.Builder
	l.write(&text, lines)
	return text.String()
}

// define takes the functions out of a text and returns the other lines. The
// functions that are called look, wait and put get a prefix.
func (l *luaText) define(text, prefix string) (rest []string) {
	var f *luaFunction
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch d := luaDefinition.FindStringSubmatch(line); {
		case d != nil:
			f = &luaFunction{parameters: d[2]}
			name := d[1]
			if name == "look" || name == "wait" || name == "put" {
				name = prefix + name
			}
			l.functions[name] = f
		case f != nil && line == "end":
			f = nil
		case f != nil && strings.HasPrefix(line, "  return "):
			f.results = strings.TrimPrefix(line, "  return ")
		case line == "" || strings.HasPrefix(strings.TrimSpace(line), "--"):
		case f != nil:
			f.body = append(f.body, line)
		default:
			rest = append(rest, line)
		}
	}
	return rest
}

// write writes lines with all calls written out.
func (l *luaText) write(to *strings.Builder, lines []string) {
	for _, line := range lines {
		alias, f := l.find(luaAlias, line)
		if f != nil {
			fmt.Fprintf(to, "local function %s(%s)\n", alias["alias"], f.parameters)
			l.write(to, f.body)
			if f.results != "" {
				to.WriteString("return " + f.results + "\n")
			}
			to.WriteString("end\n")
			continue
		}
		call, f := l.find(luaCall, line)
		if f == nil {
			to.WriteString(line + "\n")
			continue
		}
		l.call(to, call["local"], call["names"], f, call["arguments"])
	}
}

// find is the parts of a line that matches, and the function that it names.
func (l *luaText) find(form *regexp.Regexp, line string) (map[string]string, *luaFunction) {
	match := form.FindStringSubmatch(line)
	if len(match) == 0 {
		return nil, nil
	}
	parts := map[string]string{}
	for i, name := range form.SubexpNames() {
		parts[name] = match[i]
	}
	return parts, l.functions[parts["function"]]
}

// call writes out a call. A parameter that f leaves as it is needs no variable of
// its own, and what f returns goes straight to the names that wait for it; unless
// f has those names for something else.
func (l *luaText) call(to *strings.Builder, local, names string, f *luaFunction, arguments string) {
	text, own, values := f.bind(arguments)
	wanted := splitNames(names)
	direct := !slices.ContainsFunc(wanted, func(name string) bool {
		return slices.Contains(own, name) || luaSets(text, name) ||
			local != "" && luaUses(text+" "+strings.Join(values, " "), name)
	})
	if !direct {
		l.calls++
		for i := range wanted {
			wanted[i] = fmt.Sprintf("r%d_%d", l.calls, i+1)
		}
	}
	results := strings.Join(wanted, ", ")
	if names != "" && (local != "" || !direct) {
		to.WriteString("local " + results + "\n")
	}
	to.WriteString("do\n")
	if len(own) > 0 {
		fmt.Fprintf(to, "local %s = %s\n", strings.Join(own, ", "), strings.Join(values, ", "))
	}
	lines := strings.Split(text, "\n")
	last := len(lines) - 1
	l.write(to, lines[:last])
	if names != "" {
		fmt.Fprintf(to, "%s = %s\n", results, lines[last])
	}
	to.WriteString("end\n")
	if !direct {
		fmt.Fprintf(to, "%s%s = %s\n", local, names, results)
	}
}

// bind is the body of f and, in its last line, what it returns, with the
// parameters named as the arguments are; own are those that can't be, and values
// what they have at first.
func (f *luaFunction) bind(arguments string) (text string, own, values []string) {
	text = strings.Join(append(slices.Clone(f.body), f.results), "\n")
	parameters := splitNames(f.parameters)
	if strings.ContainsAny(arguments, "({") { // not to be split at its commas
		return text, parameters, []string{arguments}
	}
	args := splitNames(arguments)
	for i, name := range parameters[:min(len(parameters), len(args))] {
		switch arg := args[i]; {
		case !luaName.MatchString(arg) || luaSets(text, name) || arg != name && (luaUses(text, arg) || luaUses(f.parameters, arg)):
			own, values = append(own, name), append(values, arg)
		case arg != name:
			text = luaRenamed(text, name, arg)
		}
	}
	return text, own, values
}

func splitNames(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ", ")
}

func luaUses(text, name string) bool { return luaWord(text, name) >= 0 }

// luaWord is where a name is first in a text, -1 if it is nowhere.
func luaWord(text, name string) int {
	for from := 0; ; {
		at := strings.Index(text[from:], name)
		if at < 0 {
			return -1
		}
		at += from
		from = at + len(name)
		if (at == 0 || !luaLetter(text[at-1])) && (from == len(text) || !luaLetter(text[from])) {
			return at
		}
	}
}

func luaLetter(b byte) bool {
	return b == '_' || '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z'
}

// luaRenamed is a text with another name in place of one.
func luaRenamed(text, name, by string) string {
	var renamed strings.Builder
	for at := luaWord(text, name); at >= 0; at = luaWord(text, name) {
		renamed.WriteString(text[:at] + by)
		text = text[at+len(name):]
	}
	return renamed.String() + text
}

// luaSets tells whether a text has a variable of that name, or gives one a value.
func luaSets(text, name string) bool {
	return luaUses(text, name) && slices.ContainsFunc(luaSet.FindAllStringSubmatch(text, -1), func(set []string) bool {
		return slices.Contains(splitNames(set[1]), name)
	})
}
