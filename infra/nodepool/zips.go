package nodepool

import (
	"archive/zip"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
)

// executable is the file that Lambda starts in a function's zip.
const executable = "bootstrap"

// validateZips refuses zips from which a function could not start. CloudFormation accepts any zip, and would then wait for the bootstrap
// function's answer until seedTimeout.
func (p Props) validateZips(arch awslambda.Architecture) error {
	machine, make := elf.EM_AARCH64, "make functions"
	if *arch.Name() == *awslambda.Architecture_X86_64().Name() {
		machine, make = elf.EM_X86_64, "make functions ARCH=amd64"
	}
	var errs []error
	for _, name := range functionNames {
		path := filepath.Join(p.FunctionsDir, name+".zip")
		if err := checkZip(path, machine); err != nil {
			errs = append(errs, fmt.Errorf("FunctionsDir has no %s.zip for %s: %w; run `%s`, or set FunctionsDir to where the zips are, and Architecture to the one of their build",
				name, *arch.Name(), err, make))
		}
	}
	return errors.Join(errs...)
}

// checkZip checks that the zip has an executable for the machine. It reads the whole file, which verifies the checksum.
func checkZip(path string, machine elf.Machine) (err error) {
	archive, err := zip.OpenReader(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer func() { err = errors.Join(err, archive.Close()) }()
	if len(archive.File) == 0 {
		return fmt.Errorf("%s is empty", path)
	}
	for _, f := range archive.File {
		if f.Name != executable {
			continue
		}
		if f.Mode()&0o111 != 0o111 || !f.Mode().IsRegular() {
			return fmt.Errorf("%s in %s has the mode %v: everybody must be able to execute it", executable, path, f.Mode())
		}
		r, err := f.Open()
		if err != nil {
			return fmt.Errorf("%s in %s: %w", executable, path, err)
		}
		text, err := io.ReadAll(r)
		if err = errors.Join(err, r.Close()); err != nil {
			return fmt.Errorf("%s in %s: %w", executable, path, err)
		}
		program, err := elf.NewFile(bytes.NewReader(text))
		if err != nil {
			return fmt.Errorf("%s in %s is no program of Linux: %w", executable, path, err)
		}
		if program.Machine != machine {
			return fmt.Errorf("%s in %s is for %v, not %v", executable, path, program.Machine, machine)
		}
		return nil
	}
	return fmt.Errorf("%s has no file %s at its top", path, executable)
}
