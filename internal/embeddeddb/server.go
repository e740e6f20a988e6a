package embeddeddb

import (
	"bytes"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Options of a Server; the zero value keeps everything in memory.
type Options struct {
	// Data is the file that keeps the tables from one process to the next. It is made if it is not
	// there, and belongs to one process at a time.
	Data string
}

// Server is the database and its http.Handler. It is safe for concurrent use.
type Server struct {
	mu       sync.Mutex // held for the whole of each call: a call is one step
	tables   map[string]*table
	journal  *journal // nil: memory only
	requests atomic.Int64
	listener *listener
}

// New makes a Server and reads its data file, if it has one. The caller closes it.
func New(o Options) (*Server, error) {
	s := &Server{tables: map[string]*table{}}
	if o.Data != "" {
		if err := s.open(o.Data); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// operations by their names on the wire.
var operations = map[string]func(*Server, []byte) any{
	"CreateTable":        operation((*Server).createTable),
	"DeleteTable":        operation((*Server).deleteTable),
	"DescribeTable":      operation((*Server).describeTable),
	"DescribeTimeToLive": operation((*Server).describeTimeToLive),
	"GetItem":            operation((*Server).getItem),
	"PutItem":            operation((*Server).putItem),
	"UpdateItem":         operation((*Server).updateItem),
	"Query":              operation((*Server).query),
	"Scan":               operation((*Server).scan),
}

// operation decodes a request into the fields that the operation knows. One that it does not know
// is refused by name: to serve a request without one of its conditions would be to lie.
func operation[In any](do func(*Server, *In) any) func(*Server, []byte) any {
	return func(s *Server, body []byte) any {
		in, d := new(In), json.NewDecoder(bytes.NewReader(body))
		d.DisallowUnknownFields()
		if err := d.Decode(in); err != nil {
			if name, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
				refuseUnsupported(name)
			}
			if refused := (*apiError)(nil); errors.As(err, &refused) {
				panic(refused)
			}
			panic(failure("SerializationException", "%v", err))
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return do(s, in)
	}
}

// answer serves one call, or gives the error that refuses it.
func (s *Server) answer(r *http.Request) (out any, status int) {
	defer func() {
		switch refused := recover().(type) {
		case nil:
		case *apiError:
			out, status = refused, http.StatusBadRequest
			if refused.Code == internalError {
				status = http.StatusInternalServerError
			}
		default:
			panic(refused)
		}
	}()
	body, err := io.ReadAll(io.LimitReader(r.Body, 16<<20))
	if err != nil {
		panic(failure("SerializationException", "%v", err))
	}
	name := strings.TrimPrefix(r.Header.Get("X-Amz-Target"), "DynamoDB_20120810.")
	do := operations[name]
	if do == nil {
		panic(failure("UnknownOperationException", "the embedded DynamoDB does not support the operation %q, only %s",
			name, strings.Join(slices.Sorted(maps.Keys(operations)), ", ")))
	}
	return do(s, body), http.StatusOK
}

// ServeHTTP answers one call of the DynamoDB JSON 1.0 protocol.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out, status := s.answer(r)
	body, err := json.Marshal(out)
	if err != nil {
		panic(err) // the answers are this package's own types
	}
	h := w.Header()
	h.Set("Content-Type", "application/x-amz-json-1.0")
	h.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	h.Set("X-Amzn-Requestid", strconv.FormatInt(s.requests.Add(1), 10))
	h.Set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE(body)), 10)) // the SDK checks it
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that is gone finds out by itself
}
