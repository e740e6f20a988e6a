package demo

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
)

// process is this program again, with other arguments. It ends when its parent ends, in
// whatever way: see isolate.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout io.Reader
	stderr *tail
}

// startProcess starts a process. On Linux the kernel ends the process together with the
// thread that started it, so only a goroutine that is locked to its thread may call this.
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

// tell writes one JSON value to the stdin of the process.
func (p *process) tell(v any) error { return json.NewEncoder(p.stdin).Encode(v) }

func (p *process) pid() int { return p.cmd.Process.Pid }

// kill is kill -9. It is not an error if the process is already dead.
func (p *process) kill() { _ = p.cmd.Process.Kill() }

// wait waits for the process to end. Call it only after stdout has been read to the end.
func (p *process) wait() error {
	err := p.cmd.Wait()
	if said := p.stderr.reason(); err != nil && said != "" {
		return &exitError{err, said}
	}
	return err
}

// exitError is the error of a process that printed why it ended.
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

// reason returns the error that the program printed when it ended, or otherwise the first
// line of its output.
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

// ErrorPrefix is the beginning of the line on stderr with which this program reports the
// error that ended it.
const ErrorPrefix = "nodelease: "

// forgetAWS removes the user's AWS settings from the environment. The demo needs none of
// them, and a profile that does not exist must not stop it. Started processes inherit the
// environment.
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

// exitCode returns the exit code of a process that has ended; -1 if a signal ended it.
func (p *process) exitCode() int { return p.cmd.ProcessState.ExitCode() }
