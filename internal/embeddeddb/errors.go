package embeddeddb

import (
	"fmt"
	"net/http"
)

// apiError is an answer that DynamoDB returns instead of a result; the SDK turns its code into a type.
//
// Code at any depth refuses a request by a panic with an *apiError, which Server.ServeHTTP turns into the answer. That keeps
// the parser and the checks readable, and is safe because a call changes nothing before its last step, Server.commit.
type apiError struct {
	status  int
	Type    string `json:"__type"`
	Message string `json:"message"`
	Item    Item   `json:",omitempty"` // the item that failed a condition, if ALL_OLD was requested
}

const (
	dynamo = "com.amazonaws.dynamodb.v20120810#"
	coral  = "com.amazon.coral.service#" // the layer in front of DynamoDB
)

func failure(status int, code, format string, args ...any) *apiError {
	return &apiError{status: status, Type: code, Message: fmt.Sprintf(format, args...)}
}

func serialization(format string, args ...any) *apiError {
	return failure(http.StatusBadRequest, coral+"SerializationException", format, args...)
}

// refuse refuses a request that could never succeed in its present form.
func refuse(format string, args ...any) {
	panic(failure(http.StatusBadRequest, "com.amazon.coral.validate#ValidationException", format, args...))
}

// refuseUnsupported refuses a request for something that DynamoDB supports and this server does not.
func refuseUnsupported(what string) {
	refuse("the embedded DynamoDB does not support %s: it has only the operations that Nodelease uses", what)
}

func refuseFor(err error) {
	panic(failure(http.StatusInternalServerError, coral+"InternalServerError", "%v", err))
}

// caught returns the error with which f refused a request; nil if it did not.
func caught(f func()) (refused *apiError) {
	defer func() {
		if r := recover(); r != nil {
			refused = r.(*apiError) //nolint:forcetypeassert // anything else continues as a panic
		}
	}()
	f()
	return nil
}
