package demo

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
)

// process is this program again, with other arguments. It ends with its parent,
// however that ends: see isolate.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout io.Reader
	stderr *tail
}

// startProcess starts one. On Linux the kernel ends it together with the thread
// that started it, so only a goroutine that is locked to its thread may call it.
func startProcess(args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(self, args...), stderr: &tail{}} //nolint:gosec // it is this program itself
	p.cmd.Stderr = p.stderr
	isolate(p.cmd)
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if p.stdout, err = p.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	return p, p.cmd.Start()
}

// tell writes one JSON value to its stdin.
func (p *process) tell(v any) error { return json.NewEncoder(p.stdin).Encode(v) }

func (p *process) pid() int { return p.cmd.Process.Pid }

// kill is kill -9. It is not an error if the process is already dead.
func (p *process) kill() { _ = p.cmd.Process.Kill() }

// wait waits for its end, after stdout was read to its end.
func (p *process) wait() error {
	err := p.cmd.Wait()
	if said := p.stderr.reason(); err != nil && said != "" {
		return &exitError{err, said}
	}
	return err
}

// exitError is the end of a process that said why.
type exitError struct {
	err  error
	said string
}

func (e *exitError) Error() string { return e.said }

func (e *exitError) Unwrap() error { return e.err }

// tail keeps the end of a process's stderr.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-8192):]
	return len(p), nil
}

// reason returns the error that the program printed at its end, or else the first line
// of its output.
func (t *tail) reason() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := string(t.text)
	if i := strings.LastIndex(text, ErrorPrefix); i >= 0 {
		text = text[i+len(ErrorPrefix):]
	}
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// ErrorPrefix is how this program begins the error that it ends with, on stderr.
const ErrorPrefix = "nodelease: "

// forgetAWS keeps the user's AWS settings out of the demo: it needs none, and a
// profile that does not exist must not stop it. Started processes inherit this.
func forgetAWS() error {
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "AWS_") {
			if err := os.Unsetenv(name); err != nil {
				return err
			}
		}
	}
	for _, name := range []string{"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"} {
		if err := os.Setenv(name, os.DevNull); err != nil {
			return err
		}
	}
	return nil
}

// exitCode is how an ended process ended; -1 by a signal.
func (p *process) exitCode() int { return p.cmd.ProcessState.ExitCode() }
