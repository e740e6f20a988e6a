// Command infra is the CDK app, as cdk.json runs it from the root of the repository: `npx cdk deploy Nodelease`.
//
// The app has two stacks: Nodelease, with the table and one pool, and NodeleaseService, a sample service that uses the pool. Context values set
// what differs between deployments, as in `npx cdk deploy -c size=256 Nodelease`:
//
//	pool       the pool's name (orders), or several names separated by commas
//	size       how many node IDs each pool has (1024)
//	arch       arm64, amd64 or x86_64: the target of the functions' zips (arm64)
//	functions  where the zips are (dist/functions)
//	import     the ARN of a table: adds the stack NodeleaseImport, a role that leases from it
//	throwaway  true: deleting the stack deletes the table too (false)
package main

import (
	"fmt"
	"os"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"
)

func main() {
	defer jsii.Close()
	app := awscdk.NewApp(nil)
	if len(os.Args) == 3 && os.Args[1] == "template" { // make template: see template.go
		if err := writeTemplate(app, os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if err := build(app, "."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	app.Synth(nil)
}
