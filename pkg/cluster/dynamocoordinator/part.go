package dynamocoordinator

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nodelease/nodelease/pkg/cluster"
)

// sum returns the hash of a part's content.
func sum(content []byte) string {
	h := sha256.Sum256(content)
	return base64.RawURLEncoding.EncodeToString(h[:12])
}

// position returns a part's sort key. Item 0 comes before all parts.
func position(name string) int64 {
	n, _ := strconv.ParseInt(name, 10, 64)
	return n + 1
}

// partName returns a part's name in a list.
func partName(n int) string { return strconv.Itoa(n) }

// formatParts lists parts and their hashes, sorted by name.
func formatParts(hash map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(hash)) {
		fmt.Fprintf(&b, "%s=%s ", name, hash[name])
	}
	return b.String()
}

// parseParts parses a list that formatParts wrote.
func parseParts(list string) (map[string]string, bool) {
	hash := map[string]string{}
	for field := range strings.FieldsSeq(list) {
		name, h, _ := strings.Cut(field, "=")
		if n, err := strconv.Atoi(name); err != nil || n < 0 || n >= maxParts || strconv.Itoa(n) != name || len(hash) >= maxParts {
			return nil, false
		}
		hash[name] = h
	}
	return hash, true
}

// pack compresses the content of a part, which saves much because the descriptions of
// members are similar.
func pack(content []byte) (string, error) {
	if len(content) > maxPart {
		return "", fmt.Errorf("dynamocoordinator: a part of the digest has %d bytes, at most %d are read: shorten the members' metadata", len(content), maxPart)
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(content); err != nil {
		return "", err
	}
	if err := z.Close(); err != nil {
		return "", err
	}
	packed := base64.StdEncoding.EncodeToString(b.Bytes())
	if len(packed) > maxItem {
		return "", fmt.Errorf("dynamocoordinator: a part of the digest has %d bytes when packed, at most %d fit an item: shorten the members' metadata", len(packed), maxItem)
	}
	return packed, nil
}

var (
	errLong   = errors.New("dynamocoordinator: a part of the digest is too long")
	errNoList = errors.New("dynamocoordinator: a part of the digest is not a list")
)

// unpack undoes pack. It limits the length of the result, since a few bytes can unpack to
// any number of bytes.
func unpack(packed string) ([]byte, error) {
	if len(packed) > maxItem {
		return nil, errLong
	}
	raw, err := base64.StdEncoding.DecodeString(packed)
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(z, maxPart+1))
	if err == nil && len(content) > maxPart {
		err = errLong
	}
	return content, err
}

// listed returns the members that the content of a part lists.
func listed(content []byte) (members []cluster.Member, err error) {
	in := json.NewDecoder(bytes.NewReader(content))
	if start, err := in.Token(); err != nil || start != json.Delim('[') {
		return nil, errNoList
	}
	for in.More() {
		var m cluster.Member
		if err := in.Decode(&m); err != nil {
			return nil, err
		}
		// The bound keeps a reader's memory to a few MB for 1 MB of content.
		if members = append(members, m); len(members) > maxListed {
			return nil, errLong
		}
	}
	_, err = in.Token() // the end of the list
	return members, err
}
