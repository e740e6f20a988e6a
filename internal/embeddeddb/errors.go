package embeddeddb

import "fmt"

// apiError is an answer that DynamoDB gives in place of a result; the SDK turns Code into a type.
//
// A request that cannot be served is refused by a panic with an *apiError from however deep, and
// Server.answer turns it into the answer. That keeps the parser and the checks readable, and is
// safe because a call changes nothing before its last step, Server.commit.
type apiError struct {
	Code    string `json:"-"`
	Type    string `json:"__type"`
	Message string `json:"message"`
	Item    Item   `json:",omitempty"` // that failed a condition, when ALL_OLD was asked for
}

func (e *apiError) Error() string { return e.Code + ": " + e.Message }

func failure(code, format string, args ...any) *apiError {
	return &apiError{Code: code, Type: "com.amazonaws.dynamodb.v20120810#" + code, Message: fmt.Sprintf(format, args...)}
}

// invalid is the error of a request that could never succeed as it is written.
func invalid(format string, args ...any) *apiError {
	return failure("ValidationException", format, args...)
}

func refuse(format string, args ...any) { panic(invalid(format, args...)) }

// refuseUnsupported refuses what DynamoDB would serve and this server will not.
func refuseUnsupported(what string) {
	refuse("the embedded DynamoDB does not support %s: it speaks only what Nodelease uses", what)
}
