package sim

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"net/http"
	"strconv"
)

// denials are answers that mean "no" for as long as a token is old, a role is being
// changed, or a proxy asks the wrong account.
var denials = []string{"AccessDeniedException", "ExpiredTokenException", "ResourceNotFoundException", "UnrecognizedClientException"}

// babble answers what DynamoDB would not: nothing, an empty object, a page, other
// JSON, an answer that was cut off or damaged on its way.
func (n *network) babble(w http.ResponseWriter, request, answer []byte) {
	n.mu.Lock()
	kind := n.r.IntN(8)
	n.mu.Unlock()
	status, body := http.StatusOK, []byte(nil)
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	switch kind {
	case 0:
	case 1:
		body = []byte("{}")
	case 2:
		w.Header().Set("Content-Type", "text/html")
		body = []byte("<html><body>Please sign in to this network</body></html>")
	case 3:
		body = []byte(`{"status":"ok","data":[1,2,3]}`)
	case 4:
		body = answer[:len(answer)/2]
	case 5: // damaged: the checksum is that of the answer
		w.Header().Set("X-Amz-Crc32", checksum(answer))
		body = damage(answer)
	case 6: // whole and named, but not what was asked for
		body = []byte("{}")
		if bytes.Contains(request, []byte(`"ReturnValues":"ALL_NEW"`)) {
			w.Header().Set("X-Amzn-Requestid", "BABBLE")
			w.Header().Set("X-Amz-Crc32", checksum(body))
		}
	default:
		status = http.StatusBadGateway
		w.Header().Set("Content-Type", "text/html")
		body = fmt.Appendf(nil, "<html><h1>%d</h1></html>", status)
	}
	n.date(w)
	w.WriteHeader(status)
	_, _ = w.Write(body) // the sender may be gone
}

// checksum is DynamoDB's of an answer.
func checksum(answer []byte) string {
	return strconv.FormatUint(uint64(crc32.ChecksumIEEE(answer)), 10)
}

// damage changes the last digit of an answer's body.
func damage(answer []byte) []byte {
	body := bytes.Clone(answer)
	if i := bytes.LastIndexAny(body, "0123456789"); i >= 0 {
		body[i] = '0' + (body[i]-'0'+1)%10
	}
	return body
}
