package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net"
	"net/http"
	"slices"
	"strings"
)

//go:embed static
var static embed.FS

const maxBody = 4 << 10

// handler is the page and its API. One that listens only on this machine
// answers only to its names, so that no other site's name can be made to point
// here.
func (d *demo) handler(local bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /test", d.test)
	mux.HandleFunc("POST /config", d.configure)
	mux.HandleFunc("POST /traffic", d.direct)
	mux.HandleFunc("POST /reset", d.reset)
	mux.HandleFunc("GET /state", func(w http.ResponseWriter, r *http.Request) { answerJSON(w, http.StatusOK, d.state(full)) })
	mux.HandleFunc("GET /events", d.events)
	files, err := fs.Sub(static, "static")
	if err != nil {
		panic(err) // the folder is embedded above
	}
	mux.Handle("GET /", http.FileServerFS(files))

	// Refuses POSTs that a browser sends for another site.
	guarded := http.NewCrossOriginProtection().Handler(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-cache")
		if local && !isLocalName(r.Host) {
			refuse(w, http.StatusForbidden, fmt.Errorf("the demo listens on localhost and does not go by %q; see -host", r.Host))
			return
		}
		guarded.ServeHTTP(w, r)
	})
}

func isLocalName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// test sends count requests at once: {"count": 1}.
func (d *demo) test(w http.ResponseWriter, r *http.Request) {
	body := struct {
		Count int `json:"count"`
	}{1}
	if text, ok := receive(w, r); !ok || !decode(w, text, &body) {
		return
	}
	if err := checkNumbers(map[string]int{"count": body.Count}); err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	answerJSON(w, http.StatusOK, map[string]any{"results": d.lab.shoot(r.Context(), body.Count)})
}

// configure changes the fields that are given, and answers with all of them.
func (d *demo) configure(w http.ResponseWriter, r *http.Request) {
	body, ok := receive(w, r)
	if !ok {
		return
	}
	d.changing.Lock()
	defer d.changing.Unlock()
	c := *d.lab.config.Load()
	if !decode(w, body, &c) {
		return
	}
	if err := c.check(); err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	d.lab.setConfig(c)
	answerJSON(w, http.StatusOK, c)
}

// direct sets the traffic: {"mode": "steady", "per_second": 10}.
func (d *demo) direct(w http.ResponseWriter, r *http.Request) {
	body, ok := receive(w, r)
	if !ok {
		return
	}
	d.changing.Lock()
	defer d.changing.Unlock()
	p := d.traffic.view().plan
	if !decode(w, body, &p) {
		return
	}
	err := checkNumbers(map[string]int{"per_second": p.PerSecond})
	if !slices.Contains(modes, p.Mode) {
		err = wrong("mode", fmt.Sprintf("%.20q", p.Mode))
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	d.traffic.set(p)
	answerJSON(w, http.StatusOK, p)
}

// reset forgets what the key has used.
func (d *demo) reset(w http.ResponseWriter, r *http.Request) {
	if text, ok := receive(w, r); !ok || !decode(w, text, &struct{}{}) {
		return
	}
	if err := d.lab.reset(r.Context()); err != nil {
		refuse(w, http.StatusServiceUnavailable, errors.New(plainly(err)))
		return
	}
	answerJSON(w, http.StatusOK, struct{}{})
}

// receive reads the request's body; if it can't, it has answered. A form of
// another site cannot send this content type.
func receive(w http.ResponseWriter, r *http.Request) (body []byte, ok bool) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, errors.New("the content type must be application/json"))
		return nil, false
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		refuse(w, http.StatusRequestEntityTooLarge, fmt.Errorf("the body has more than %d bytes", maxBody))
	case err != nil:
		refuse(w, http.StatusBadRequest, errors.New("the body ended early"))
	}
	return body, err == nil
}

// decode reads JSON over what v holds; if it can't, it has answered.
func decode(w http.ResponseWriter, body []byte, v any) bool {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(v)
	if err == nil {
		if _, err = decoder.Token(); errors.Is(err, io.EOF) {
			return true
		}
	}
	refuse(w, http.StatusBadRequest, badBody(err))
	return false
}

// badBody says what is wrong with a body, naming the field if it is one.
func badBody(err error) error {
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) && wrongType.Field != "" {
		return wrong(wrongType.Field, nil)
	}
	if err != nil {
		if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			field = strings.Trim(field, `"`)
			return &fieldError{field, fmt.Sprintf("%.40q is no field of this request", field)}
		}
	}
	return errors.New("the body must be one JSON object")
}

// refuse answers with an error, and the field that it is about if there is one.
func refuse(w http.ResponseWriter, status int, err error) {
	var field *fieldError
	if !errors.As(err, &field) {
		field = &fieldError{Message: err.Error()}
	}
	answerJSON(w, status, field)
}

func answerJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v) //nolint:errcheck,errchkjson,gosec // the client has gone
}
