package sim

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"time"
)

// call is a request on its way to the database. Its sender may have gone.
type call struct {
	host   string // the host of the sender
	header http.Header
	body   []byte
}

// newCall reads a request that the SDK's client has made.
func newCall(r *http.Request) (*call, error) {
	body := make([]byte, r.ContentLength)
	if _, err := io.ReadFull(r.Body, body); err != nil {
		return nil, err
	}
	return &call{r.URL.Host, r.Header, body}, nil
}

// writes reports whether the call is a write.
func (c *call) writes() bool { return c.is("UpdateItem") }

func (c *call) is(operation string) bool {
	return c.header.Get("X-Amz-Target") == "DynamoDB_20120810."+operation
}

// answer is the answer to a call, from the database or from the simulation in place of the
// database. It implements http.ResponseWriter, so that the database can write to it.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func newAnswer() *answer { return &answer{status: http.StatusOK, header: http.Header{}} }

// Header implements [http.ResponseWriter].
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements [http.ResponseWriter].
func (a *answer) WriteHeader(status int) { a.status = status }

// Write implements [http.ResponseWriter].
func (a *answer) Write(part []byte) (int, error) {
	a.body = append(a.body, part...)
	return len(part), nil
}

// response returns the answer as the sender of the request receives it. If dated is set, the
// answer contains the date.
func (a *answer) response(r *http.Request, dated bool) *http.Response {
	header := maps.Clone(a.header) // the answer to a read of a card may be used again
	if dated {
		header["Date"] = []string{time.Now().UTC().Format(http.TimeFormat)}
	}
	return &http.Response{
		StatusCode: a.status, Status: http.StatusText(a.status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, ContentLength: int64(len(a.body)), Request: r,
		Body: &unread{r.Context(), bytes.NewReader(a.body)},
	}
}

// unread is the body of an answer that is still on its way. It fails once the request has ended.
type unread struct {
	request context.Context
	body    *bytes.Reader
}

func (u *unread) Read(p []byte) (int, error) {
	if err := u.request.Err(); err != nil {
		return 0, err
	}
	return u.body.Read(p)
}

func (u *unread) Close() error { return nil }
