package text

import "log/slog"

// Attr lets one attribute of a log line through the gate. It is for ReplaceAttr of
// [slog.HandlerOptions], and covers messages, strings, errors and everything else
// that prints as text.
func Attr(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(Cut(a.Value.String(), MaxError))
	case slog.KindAny:
		switch v := a.Value.Any().(type) {
		case *slog.Source, slog.Level:
		case error:
			a.Value = slog.StringValue(Error(v))
		default:
			a.Value = slog.StringValue(Cut(a.Value.String(), MaxError))
		}
	}
	a.Key = Line(a.Key)
	return a
}
