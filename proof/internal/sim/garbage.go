package sim

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"net/http"
	"strconv"
)

// denials are errors with which requests are denied while a token is out of date, a role is
// being changed, or a proxy uses the wrong account.
var denials = []string{"AccessDeniedException", "ExpiredTokenException", "ResourceNotFoundException", "UnrecognizedClientException"}

// babble returns an answer that DynamoDB would not send: nothing, an empty object, an HTML
// page, other JSON, or an answer that was cut off or damaged on its way.
func (n *network) babble(request, genuine []byte) *answer {
	n.mu.Lock()
	kind := n.r.IntN(8)
	n.mu.Unlock()
	a := newAnswer()
	a.header.Set("Content-Type", "application/x-amz-json-1.0")
	switch kind {
	case 0:
	case 1:
		a.body = []byte("{}")
	case 2:
		a.header.Set("Content-Type", "text/html")
		a.body = []byte("<html><body>Please sign in to this network</body></html>")
	case 3:
		a.body = []byte(`{"status":"ok","data":[1,2,3]}`)
	case 4:
		a.body = genuine[:len(genuine)/2]
	case 5: // damaged: the checksum is that of the genuine answer
		a.header.Set("X-Amz-Crc32", checksum(genuine))
		a.body = damage(genuine)
	case 6: // intact and with a request ID, but without the requested attributes
		a.body = []byte("{}")
		if bytes.Contains(request, []byte(`"ReturnValues":"ALL_NEW"`)) {
			a.header.Set("X-Amzn-Requestid", "BABBLE")
			a.header.Set("X-Amz-Crc32", checksum(a.body))
		}
	default:
		a.status = http.StatusBadGateway
		a.header.Set("Content-Type", "text/html")
		a.body = fmt.Appendf(nil, "<html><h1>%d</h1></html>", a.status)
	}
	return a
}

// checksum returns the checksum of an answer in the form in which DynamoDB sends it.
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
