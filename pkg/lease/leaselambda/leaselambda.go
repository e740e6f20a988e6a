package leaselambda

import (
	"context"
	"fmt"
	"os"
	"reflect"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// Wrap returns a handler that calls the given handler with a context that carries an
// agent, for [Generator] and [Lease]. handler may be any argument that lambda.Start
// accepts: a function whose first parameter is a context, or a lambda.Handler. The
// options are those of the generator.
//
// On SIGTERM, the wrapped handler releases the node ID if the environment leaves enough
// time. To receive SIGTERM, it registers aws-lambda-go's internal extension. If cfg is
// invalid, each call of [Generator] and [Lease] returns the error; an invocation that
// generates no IDs is not affected.
func Wrap(handler any, cfg lease.Config, opts ...snowflake.Option) lambda.Handler {
	a, err := New(cfg, opts...)
	if err != nil {
		a = &Agent{wrong: err}
	}
	var options []lambda.Option
	if os.Getenv("AWS_LAMBDA_RUNTIME_API") != "" {
		options = append(options, lambda.WithEnableSIGTERM(func() { _ = a.Close() })) // an event reports the error
	}
	return lambda.NewHandlerWithOptions(a.around(handler), options...)
}

// around returns a handler that puts the agent into the context. The new handler has the
// same parameter and result types as the given handler, since aws-lambda-go uses these
// types to decode the event and to stream the response.
func (a *Agent) around(handler any) any {
	if h, ok := handler.(lambda.Handler); ok {
		return within{h, a}
	}
	fn := reflect.ValueOf(handler)
	takesContext := fn.IsValid() && fn.Kind() == reflect.Func && !fn.IsNil() && fn.Type().NumIn() > 0 && !fn.Type().IsVariadic() &&
		fn.Type().In(0) == reflect.TypeFor[context.Context]()
	if !takesContext {
		return func(context.Context) error {
			return fmt.Errorf("leaselambda: Wrap needs a handler whose first parameter is a context.Context, which brings the generator, and got %T", handler)
		}
	}
	return reflect.MakeFunc(fn.Type(), func(args []reflect.Value) []reflect.Value {
		ctx, _ := args[0].Interface().(context.Context)
		args[0] = reflect.ValueOf(a.Context(ctx))
		return fn.Call(args)
	}).Interface()
}

// within is a handler that puts the agent into the context. It passes events and responses
// on without reading them, so they need not be JSON.
type within struct {
	lambda.Handler
	a *Agent
}

// Invoke implements [lambda.Handler].
func (w within) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	return w.Handler.Invoke(w.a.Context(ctx), payload)
}
